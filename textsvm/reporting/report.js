"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const root = document.documentElement;
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const button = at("theme");
  const name = () => { button.textContent = isDark() ? "light" : "dark"; };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  name();

  for (const select of document.querySelectorAll("select[data-first]")) {
    const curves = select.closest("section").querySelectorAll("[data-curve]");
    const first = Number(select.dataset.first);
    select.parentElement.hidden = false;
    select.addEventListener("change", () => {
      for (const curve of curves) {
        const number = curve.dataset.curve, chosen = select.value;
        curve.classList.toggle("off", chosen === "first" ? number >= first : chosen !== "all" && number !== chosen);
      }
    });
  }

  const embedded = at("scores");
  if (!embedded) return;
  // Ascending scores of the documents of each class, each standing for so many documents.
  const data = JSON.parse(embedded.textContent);
  const above = (side, bound) => {
    const { scores, sums } = side;
    let low = 0, high = scores.length;
    while (low < high) { const mid = (low + high) >> 1; if (scores[mid] > bound) high = mid; else low = mid + 1; }
    return sums[scores.length] - sums[low];
  };
  for (const side of [data.positive, data.negative]) {
    side.sums = [0];
    side.scores.forEach((_, i) => side.sums.push(side.sums[i] + (side.counts ? side.counts[i] : 1)));
    side.all = side.sums[side.scores.length];
  }
  const percent = (part, whole) => (whole ? (100 * part / whole).toFixed(2) + " %" : "–");
  const move = (chart, x) => {
    const [low, high] = chart.dataset.x.split(" ").map(Number);
    const width = chart.viewBox.baseVal.width;
    return data.left + (Math.min(Math.max(x, low), high) - low) / (high - low) * (width - data.left - data.right);
  };
  const rise = (chart, y) => {
    const [low, high] = chart.dataset.y.split(" ").map(Number);
    const height = chart.viewBox.baseVal.height;
    return height - data.bottom - (y - low) / (high - low) * (height - data.bottom - data.top);
  };
  const dot = (id, x, y) => {
    const mark = at(id);
    if (!mark || !Number.isFinite(x) || !Number.isFinite(y)) return;
    mark.setAttribute("cx", move(mark.ownerSVGElement, x));
    mark.setAttribute("cy", rise(mark.ownerSVGElement, y));
  };
  const bound = at("threshold"), band = at("band"), line = at("score-line"), zone = at("score-band");
  const update = () => {
    const t = Number(bound.value), b = Number(band.value);
    at("threshold-value").textContent = t.toFixed(data.digits);
    at("band-value").textContent = "± " + b.toFixed(data.digits);
    const all = data.positive.all + data.negative.all;
    const tp = above(data.positive, t + b), fp = above(data.negative, t + b);
    const unsure = above(data.positive, t - b) - tp + above(data.negative, t - b) - fp;
    const precision = tp / (tp + fp), recall = tp / data.positive.all;
    const show = {
      precision: percent(tp, tp + fp), recall: percent(tp, data.positive.all),
      f1: tp ? percent(2 * tp, 2 * tp + fp + data.positive.all - tp) : "–",
      unsure: percent(unsure, all), found: tp.toLocaleString("en"),
      missed: (data.positive.all - tp).toLocaleString("en"), alarms: fp.toLocaleString("en"),
    };
    for (const key in show) at("now-" + key).textContent = show[key];
    dot("roc-dot", fp / data.negative.all, recall);
    dot("pr-dot", recall, precision);
    const chart = line.ownerSVGElement, x = move(chart, t);
    line.setAttribute("d", "M" + x + " " + data.top + "V" + (chart.viewBox.baseVal.height - data.bottom));
    zone.setAttribute("x", move(chart, t - b));
    zone.setAttribute("width", move(chart, t + b) - move(chart, t - b));
  };
  bound.addEventListener("input", update);
  band.addEventListener("input", update);
  at("controls").hidden = false;
  update();
})();
