"use strict";
/* Ties the controls, the keys and the charts together. */

class Page {
  constructor(data, readings, charts) {
    this.sensors = data.sensors;
    this.readings = readings;
    this.charts = charts;
    this.chosen = 0;
    const { start, end } = charts.view;
    this.whole = { start, end };
    this.waiting = false;
  }

  static async open() {
    const data = JSON.parse(document.getElementById("data").textContent);
    const [readings, charts] = await Promise.all([Readings.unpack(data), Charts.embed()]);
    const page = new Page(data, readings, charts);
    page.setTheme(preferredTheme());
    page.listen();
    page.colourMap(data.sensors.some((one) => one.hidden) ? "error" : "share");
    page.choose(data.first);
    return page;
  }

  choose(number) {
    this.chosen = Math.min(Math.max(number, 0), this.sensors.length - 1);
    const one = this.sensors[this.chosen];
    document.getElementById("sensor").value = String(this.chosen);
    document.getElementById("chosen-name").textContent = one.name;
    document.getElementById("chosen-unit").textContent = one.unit ? ` in ${one.unit}` : "";
    document.getElementById("status").textContent =
      `${one.observed} observed, ${one.recovered} recovered, ${one.refused} refused` +
      (one.hidden ? `; self-test error ${short(one.errors[0])}` : "");
    for (const row of document.querySelectorAll("#by-sensor tbody tr")) {
      row.setAttribute("aria-current", String(Number(row.dataset.sensor) === this.chosen));
    }
    for (const button of document.querySelectorAll("#sensor-list button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.sensor) === this.chosen));
    }
    this.charts.chooseSensor(this.chosen);
    this.draw();
  }

  draw() {
    const { start, end } = this.charts.view;
    const { places } = this.readings;
    const [from, to] = slotsWithin(places, start, end);
    const drawn = seriesView(places, this.readings.sensor(this.chosen), from, to);
    this.charts.drawSeries(drawn, { start, end, whole: start <= this.whole.start && end >= this.whole.end });
    this.drawn = drawn;
    const [first, after] = [firstAtLeast(places, start), firstAtLeast(places, end)];
    const slots = Math.max(after - first, 0);
    document.getElementById("view").textContent = !slots ? "No slot here" :
      `${this.place(places[first])} to ${this.place(places[after - 1])}: ` +
      (drawn.exact ? `each of ${slots} slots` : `${slots} slots, least and greatest of every few; zoom in for each`);
  }

  /* Several changes in one frame are drawn once. */
  drawSoon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  place(x) {
    if (!this.readings.isTime) return short(x);
    return new Date(x).toISOString().slice(0, 16).replace("T", " ").replace(" 00:00", "");
  }

  move(how) {
    const { start, end } = this.charts.view;
    const span = end - start, middle = (start + end) / 2;
    const least = 3 * (this.whole.end - this.whole.start) / this.readings.places.length;
    const most = this.whole.end - this.whole.start;
    const wanted = {
      earlier: [start - span / 3, span], later: [start + span / 3, span],
      in: [middle - span / 4, span / 2], out: [middle - span, span * 2],
      all: [this.whole.start, most],
    }[how];
    const width = Math.min(Math.max(wanted[1], least), most);
    const left = Math.min(Math.max(wanted[0], this.whole.start), this.whole.end - width);
    this.charts.view = { start: left, end: left + width };
    this.drawSoon();
  }

  colourMap(by) {
    const error = by === "error";
    const control = document.getElementById("colouring");
    if (control) control.value = by;
    const values = this.sensors.map((one) => (error ? one.errors[0] ?? null : one.share));
    const percent = (share) => `${(100 * share).toFixed(1)} %`;
    const unit = this.sensors[0].unit;
    const title = error ? `error${unit ? ` (${unit})` : ""}` : "share filled";
    this.charts.colourMap(this.sensors, values, error ? short : percent, title);
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
    this.charts.paint();
  }

  print() {
    this.before = currentTheme();
    this.setTheme("light");
    this.charts.takeStills();
    document.body.classList.add("printing");
  }

  printed() {
    document.body.classList.remove("printing");
    this.setTheme(this.before);
  }

  listen() {
    const on = (id, event, act) => document.getElementById(id)?.addEventListener(event, act);
    on("sensor", "change", (event) => this.choose(Number(event.target.value)));
    on("previous", "click", () => this.choose(this.chosen - 1));
    on("next", "click", () => this.choose(this.chosen + 1));
    on("colouring", "change", (event) => this.colourMap(event.target.value));
    on("theme", "click", () => this.setTheme(currentTheme() === "dark" ? "light" : "dark"));
    on("chart-series", "keydown", (event) => this.key(event, true));
    on("chart-heat", "keydown", (event) => this.key(event, false));
    for (const button of document.querySelectorAll("[data-view]")) {
      button.addEventListener("click", () => this.move(button.dataset.view));
    }
    for (const place of document.querySelectorAll("[data-sensor]")) {
      place.addEventListener("click", () => this.choose(Number(place.dataset.sensor)));
    }
    for (const heading of document.querySelectorAll("#by-sensor thead th")) {
      heading.firstElementChild.addEventListener("click", () => sortTable(heading));
    }
    document.addEventListener("flfl-view", () => this.drawSoon());
    document.addEventListener("flfl-heat", (event) => this.choose(Math.floor(event.detail)));
    document.addEventListener("flfl-map", () => {
      const [number] = this.charts.model("map-points").selected.indices;
      if (number !== undefined) this.choose(number);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.setTheme(preferredTheme()));
    window.addEventListener("beforeprint", () => this.print());
    window.addEventListener("afterprint", () => this.printed());
  }

  key(event, moves) {
    const views = { ArrowLeft: "earlier", ArrowRight: "later", "+": "in", "=": "in", "-": "out", 0: "all", Home: "all" };
    const sensors = { ArrowUp: -1, ArrowDown: 1 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in sensors) this.choose(this.chosen + sensors[event.key]);
    else if (moves && event.key in views) this.move(views[event.key]);
    else return;
    event.preventDefault();
  }
}

function short(number) {
  return number === null || number === undefined ? "–" : String(Number(number.toPrecision(4)));
}

/* Numbers by size, words by the alphabet, a dash last. */
function sortTable(heading) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = heading.closest("table").tBodies[0];
  const cell = (row) => row.children[heading.cellIndex].textContent.trim();
  const rows = [...body.rows].sort((a, b) => {
    const [x, y] = [cell(a), cell(b)];
    if ((x === "–") !== (y === "–")) return x === "–" ? 1 : -1;
    const order = x.localeCompare(y, "en", { numeric: true });
    const difference = Number(x) - Number(y);
    return (down ? -1 : 1) * (Number.isNaN(difference) ? order : difference);
  });
  body.append(...rows);
}

Page.open().then((page) => {
  window.flflPage = page;
  performance.mark("flfl-ready");
  document.documentElement.dataset.ready = "yes";
});
