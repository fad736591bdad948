"use strict";
/* Dark and light: the colours live in page.css; the canvases are told of them here. */

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function currentTheme() {
  return document.documentElement.dataset.theme;
}

function preferredTheme() {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function paintFrame(chart) {
  chart.background_fill_color = chart.border_fill_color = colour("panel");
  chart.outline_line_color = colour("line");
  for (const axis of [...chart.left, ...chart.below].filter((part) => "axis_line_color" in part)) {
    axis.axis_line_color = axis.major_tick_line_color = colour("line");
    axis.minor_tick_line_color = null;
    axis.major_label_text_color = colour("soft");
    axis.axis_label_text_color = colour("ink");
    axis.axis_label_text_font_style = "normal";
    axis.major_label_text_font_size = axis.axis_label_text_font_size = "12px";
  }
  for (const grid of chart.center.filter((part) => "grid_line_color" in part)) {
    grid.grid_line_color = colour("grid");
  }
  for (const bar of chart.right.filter((part) => "bar_line_color" in part)) paintColourBar(bar);
}

function paintColourBar(bar) {
  bar.background_fill_color = colour("panel");
  bar.major_label_text_color = bar.title_text_color = colour("soft");
  bar.major_label_text_font_size = bar.title_text_font_size = "12px";
  bar.title_text_font_style = "normal";
}

/* Two shares in quarters, recovered + 5 * refused, as a mixture of the three colours. */
function heatPalette() {
  const [observed, recovered, refused] = ["cell", "recovered", "refused"].map((n) => rgb(colour(n)));
  const palette = [];
  for (let lost = 0; lost <= 4; lost++) {
    for (let filled = 0; filled <= 4; filled++) {
      const [f, r] = lost + filled > 4 ? [filled / (lost + filled), lost / (lost + filled)] : [filled / 4, lost / 4];
      const mixed = observed.map((c, i) => Math.round(c * (1 - f - r) + recovered[i] * f + refused[i] * r));
      palette.push(`#${mixed.map((c) => c.toString(16).padStart(2, "0")).join("")}`);
    }
  }
  return [...palette, colour("nothing")];
}

function rgb(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}
