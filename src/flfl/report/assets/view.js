"use strict";
/* What the series chart draws of the slots in view: every slot where they fit, else the least and
   the greatest of each bucket of slots, so that no peak is lost. */

const MOST_BUCKETS = 1000;
const MOST_EXACT = 2 * MOST_BUCKETS;

/* The slots from one place to another, and one more on each side so that lines leave the frame. */
function slotsWithin(places, start, end) {
  const from = Math.max(firstAtLeast(places, start) - 1, 0);
  const to = Math.min(firstAtLeast(places, end) + 1, places.length);
  return [from, Math.max(to, Math.min(from + 1, places.length))];
}

function firstAtLeast(sorted, wanted) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < wanted) low = middle + 1; else high = middle;
  }
  return low;
}

function seriesView(places, series, from, to) {
  const exact = to - from <= MOST_EXACT;
  const drawn = exact ? everySlot(places, series, from, to) : buckets(places, series, from, to);
  return { ...drawn, exact, slots: to - from, refused: strips(places, series.flags, REFUSED, from, to), extrapolated: strips(places, series.flags, EXTRAPOLATED, from, to), ...extent(series, from, to) };
}

function emptyDrawing() {
  return {
    observed: { x: [], y: [] },
    recovered: { x: [], y: [], lower: [], upper: [] },
    line: { x: [], y: [] },
    edges: [],
  };
}

function everySlot(places, series, from, to) {
  const drawn = emptyDrawing();
  for (let t = from; t < to; t++) {
    const filled = isFilled(series.flags[t]);
    if (series.flags[t] === OBSERVED) add(drawn.observed, places[t], series.value[t]);
    if (filled) {
      add(drawn.recovered, places[t], series.value[t]);
      drawn.recovered.lower.push(series.lower[t]);
      drawn.recovered.upper.push(series.upper[t]);
    }
    // A recovered stretch is tied to the observed values at its ends, so that one slot shows too.
    const besideFilled = series.flags[t] === OBSERVED &&
      (isFilled(series.flags[t - 1]) || isFilled(series.flags[t + 1]));
    if (filled || besideFilled) {
      add(drawn.line, places[t], series.value[t]);
      drawn.edges.push([places[t], series.lower[t], series.upper[t]]);
    }
    const broken = t + 1 < to && !filled && !isFilled(series.flags[t + 1]);
    if (broken || series.flags[t] === REFUSED) breakLine(drawn);
  }
  return finish(drawn);
}

function buckets(places, series, from, to) {
  const drawn = emptyDrawing();
  const width = Math.ceil((to - from) / MOST_BUCKETS);
  // Buckets begin at multiples of their width, so that panning does not make them flicker.
  for (let start = Math.floor(from / width) * width; start < to; start += width) {
    const cells = [Math.max(start, 0), Math.min(start + width, series.flags.length)];
    for (const t of extremes(series, (flag) => flag === OBSERVED, ...cells)) add(drawn.observed, places[t], series.value[t]);
    const ends = extremes(series, isFilled, ...cells);
    if (!ends.length) { breakLine(drawn); continue; }
    for (const t of ends) add(drawn.line, places[t], series.value[t]);
    let low = Infinity, high = -Infinity;
    for (let t = cells[0]; t < cells[1]; t++) {
      if (!isFilled(series.flags[t])) continue;
      low = Math.min(low, series.lower[t]);
      high = Math.max(high, series.upper[t]);
    }
    drawn.edges.push([places[cells[0]], low, high], [places[cells[1] - 1], low, high]);
  }
  return finish(drawn);
}

/* The slots of the least and the greatest value with such a flag, in time order. */
function extremes(series, wanted, from, to) {
  let least = -1, greatest = -1;
  for (let t = from; t < to; t++) {
    if (!wanted(series.flags[t])) continue;
    if (least < 0 || series.value[t] < series.value[least]) least = t;
    if (greatest < 0 || series.value[t] > series.value[greatest]) greatest = t;
  }
  if (least < 0) return [];
  if (least === greatest) return [least];
  return least < greatest ? [least, greatest] : [greatest, least];
}

function add(points, x, y) {
  points.x.push(x);
  points.y.push(y);
}

function breakLine(drawn) {
  if (drawn.line.x.length && !Number.isNaN(drawn.line.y.at(-1))) {
    add(drawn.line, drawn.line.x.at(-1), NaN);
    drawn.edges.push(null);
  }
}

/* The band as one outline a stretch: along the upper ends, back along the lower ones. */
function finish(drawn) {
  const band = { x: [], y: [] };
  let stretch = [];
  for (const edge of [...drawn.edges, null]) {
    if (edge !== null) { stretch.push(edge); continue; }
    if (band.x.length && stretch.length) add(band, NaN, NaN);
    for (const [x, , upper] of stretch) add(band, x, upper);
    for (const [x, lower] of stretch.slice().reverse()) add(band, x, lower);
    stretch = [];
  }
  const { observed, recovered, line } = drawn;
  return { observed, recovered, line, band };
}

/* From half a step before each stretch with a flag to half a step after it. */
function strips(places, flags, flag, from, to) {
  const found = { x0: [], x1: [] };
  const between = (t) => (places[Math.max(t - 1, 0)] + places[Math.min(t, places.length - 1)]) / 2;
  for (let t = from; t < to; t++) {
    if (flags[t] !== flag) continue;
    const start = t;
    while (t + 1 < to && flags[t + 1] === flag) t++;
    found.x0.push(between(start));
    found.x1.push(between(t + 1));
  }
  return found;
}

/* The least and the greatest of what is drawn, intervals included. */
function extent(series, from, to) {
  let low = Infinity, high = -Infinity;
  for (let t = from; t < to; t++) {
    if (series.flags[t] === REFUSED) continue;
    low = Math.min(low, series.lower[t]);
    high = Math.max(high, series.upper[t]);
  }
  return { low, high };
}
