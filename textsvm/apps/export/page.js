// The page of an exported model: decide and explain the text at each change.
(() => {
  const at = (id) => document.getElementById(id), facts = JSON.parse(at("facts").textContent);
  const model = new Model(Uint8Array.from(atob(at("model").textContent), (c) => c.charCodeAt(0)));
  const percent = (p) => (100 * p).toFixed(1) + " %", several = model.classes.length > 2 || model.task === "labels";
  const pick = at("class"), first = at("text");
  const element = (name, content, kind) => {
    const node = document.createElement(name);
    node.textContent = content;
    if (kind) node.className = kind;
    return node;
  };

  // A field for each column.
  const fields = [first, ...model.columns.slice(1).map((name) => {
    const label = document.createElement("label"), field = first.cloneNode();
    field.id = `column ${name}`, field.autofocus = false;
    label.append(element("h2", name), field);
    at("fields").append(label);
    return field;
  })];
  if (model.columns.length) document.querySelector("label[for=text] h2").textContent = model.columns[0];
  if (fields.length > 1) for (const field of fields) field.style.minHeight = "4rem", field.rows = 2;
  const input = () => model.columns.length ? Object.fromEntries(model.columns.map((name, k) => [name, fields[k].value])) : first.value;
  // The columns line by line, with the sums of their contributions over the texts that hold them.
  const aligned = (columns, contributions) => {
    if (typeof columns === "string") return [columns, [...contributions]];
    const sums = Object.fromEntries(model.columns.map((name) => [name, Array(columns[name].length).fill(0)]));
    let place = 0;
    for (const names of model.about.joined) names.forEach((name, k) => {
      if (k) place++; // the line break
      for (let i = 0; i < columns[name].length; i++) sums[name][i] += contributions[place++];
    });
    return [model.columns.map((name) => columns[name]).join("\n"), model.columns.flatMap((name, k) => k ? [0, ...sums[name]] : sums[name])];
  };

  // The class of the answer, or the likeliest if it is unsure; of labels that with the largest margin.
  const answered = (decision) => {
    const best = (values) => values.indexOf(Math.max(...values));
    if (model.task === "labels") return best(decision.map((value, k) => value - (model.thresholds ? model.thresholds[k] : 0)));
    const k = model.classNumber(decision);
    return k < 0 ? best(model.probabilities(decision)) : k;
  };
  // The decision value that is explained, and the sign with which it speaks for the chosen class.
  const explained = (decision) => {
    if (!several) return [0, model.task === "classes" && answered(decision) === 0 ? -1 : 1];
    return [pick.value === "" ? answered(decision) : Number(pick.value), 1];
  };
  const side = (number, sign) => {
    if (model.task === "number") return "a higher number";
    if (model.task === "novelty") return "the known kind";
    return several ? model.classes[number] : model.classes[sign > 0 ? 1 : 0];
  };

  const sentence = (decision) => {
    const label = model.label(decision), p = model.probabilities(decision);
    if (model.task === "number") return [Number(label.toPrecision(4)).toLocaleString("en"), ""];
    const value = (v) => (v > 0 ? "+" : "") + v.toFixed(2);
    if (model.task === "novelty") return [label ? "of the known kind" : "new", `decision value ${value(decision[0])}`];
    if (model.task === "labels") return [label.length ? label.join(", ") : "no label", ""];
    const k = model.classNumber(decision);
    if (p && k >= 0) return [label, `probability ${percent(p[k])}`];
    if (p) {
      const likeliest = [...p.keys()].sort((a, b) => p[b] - p[a]).slice(0, 3);
      return [label, `probabilities ${likeliest.map((i) => `${model.classes[i]} ${percent(p[i])}`).join(", ")}`];
    }
    return [label, `decision value ${value(decision.length === 1 ? decision[0] : decision[k])}`];
  };

  // Doubts: a small margin, and substrings that are new to the model.
  const doubts = (decision, substrings) => {
    const drift = facts.drift || {}, sentences = [];
    const ordered = [...decision].sort((a, b) => b - a);
    const margin = decision.length === 1 ? Math.abs(decision[0]) : ordered[0] - ordered[1];
    if (drift.margin && model.task === "classes" && margin < 0.25 * drift.margin)
      sentences.push(`Close to the boundary: margin ${margin.toFixed(2)}, for training texts ${drift.margin.toFixed(2)} in the median.`);
    if (drift.features != null && substrings.all >= 20 && substrings.unknown / substrings.all > 1.5 * drift.features + 0.1)
      sentences.push(`${percent(substrings.unknown / substrings.all)} of its substrings of 4 characters are new to the model, of training texts ${percent(drift.features)}: do not rely on the answer.`);
    return sentences;
  };

  const colour = (shares, text) => {
    const most = shares.reduce((large, share) => Math.max(large, Math.abs(share)), 0.02), pieces = document.createDocumentFragment();
    let run = "", kind = "", i = 0;
    const close = () => {
      if (run) pieces.append(kind ? element("span", run, kind) : run);
      run = "";
    };
    for (const character of text) {
      let share = 0;
      for (const end = i + character.length; i < end; i++) share += shares[i];
      const level = Math.ceil(4 * Math.min(1, Math.abs(share) / most) - 0.3), next = level > 0 ? (share > 0 ? "f" : "a") + level : "";
      if (next !== kind) close();
      kind = next;
      run += character;
    }
    close();
    at("coloured").replaceChildren(pieces);
  };

  const words = (shares, name, text) => {
    const sums = new Map();
    for (const match of text.matchAll(/\S+/g)) {
      let sum = 0;
      for (let u = match.index; u < match.index + match[0].length; u++) sum += shares[u];
      sums.set(match[0], (sums.get(match[0]) || 0) + sum);
    }
    const ordered = [...sums].sort((a, b) => b[1] - a[1]), listed = (pairs) => pairs.map(([word, sum]) => `${word} ${sum > 0 ? "+" : ""}${sum.toFixed(2)}`).join(", ");
    const best = ordered.filter((pair) => pair[1] > 0).slice(0, 5), worst = ordered.filter((pair) => pair[1] < 0).slice(-5).reverse();
    at("words").textContent = [best.length && `Most for ${name}: ${listed(best)}.`, worst.length && `Most against: ${listed(worst)}.`].filter(Boolean).join(" ");
  };

  const table = (decision) => {
    const p = model.probabilities(decision), rows = model.classes.map((name, k) => [name, decision[k], p && p[k]]);
    rows.sort((a, b) => (p ? b[2] - a[2] : b[1] - a[1]));
    const grid = document.createElement("table"), head = grid.createTHead().insertRow(), body = grid.createTBody();
    for (const title of p ? ["class", "decision value", "probability"] : ["class", "decision value"]) head.append(element("th", title));
    for (const [name, value, probability] of rows.slice(0, 50)) {
      const row = body.insertRow();
      row.append(element("th", name), element("td", value.toFixed(3)));
      if (p) row.append(element("td", percent(probability)));
    }
    at("table").replaceChildren(grid);
  };

  const update = () => {
    const empty = fields.every((field) => !field.value.trim());
    at("why").hidden = empty;
    at("values").hidden = empty || !several;
    if (empty) return at("answer").replaceChildren();
    const decision = model.decide(input()), [number, sign] = explained(decision), [label, detail] = sentence(decision);
    const { contributions, substrings } = model.explain(input(), number, decision), name = side(number, sign);
    const [text, sums] = aligned(input(), contributions), shares = sums.map((share) => sign * share);
    at("answer").replaceChildren(
      element("strong", label), element("span", detail),
      ...doubts(decision, substrings).map((doubt) => element("p", doubt, "note doubt")));
    at("side").textContent = name;
    colour(shares, text);
    words(shares, name, text);
    if (several) table(decision);
  };

  // The heaviest features of the first classes.
  const tops = model.about.top_features, labels = [...new Set(tops.map((top) => top.label))];
  const shown = (text) => [...text].slice(0, 40).join("").replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥").replace(/\p{C}/gu, "�");
  for (const label of labels.slice(0, 12)) {
    const section = element("section", ""), name = model.classes[(model.about.classes ?? []).indexOf(label)] ?? label;
    section.append(element("h2", name));
    for (const top of tops.filter((top) => top.label === label && top.features.length)) {
      const list = element("ul", "", "substrings"), items = top.features.slice(0, 12).map(({ text, weight }) => [element("code", shown(text)), weight.toFixed(2)]);
      for (const [code, weight] of items) list.appendChild(element("li", "")).append(code, ` ${weight}`);
      section.append(element("p", top.kind, "kind"), list);
    }
    at("grid").append(section);
  }
  at("features").hidden = !labels.length;
  if (labels.length > 12) at("more").textContent = `The first 12 of ${model.classes.length} classes.`;

  if (several) {
    pick.append(new Option("the prediction", ""), ...model.classes.map((name, k) => new Option(name, k)));
    pick.closest("p").hidden = false;
    pick.addEventListener("change", update);
  }
  let waiting = 0;
  const changed = () => {
    if (!waiting) waiting = requestAnimationFrame(() => (waiting = 0, update()));
  };
  for (const field of fields) field.addEventListener("input", changed);
  at("example").hidden = !facts.example.length;
  at("example").addEventListener("click", () => {
    fields.forEach((field, k) => (field.value = facts.example[k] ?? ""));
    update();
  });
  update();
})();
