/* The search runs in a worker, which a browser does not start for a page opened from a folder.
   There it runs in a hidden frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = () => {};
      this.loaded = new Promise((done) => {
        const script = frame.contentDocument.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = done;
        frame.contentDocument.body.append(script);
      });
    }

    postMessage(data) {
      this.loaded.then(() =>
        this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })),
      );
    }

    terminate() {}
  };
}
