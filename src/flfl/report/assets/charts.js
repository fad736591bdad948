"use strict";
/* The charts that Bokeh made, by name, and what is done to them. */

class Charts {
  static async embed() {
    const views = new Map();
    for (const element of document.querySelectorAll("script.chart-item")) {
      const item = JSON.parse(element.textContent);
      const manager = await Bokeh.embed.embed_item(item);
      views.set(item.target_id, manager.roots[0]);
    }
    return new Charts(views);
  }

  constructor(views) {
    this.views = views;
  }

  model(name) {
    for (const page of Bokeh.documents) {
      const found = page.get_model_by_name(name);
      if (found) return found;
    }
    return null;
  }

  paint() {
    for (const view of this.views.values()) paintFrame(view.model);
    this.#style("draw-observed", { fill_color: "observed" });
    this.#style("draw-recovered", { fill_color: "recovered" });
    this.#style("draw-line", { line_color: "recovered" });
    this.#style("draw-band", { fill_color: "recovered" }, { fill_alpha: 0.22 });
    this.#style("draw-refused", { fill_color: "hatch", hatch_color: "hatch" }, { fill_alpha: 0.12, hatch_alpha: 0.5 });
    this.#style("draw-extrapolated", { fill_color: "recovered" }, { fill_alpha: 0.08 });
    for (let i = 0; i < 5; i++) this.#style(`bars-${i}`, { fill_color: `way-${i}` });
    this.#style("map-outline", { line_color: "coast" });
    this.#style("map-dots", { line_color: "ink" });
    this.#style("map-chosen", { line_color: "recovered" });
    this.model("heat-colours").palette = heatPalette();
    this.model("heat-window").setv({ fill_color: colour("ink"), fill_alpha: 0.08, line_color: colour("ink"), line_alpha: 0.9 });
    this.model("heat-row").setv({ line_color: colour("ink") });
  }

  #style(name, colours, others = {}) {
    const renderer = this.model(name);
    if (!renderer) return;
    const values = { ...others };
    for (const [property, variable] of Object.entries(colours)) values[property] = { value: colour(variable) };
    for (const [property, value] of Object.entries(others)) values[property] = { value };
    renderer.glyph.setv(values);
  }

  get view() {
    const { start, end } = this.model("series").x_range;
    return { start, end };
  }

  set view({ start, end }) {
    this.model("series").x_range.setv({ start, end });
  }

  drawSeries(drawn, range) {
    const text = (values) => values.map((value) => String(Number(value.toPrecision(12))));
    const { observed, recovered, line, band, refused, extrapolated } = drawn;
    this.model("observed").data = { ...observed, text: text(observed.y) };
    this.model("recovered").data = {
      x: recovered.x, y: recovered.y,
      text: recovered.y.map((y, i) => intervalText(y, recovered.lower[i], recovered.upper[i])),
    };
    this.#sizeMarks(drawn);
    this.model("line").data = line;
    this.model("band").data = band;
    this.model("refused").data = refused;
    this.model("extrapolated").data = extrapolated;
    const room = (drawn.high - drawn.low) * 0.06 || Math.abs(drawn.high) * 0.1 || 1;
    if (Number.isFinite(drawn.low)) {
      this.model("series").y_range.setv({ start: drawn.low - room, end: drawn.high + room });
    }
    this.model("heat-window").setv({ left: range.start, right: range.end, visible: !range.whole });
  }

  /* Marks shrink as they crowd; recovered ones then leave the line alone but still answer the mouse. */
  #sizeMarks({ slots }) {
    const [size, alpha] = slots > 800 ? [3, 0] : slots > 200 ? [4, 0] : [7, 1];
    this.model("draw-observed").glyph.size = { value: size };
    this.model("draw-recovered").glyph.setv({ size: { value: size + 2 }, fill_alpha: { value: alpha } });
  }

  chooseSensor(number) {
    this.model("heat-row").setv({ top: number, bottom: number + 1 });
    const points = this.model("map-points");
    if (!points) return;
    this.model("map-ring").data = { x: [points.data.x[number]], y: [points.data.y[number]] };
    // Nothing stays selected, so that the same sensor may be clicked again.
    points.selected.indices = [];
  }

  colourMap(sensors, values, show, title) {
    const points = this.model("map-points");
    if (!points) return;
    this.model("map-bar").title = title;
    points.data = {
      ...points.data,
      colour: Float64Array.from(values, (value) => value ?? NaN),
      name: sensors.map((one) => one.name),
      shown: values.map((value) => (value === null ? "–" : show(value))),
    };
    const known = values.filter((value) => value !== null);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    this.model("map-colours").setv(known.length ? { low, high: high > low ? high : low + 1 } : { low: 0, high: 1 });
  }

  /* Canvases do not shrink to paper; a still of each does. */
  takeStills() {
    for (const [target, view] of this.views) {
      const place = document.getElementById(target);
      if (place.nextElementSibling?.classList.contains("snapshot")) place.nextElementSibling.remove();
      const still = view.export("auto", true).canvas;
      still.classList.add("snapshot");
      still.setAttribute("role", "img");
      still.setAttribute("aria-label", place.getAttribute("aria-label"));
      place.after(still);
    }
  }
}

function intervalText(value, lower, upper) {
  const short = (x) => String(Number(x.toPrecision(5)));
  return lower < upper ? `${short(value)} (${short(lower)} to ${short(upper)})` : short(value);
}
