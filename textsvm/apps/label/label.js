// The page of `textsvm label`: a text at a time, everything else on the server. Texts and labels become text nodes only.
(() => {
  const at = (id) => document.getElementById(id);
  const element = (name, content = "", kind = "") => {
    const made = document.createElement(name);
    made.textContent = content;
    if (kind) made.className = kind;
    return made;
  };
  const percent = (share, digits = 0) => (share == null ? "–" : (100 * share).toFixed(digits) + " %");
  const number = (value) => Math.round(value).toLocaleString("en");
  const listed = (label) => (label == null ? "unsure" : typeof label === "string" ? label : label.join(", ") || "no label");
  let text = null, state = null, busy = false, copied = null, chosen = new Set(), searched = null;
  // Remembered in a cookie: each start has another port, and storage is of a port.
  const own = { name: null };
  try { Object.assign(own, JSON.parse(decodeURIComponent(/(?:^|; )textsvm_label=([^;]*)/.exec(document.cookie)[1]))); } catch { /* nothing is remembered */ }
  const remember = (values) => (document.cookie = `textsvm_label=${encodeURIComponent(JSON.stringify(Object.assign(own, values)))}; path=/; max-age=31536000; samesite=strict`);

  const say = (message, problem = false) => {
    at("note").textContent = message;
    at("note").className = problem ? "problem" : "";
  };
  const ask = async (action, parameters) => {
    try {
      const answer = await fetch(location.pathname.replace(/\/?$/, "/") + action, { method: "POST", body: JSON.stringify({ ...parameters, by: typeof own.name === "string" ? own.name : null }), headers: { "content-type": "application/json" } });
      return { status: answer.status, ...(await answer.json()) };
    } catch {
      return { status: 0, error: "the server does not answer; start the same command again and open its new address: every answer so far is kept" };
    }
  };
  // Ask the server; while an answer is awaited, keys and clicks do nothing.
  const act = async (action, parameters) => {
    if (busy) return null;
    busy = true;
    document.body.setAttribute("aria-busy", "true");
    const answer = await ask(action, parameters);
    busy = false;
    document.body.removeAttribute("aria-busy");
    return answer;
  };
  // Show an answer of the server; after a conflict load the text that is due.
  const act_and_show = async (action, parameters, message) => {
    let answer = await act(action, parameters);
    if (!answer) return null;
    if (answer.status !== 200) {
      const problem = answer.error[0].toUpperCase() + answer.error.slice(1) + ".";
      if (answer.status === 409) show(await act("next", {}));
      say(problem, true);
      return null;
    }
    copied = null;
    show(answer);
    say(message ? message(answer) : state.labels.length ? "" : "There is no label yet: press n for a new label.");
    at("separate").hidden = copied === null;
    return answer;
  };
  const show = (answer) => {
    if (!answer || answer.status !== 200) return;
    if (answer.state) {
      state = answer.state;
      show_state();
    }
    if ("text" in answer) {
      const same = text && answer.text && text.index === answer.text.index && text.seen === answer.text.seen;
      text = answer.text;
      if (!same) chosen = new Set(text && text.answered && Array.isArray(text.label) ? text.label : []);
      show_text();
      if (text && text.guessed) ask_guess(text);
    }
    show_labels();
  };
  // The text is shown at once; its guess follows, unless another text is shown meanwhile.
  const ask_guess = async (asked) => {
    const answer = await ask("guess", { index: asked.index, whole: asked.whole });
    if (text !== asked) return;
    if (answer.status === 200) Object.assign(text, { guess: answer.guess, pieces: answer.pieces });
    text.guessed = false;
    show_pieces();
    show_labels();
  };

  const ABOUT = {
    random: "Drawn at random for the test part, so the machine's guess is not shown.",
    doubt: "This text has been labelled before, and the machine would label it otherwise: label it again.",
    second: "Another person labels this text, too, so that your agreement can be measured.",
  };
  const voices = ({ answers }) => answers.map(([name, label]) => `${name}: ${listed(label)}`).join(" · ");
  const show_text = () => {
    const done = text === null;
    for (const id of ["unsure", "skip", "save"]) at(id).disabled = done;
    at("whole").hidden = done || !text.hidden;
    if (done) {
      at("legend").hidden = true;
      at("about").textContent = "";
      at("text").textContent = "Every text has an answer.";
      return;
    }
    const before = text.answered ? `Answered: ${listed(text.label)}.` : "";
    at("about").textContent = [text.id, voices(text), state.second ? "" : ABOUT[text.reason], before].filter(Boolean).join(" · ");
    at("whole").textContent = `Show all: ${number(text.hidden)} more characters`;
    show_pieces();
    at("text").scrollTop = 0;
  };
  // A screen reader reads the text once, when its guess has come.
  const show_pieces = () => {
    at("text").setAttribute("aria-busy", String(text.guessed));
    at("text").replaceChildren(...text.pieces.map(([piece, step]) => (step ? element("span", piece, (step > 0 ? "f" : "a") + Math.abs(step)) : piece)));
    at("legend").hidden = !text.guessed && !text.pieces.some(([, step]) => step);
    at("legend").textContent = text.guess ? `Warm and underlined: speaks for ${best()}. Cold and dotted: speaks against it.` : "\u00a0";
  };
  const best = () => Object.entries(text.guess).reduce((a, b) => (b[1] > a[1] ? b : a))[0];

  const show_labels = () => {
    const box = at("labels"), guess = (text && text.guess) || {};
    const same = box.children.length === state.labels.length && state.labels.every((label, i) => box.children[i].value === label);
    if (!same) {
      box.replaceChildren(...state.labels.map((label, i) => {
        const button = element("button", "", "c" + ((i % 8) + 1));
        button.type = "button";
        button.value = label;
        button.append(i < 9 ? element("kbd", i + 1) : "", element("b", label), element("small"));
        if (i < 9) button.setAttribute("aria-keyshortcuts", i + 1);
        button.addEventListener("click", () => choose(label));
        return button;
      }));
    }
    for (const button of box.children) {
      const label = button.value, own = text && text.answered && text.label === label;
      button.disabled = text === null;
      button.classList.toggle("best", Boolean(text && text.guess) && !state.multilabel && best() === label);
      button.lastChild.textContent = Object.hasOwn(guess, label) ? percent(guess[label]) : "";
      button.setAttribute("aria-pressed", String(state.multilabel ? chosen.has(label) : Boolean(own)));
    }
    at("save").hidden = !state.multilabel;
  };
  // A line of a list: a button that closes its dialog.
  const line = (action, ...parts) => {
    const line = element("li"), button = element("button");
    button.type = "button";
    button.append(...parts);
    button.addEventListener("click", () => {
      for (const dialog of document.querySelectorAll("dialog")) dialog.close();
      action();
    });
    line.append(button);
    return line;
  };
  const colour = (label) => (label < 0 ? "" : "c" + ((label % 8) + 1));
  const entry = (each, reason = "") => {
    const place = state.labels.indexOf(Array.isArray(each.label) ? each.label[0] : each.label);
    const label = each.answered ? element("b", listed(each.label), colour(place)) : "";
    return line(() => act_and_show("show", { index: each.index, reason, whole: false }), label, element("span", (each.copy ? "copy: " : "") + each.text));
  };
  const tile = (name, value, more = "") => {
    const box = element("div"), shown = element("dd", value);
    if (more) shown.append(element("small", more));
    box.append(element("dt", name), shown);
    return box;
  };
  const show_state = () => {
    const progress = state.progress, tiles = [tile("labelled", number(progress.n_labelled), `of ${number(state.n)}`)];
    document.title = document.querySelector("h1").textContent = `Label ${state.title}`;
    at("problem").textContent = state.problem ? `The machine cannot learn at the moment: ${state.problem}. Your answers are kept; go on labelling.` : "";
    at("undo").disabled = !state.undo;
    at("history").replaceChildren(...state.history.map((each) => entry(each)));
    at("older").hidden = state.history.length < 30;
    if (!state.second) show_progress(progress, tiles);
    if (state.people) show_people(state.people, tiles);
    at("who").firstChild.textContent = state.by ? `${state.by} ` : "Your name ";
    at("tiles").replaceChildren(...tiles);
  };
  const show_people = ({ names, n, equal, kappa, alpha, open }, tiles) => {
    const beyond = [["Cohen's kappa", kappa], ["Krippendorff's alpha", alpha]].filter(([, value]) => value != null).map(([name, value]) => `${name} ${value.toFixed(2)}`);
    tiles.push(...names.map(([name, answers]) => tile(name, number(answers), "answers")), tile("agreement", percent(n ? equal / n : null), beyond.join(", ") || `${n} texts of two people`), tile("to decide", number(open), "different labels"));
  };
  const show_progress = (progress, tiles) => {
    const interval = progress.accuracy == null ? "needs random texts of two labels" : `${percent(progress.interval[0])} to ${percent(progress.interval[1])}`;
    tiles.push(tile("accuracy, estimated", percent(progress.accuracy), interval));
    tiles.push(tile("random texts", number(progress.n_random), "for the estimate"));
    if (progress.labels_per_point != null) tiles.push(tile("one point more", "about " + number(Number(progress.labels_per_point.toPrecision(1))), "further labels"));
    at("curve").replaceChildren(progress.curve.length > 1 ? curve(progress.curve) : "");
    const search = progress.retrieval, stop = at("stop");
    stop.className = search && search.enough ? "note enough" : "note";
    stop.textContent = !search ? "" : search.enough
      ? `You may stop: at least 95 % of the texts of “${state.relevant}” are probably found (${number(search.n_found)}). This was right in 19 of 20 searches of tests.`
      : `“${state.relevant}”: ${number(search.n_found)} found${search.total == null ? "" : ` of about ${number(Math.round(search.total))}`}. Go on: 95 % are not yet likely to be found.`;
  };
  // Learning curve: accuracy by number of labels.
  const curve = (points) => {
    const drawn = (name, values, content = "") => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
      made.textContent = content;
      return made;
    };
    const last = points[points.length - 1], low = Math.floor(Math.min(...points.map(([, y]) => y)) * 10) / 10;
    const x = (n) => 38 + (222 * n) / last[0], y = (share) => 92 - (80 * (share - low)) / (1 - low || 1);
    const spoken = "Learning curve: " + points.map(([n, share]) => `${n} labels ${percent(share)}`).join(", ");
    const svg = drawn("svg", { viewBox: "0 0 270 116", role: "img", "aria-label": spoken, class: "c1" });
    svg.append(
      drawn("path", { class: "grid", d: "M38 12H260M38 92H260" }),
      drawn("text", { class: "end", x: 33, y: 16 }, "100 %"),
      drawn("text", { class: "end", x: 33, y: 96 }, percent(low)),
      drawn("text", { class: "end", x: 260, y: 110 }, `${number(last[0])} labels`),
      drawn("path", { class: "line", d: "M" + points.map(([n, share]) => `${x(n).toFixed(1)} ${y(share).toFixed(1)}`).join("L") }),
    );
    return svg;
  };

  // Actions
  const answer = (label) => {
    if (!text) return;
    const parameters = { index: text.index, seen: text.seen, label };
    act_and_show(text.reason === "decision" && text.answers.length ? "decide" : "answer", parameters, (result) => {
      copied = result.copies ? result.answered : null;
      const copies = result.copies === 1 ? " and a near-copy of it" : result.copies ? ` and ${number(result.copies)} near-copies` : "";
      return `Saved: ${listed(label)}${copies}.`;
    });
  };
  const choose = (label) => {
    if (busy || !text) return;
    if (!state.multilabel) return answer(label);
    if (!chosen.delete(label)) chosen.add(label);
    show_labels();
  };
  const actions = {
    save: () => state.multilabel && answer(state.labels.filter((label) => chosen.has(label))),
    unsure: () => answer(null),
    skip: () => text && act_and_show("skip", { index: text.index }),
    undo: () => state.undo && act_and_show("undo", { events: state.events }, (result) => (result.skipped ? "Back again: the text that you skipped." : "Undone: the answer to this text.")),
    separate: () => copied !== null && act_and_show("separate", { index: copied }, (result) => `Undone: ${number(result.separated)} near-copies.`),
    new: () => {
      at("known").replaceChildren(...state.labels.map(removal));
      open("naming", "name");
    },
    find: () => open("search", "words"),
    whole: () => text && act_and_show("show", { index: text.index, reason: text.reason, whole: true }),
    older: async () => {
      const answer = await act("history", { skip: at("history").children.length });
      if (!answer || answer.status !== 200) return;
      at("history").append(...answer.history.map((each) => entry(each)));
      at("older").hidden = answer.history.length < 30;
    },
    further: () => search(searched.next),
    who: () => { at("person").value = own.name || ""; open("naming_me", "person"); },
    sit: () => { remember({ name: at("person").value.trim() || null }); at("naming_me").close(); act_and_show("next", {}); },
    export: () => open("exporting", "format"),
    download: async () => {
      const format = at("format").value, file = await act("export", { format, labels: at("which").value });
      at("exporting").close();
      if (!file || file.status !== 200) return void say(file ? file.error : "", true);
      download(`labels.${{ csv: "csv", labelstudio: "json", argilla: "json" }[format] || "jsonl"}`, "text/plain", file.content);
    },
    review: async () => {
      const found = await act("review", {});
      if (!found || found.status !== 200) return;
      const day = (time) => new Date(time).toLocaleString(undefined, { weekday: "long", day: "numeric", month: "long" });
      at("disagreements").replaceChildren(...found.disagreements.map((each) => entry({ ...each, text: `${voices(each)} · ${each.text}` }, "decision")));
      at("drift").replaceChildren(...found.drift.map((each) => entry({ ...each, text: `${listed(each.before)} on ${day(each.at)} · ${each.text}` })));
      at("review_note").textContent = found.disagreements.length + found.drift.length ? "" : "There is nothing to review.";
      open("reviewing", "close_review");
    },
    add: async () => {
      const label = at("name").value;
      at("naming").close();
      if (label.trim()) await act_and_show("add_label", { label }, () => `New label: ${label.trim()}.`);
    },
  };
  const removal = (label, i) => line(() => act_and_show("remove_label", { label }, () => `Removed: ${label}.`), element("span", "Remove "), element("b", label, colour(i)));
  const open = (dialog, input) => {
    at(dialog).showModal();
    (at(input).select || at(input).focus).call(at(input));
  };
  const search = async (start) => {
    const words = start ? searched.words : at("words").value;
    const answer = await act("search", { words, start });
    if (!answer || answer.status !== 200) return void (at("matches").textContent = answer ? answer.error : "");
    searched = { words, next: answer.next };
    const lines = answer.entries.map((each) => entry(each));
    if (start) at("results").append(...lines); else at("results").replaceChildren(...lines);
    const place = answer.next === null ? "all texts" : `${number(answer.next)} of ${number(state.n)} texts`;
    at("matches").textContent = `${number(at("results").children.length)} found in ${place}.`;
    at("further").hidden = answer.next === null;
  };

  for (const [id, action] of Object.entries(actions)) at(id).addEventListener("click", action);
  for (const button of document.querySelectorAll(".close")) button.addEventListener("click", () => button.closest("dialog").close());
  const on_enter = (id, action) => at(id).addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    action();
  });
  on_enter("words", () => search(0));
  on_enter("name", actions.add);
  on_enter("person", actions.sit);
  const keys = { 0: "unsure", "?": "unsure", s: "skip", u: "undo", n: "new", "/": "find", c: "separate", r: "review", e: "export", w: "who" };
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]") || event.ctrlKey || event.altKey || event.metaKey || event.repeat || !state) return;
    const label = /^[1-9]$/.test(event.key) ? state.labels[event.key - 1] : undefined, action = keys[event.key.toLowerCase()];
    if (label !== undefined) choose(label);
    else if (event.key === "Enter" && state.multilabel && (event.target.closest("#labels") || !event.target.matches("button"))) actions.save();
    else if (action) actions[action]();
    else return;
    event.preventDefault();
  });
  act_and_show("next", {}).then(() => state && state.ask && !own.name && actions.who());
})();
