"use strict";
/* Unpacks what packing.py packed. One sensor at a time is spread out into plain arrays. */

const OBSERVED = 0, RECOVERED = 1, REFUSED = 2, EXTRAPOLATED = 3;
const isFilled = (flag) => flag === RECOVERED || flag === EXTRAPOLATED;

async function inflate(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* Four byte planes of differences, back to the whole numbers. */
function wholeNumbers(planes) {
  const n = planes.length / 4;
  const numbers = new Int32Array(n);
  let sum = 0;
  for (let i = 0; i < n; i++) {
    const step = planes[i] | (planes[n + i] << 8) | (planes[2 * n + i] << 16) | (planes[3 * n + i] << 24);
    sum = (sum + step) | 0;
    numbers[i] = sum;
  }
  return numbers;
}

function slotPlaces(runs) {
  const places = [];
  for (const [first, step, count] of runs) {
    for (let i = 0; i < count; i++) places.push(first + i * step);
  }
  return Float64Array.from(places);
}

class Readings {
  static async unpack(packed) {
    const { flags, values, below, above } = packed.streams;
    const [flagBytes, ...planes] = await Promise.all([flags, values, below, above].map(inflate));
    return new Readings(packed, flagBytes, ...planes.map(wholeNumbers));
  }

  constructor(packed, flags, values, below, above) {
    this.places = slotPlaces(packed.slots.runs);
    this.isTime = packed.slots.isTime;
    this.decimals = packed.decimals;
    this.streams = { flags, values, below, above };
    this.starts = this.#countStarts();
    this.spread = new Map();
  }

  /* Where each sensor begins in the streams that leave cells out. */
  #countStarts() {
    const slots = this.places.length;
    const starts = [];
    let shown = 0, filled = 0;
    for (let sensor = 0; sensor < this.decimals.length; sensor++) {
      starts.push({ shown, filled });
      for (let i = sensor * slots; i < (sensor + 1) * slots; i++) {
        if (this.streams.flags[i] !== REFUSED) shown++;
        if (isFilled(this.streams.flags[i])) filled++;
      }
    }
    return starts;
  }

  sensor(number) {
    if (!this.spread.has(number)) this.spread.set(number, this.#unpackSensor(number));
    return this.spread.get(number);
  }

  #unpackSensor(number) {
    const slots = this.places.length;
    const { values, below, above } = this.streams;
    const flags = this.streams.flags.subarray(number * slots, (number + 1) * slots);
    const [value, lower, upper] = [0, 0, 0].map(() => new Float64Array(slots).fill(NaN));
    const decimals = this.decimals[number];
    const read = reader(decimals);
    let { shown, filled } = this.starts[number];
    for (let t = 0; t < slots; t++) {
      if (flags[t] === REFUSED) continue;
      const whole = values[shown++];
      value[t] = lower[t] = upper[t] = read(whole);
      if (!isFilled(flags[t])) continue;
      lower[t] = decimals === null ? read(below[filled]) : read(whole - below[filled]);
      upper[t] = decimals === null ? read(above[filled]) : read(whole + above[filled]);
      filled++;
    }
    return { flags, value, lower, upper };
  }
}

/* A whole number as the reading that it stands for. */
function reader(decimals) {
  if (decimals !== null) {
    const scale = 10 ** decimals;
    return (whole) => whole / scale;
  }
  const bits = new Int32Array(1);
  const float = new Float32Array(bits.buffer);
  // Seven figures are what a float32 holds; more would be made up.
  return (whole) => { bits[0] = whole; return Number(float[0].toPrecision(7)); };
}
