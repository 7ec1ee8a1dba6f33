"use strict";
// Save a text as a file of the reader.
const download = (name, type, text) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
};
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
  const missed = at("cost-missed"), alarm = at("cost-alarm");
  // What errors cost at a threshold, for each document; not a number unless the reader has said both costs.
  const cost = (t) => {
    const [miss, wrong] = [missed, alarm].map((field) => (Number(field.value) >= 0 ? field.valueAsNumber : NaN));
    const all = data.positive.all + data.negative.all;
    return (miss * (data.positive.all - above(data.positive, t)) + wrong * above(data.negative, t)) / all;
  };
  // The middle of the gap between scores in which the threshold costs least.
  const cheapest = () => {
    const [low, high] = [Number(bound.min), Number(bound.max)];
    const scores = [low, ...data.positive.scores, ...data.negative.scores, high];
    const ends = Float64Array.from(scores.filter((s) => s >= low && s <= high)).sort();
    let best = low;
    for (let i = 1; i < ends.length; i++) {
      const middle = (ends[i - 1] + ends[i]) / 2;
      if (cost(middle) < cost(best)) best = middle;
    }
    return best;
  };
  const bound = at("threshold"), band = at("band"), line = at("score-line"), zone = at("score-band");
  const cells = (counts) => {
    for (const [truth, row] of counts.entries()) {
      const all = row[0] + row[1];
      for (const [said, count] of row.entries()) {
        const cell = at("cell-" + truth + said);
        cell.firstChild.textContent = count.toLocaleString("en");
        cell.lastChild.textContent = all ? (100 * count / all).toFixed(1) + " %" : "–";
        cell.style.setProperty("--a", (count / Math.max(1, all)).toFixed(2));
      }
    }
  };
  const drawCosts = () => {
    const chart = line.ownerSVGElement, [low, high] = [Number(bound.min), Number(bound.max)];
    const at200 = Array.from({ length: 201 }, (_, i) => low + i / 200 * (high - low)), costs = at200.map(cost);
    const most = Math.max(...costs), height = chart.viewBox.baseVal.height - data.bottom - data.top;
    const points = at200.map((t, i) => move(chart, t) + " " + (data.top + height * (1 - costs[i] / most)));
    at("cost-line").setAttribute("d", most > 0 ? "M" + points.join("L") : "");
  };
  const weigh = () => {
    if (Number.isFinite(cost(0))) {
      const best = cheapest();
      bound.value = best;
      at("least").textContent = "least cost " + cost(best).toPrecision(3) + " a document at " + best.toFixed(data.digits);
    } else at("least").textContent = "";
    drawCosts();
    update(true);
  };
  const update = (moved) => {
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
      cost: Number.isFinite(cost(t + b)) ? cost(t + b).toPrecision(3) : "–",
    };
    if (moved) cells([[data.negative.all - fp, fp], [data.positive.all - tp, tp]]);
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
  missed.addEventListener("input", weigh);
  alarm.addEventListener("input", weigh);
  at("controls").hidden = false;
  update(false);
})();
