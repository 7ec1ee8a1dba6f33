// The page of `textsvm label`: a text at a time, everything else on the server. Texts and labels become text nodes only.
(() => {
  const at = (id) => document.getElementById(id);
  const element = (name, content = "", kind = "") => Object.assign(document.createElement(name), { textContent: content, className: kind });
  // An element with parts; a button has an action.
  const built = (name, parts, action) => {
    const node = element(name);
    node.append(...parts);
    if (action) Object.assign(node, { type: "button", onclick: action });
    return node;
  };
  // Strings in the language of the browser, from label.json; English is the key.
  const words = JSON.parse(at("strings").textContent), languages = Object.keys(Object.values(words)[0]);
  const language = navigator.languages.map((code) => code.slice(0, 2)).find((code) => code === "en" || languages.includes(code)) || "en";
  const t = (key, ...values) => ((words[key] || {})[language] || key).replace(/\{(\d)\}/g, (_, i) => values[i]);
  document.documentElement.lang = language;
  for (const node of document.querySelectorAll("#desk *, dialog, dialog *")) {
    if (node.ariaLabel) node.ariaLabel = t(node.ariaLabel);
    for (const part of node.childNodes) if (part.nodeType === 3 && part.data.trim()) part.data = part.data.replace(part.data.trim(), () => t(part.data.trim()));
  }
  const percent = (share, digits = 0) => (share == null ? "–" : (100 * share).toFixed(digits) + " %");
  const number = (value) => Math.round(value).toLocaleString(language);
  const listed = (label) => (label == null ? t("unsure") : typeof label === "string" ? label : label.join(", ") || t("no label"));
  let text = null, state = null, busy = false, copied = null, chosen = new Set(), searched = null;
  // Remembered in a cookie: each start has another port, and storage is of a port.
  const remembered = () => { try { return JSON.parse(decodeURIComponent(/(?:^|; )textsvm_label=([^;]*)/.exec(document.cookie)[1])); } catch { return {}; } };
  const own = { name: null, ...remembered() };
  const remember = (values) => {
    Object.assign(own, values);
    document.cookie = `textsvm_label=${encodeURIComponent(JSON.stringify({ ...remembered(), ...values }))}; path=/; max-age=31536000; samesite=strict`;
  };
  // A tab keeps its name when another tab of the browser takes another name.
  const tab = (name) => { try { if (name !== undefined) sessionStorage.setItem("name", name); return sessionStorage.getItem("name"); } catch { return null; } };
  own.name = tab() ?? own.name;
  tab(own.name || "");

  const say = (message, problem = false) => Object.assign(at("note"), { textContent: message, className: problem ? "problem" : "" });
  const ask = async (action, parameters) => {
    try {
      const answer = await fetch(location.pathname.replace(/\/?$/, "/") + action, { method: "POST", body: JSON.stringify({ ...parameters, by: typeof own.name === "string" ? own.name : null }), headers: { "content-type": "application/json" } });
      return { status: answer.status, ...(await answer.json()) };
    } catch {
      return { status: 0, error: t("the server does not answer; start the same command again and open its new address: every answer so far is kept") };
    }
  };
  const letters = new Map(Array.isArray(own.letters) ? own.letters : []);  // letters of one's own for labels
  const colour = (place) => (place < 0 ? "" : "c" + ((place % 8) + 1));
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
  const message_of = ({ error, message, values }) => {
    const translated = message ? t(message, ...values) : error;
    return translated[0].toUpperCase() + translated.slice(1) + (language === "zh" ? "。" : ".");
  };
  // Show an answer of the server; after a conflict load the text that is due.
  const act_and_show = async (action, parameters, message) => {
    let answer = await act(action, parameters);
    if (!answer) return null;
    if (answer.status !== 200) {
      const problem = message_of(answer);
      if (answer.status === 409) show(await act("next", {}));
      say(problem, true);
      return null;
    }
    copied = null;
    show(answer);
    say(message ? message(answer) : state.labels.length ? "" : t("There is no label yet: press n for a new label."));
    at("separate").hidden = copied === null;
    return answer;
  };
  const show = (answer) => {
    if (!answer || answer.status !== 200) return;
    if (answer.state) { state = answer.state; show_state(); }
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
    random: t("Drawn at random for the test part, so the machine's guess is not shown."),
    doubt: t("This text has been labelled before, and the machine would label it otherwise: label it again."),
    second: t("Another person labels this text, too, so that your agreement can be measured."),
  };
  const voices = ({ answers }) => answers.map(([name, label]) => `${name}: ${listed(label)}`).join(" · ");
  const show_text = () => {
    const done = text === null;
    for (const id of ["unsure", "skip", "save"]) at(id).disabled = done;
    at("whole").hidden = done || !text.hidden;
    if (done) {
      at("legend").hidden = true;
      at("about").textContent = "";
      return void (at("text").textContent = t("Every text has an answer."));
    }
    const before = text.answered ? t("Answered: {0}.", listed(text.label)) : "";
    at("about").textContent = [text.id, voices(text), text.suggestion ? t("Suggested: {0}.", listed(text.suggestion)) : "", ABOUT[text.reason], before].filter(Boolean).join(" · ");
    at("whole").textContent = t("Show all: {0} more characters", number(text.hidden));
    show_pieces();
    at("text").scrollTop = 0;
  };
  // A screen reader reads the text once, when its guess has come.
  const show_pieces = () => {
    at("text").setAttribute("aria-busy", String(text.guessed));
    at("text").replaceChildren(...text.pieces.map(([piece, step]) => (step ? element("span", piece, (step > 0 ? "f" : "a") + Math.abs(step)) : piece)));
    at("legend").hidden = !text.guessed && !text.pieces.some(([, step]) => step);
    at("legend").textContent = text.guess ? t("Warm and underlined: speaks for {0}. Cold and dotted: speaks against it.", best()) : "\u00a0";
  };
  const best = () => Object.entries(text.guess).reduce((a, b) => (b[1] > a[1] ? b : a))[0];

  const show_labels = () => {
    const box = at("labels"), guess = (text && text.guess) || {}, n = new Map(state.counts);
    const same = box.children.length === state.labels.length && state.labels.every((label, i) => box.children[i].value === label);
    if (!same)
      box.replaceChildren(...state.labels.map((label, i) => {
        const letter = letters.get(label) || (i < 9 ? String(i + 1) : "");
        const button = built("button", [letter && element("kbd", letter), element("b", label), element("small")], () => choose(label));
        if (letter) button.setAttribute("aria-keyshortcuts", letter);
        return Object.assign(button, { value: label, className: colour(i) });
      }));
    for (const button of box.children) {
      const label = button.value, own = text && text.answered && text.label === label;
      button.disabled = text === null;
      button.classList.toggle("best", Boolean(text && text.guess) && !state.multilabel && best() === label);
      button.lastChild.textContent = [Object.hasOwn(guess, label) && percent(guess[label]), n.get(label) && t("{0} labelled", number(n.get(label)))].filter(Boolean).join(" · ");
      button.setAttribute("aria-pressed", String(state.multilabel ? chosen.has(label) : Boolean(own)));
    }
    at("save").hidden = !state.multilabel;
  };
  // A line of a list: a button that closes its dialog.
  const line = (action, ...parts) => built("li", [built("button", parts, () => {
    for (const dialog of document.querySelectorAll("dialog")) dialog.close();
    action();
  })]);
  const tag = ({ label }) => element("b", listed(label), colour(state.labels.indexOf(Array.isArray(label) ? label[0] : label)));
  const entry = (item, reason = "") => line(() => act_and_show("show", { index: item.index, reason, whole: false }), item.answered ? tag(item) : "", element("span", (item.copy ? t("copy:") + " " : "") + item.text));
  const tile = (name, value, more = "") => built("div", [element("dt", name), built("dd", [value, more && element("small", more)])]);
  const show_state = () => {
    const progress = state.progress, tiles = [tile(t("labelled"), number(progress.n_labelled), t("of {0}", number(state.n)))];
    document.title = document.querySelector("h1").textContent = t("Label {0}", state.title);
    at("problem").textContent = state.problem ? t("The machine cannot learn at the moment: {0}. Your answers are kept; go on labelling.", state.problem) : "";
    at("undo").disabled = !state.undo;
    at("history").replaceChildren(...state.history.map((item) => entry(item)));
    at("older").hidden = state.history.length < 30;
    show_progress(progress, tiles);
    if (state.people) show_people(state.people, tiles);
    if (state.suggestions) show_suggestions(state.suggestions, tiles);
    at("who").firstChild.textContent = state.by ? `${state.by} ` : t("Your name") + " ";
    at("tiles").replaceChildren(...tiles);
  };
  const show_people = ({ names, n, equal, alpha, open }, tiles) => {
    const beyond = alpha == null ? "" : `, Krippendorff's alpha ${alpha.toFixed(2)}`;
    tiles.push(...names.map(([name, answers]) => tile(name, number(answers), t("answers"))), tile(t("agreement"), percent(n ? equal / n : null), t("{0} texts of two people", n) + beyond), tile(t("to decide"), number(open), t("different labels")));
  };
  const show_progress = (progress, tiles) => {
    const interval = progress.accuracy == null ? t("needs random texts of two labels") : t("{0} to {1}", ...progress.interval.map((end) => percent(end)));
    tiles.push(tile(state.relevant ? t("accuracy of the search's ranking") : t("accuracy, estimated"), percent(progress.accuracy), interval));
    tiles.push(tile(t("random texts"), number(progress.n_random), t("for the estimate")));
    if (progress.labels_per_point != null) tiles.push(tile(t("one point more"), t("about {0}", number(Number(progress.labels_per_point.toPrecision(1)))), t("further labels")));
    at("curve").replaceChildren(progress.curve.length > 1 ? curve(progress.curve) : "");
    const search = progress.retrieval, stop = at("stop");
    stop.className = search && search.enough ? "note enough" : "note";
    stop.textContent = !search ? "" : search.enough
      ? t("You may stop: at least 95 % of the texts of “{0}” are probably found ({1}). This was right in 19 of 20 simulated searches.", state.relevant, number(search.n_found))
      : t(search.total == null ? "“{0}”: {1} found. Go on: 95 % are not yet likely to be found." : "“{0}”: {1} found of about {2}. Go on: 95 % are not yet likely to be found.", state.relevant, number(search.n_found), number(Math.round(search.total)));
  };
  const show_suggestions = ({ n, right, interval: [low, high], weight }, tiles) => tiles.push(tile(t("suggestions right"), percent(n ? right / n : null), n ? t("{0} to {1}, weight {2}", percent(low), percent(high), weight.toFixed(2)) : t("needs random texts")));
  // Learning curve: accuracy by number of labels.
  const curve = (points) => {
    const drawn = (name, values, content = "") => {
      const node = Object.assign(document.createElementNS("http://www.w3.org/2000/svg", name), { textContent: content });
      for (const [key, value] of Object.entries(values)) node.setAttribute(key, value);
      return node;
    };
    const last = points[points.length - 1], low = Math.floor(Math.min(...points.map(([, y]) => y)) * 10) / 10;
    const x = (n) => 38 + (222 * n) / last[0], y = (share) => 92 - (80 * (share - low)) / (1 - low || 1);
    const spoken = t("Learning curve: {0}", points.map(([n, share]) => `${t("{0} labels", n)} ${percent(share)}`).join(", "));
    const svg = drawn("svg", { viewBox: "0 0 270 116", role: "img", "aria-label": spoken, class: "c1" });
    svg.append(
      drawn("path", { class: "grid", d: "M38 12H260M38 92H260" }),
      drawn("text", { class: "end", x: 33, y: 16 }, "100 %"),
      drawn("text", { class: "end", x: 33, y: 96 }, percent(low)),
      drawn("text", { class: "end", x: 260, y: 110 }, t("{0} labels", number(last[0]))),
      drawn("path", { class: "line", d: "M" + points.map(([n, share]) => `${x(n).toFixed(1)} ${y(share).toFixed(1)}`).join("L") }),
    );
    return svg;
  };

  // Actions
  const answer = (label) => {
    if (!text) return;
    act_and_show(text.answers.length ? "decide" : "answer", { index: text.index, seen: text.seen, label }, (result) => {
      copied = result.copies ? result.answered : null;
      return t(result.copies ? "Saved: {0}. Near-copies with it: {1}." : "Saved: {0}.", listed(label), number(result.copies));
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
    undo: () => state.undo && act_and_show("undo", { events: state.events }, (result) => t(result.skipped ? "Back again: the text that you skipped." : "Undone: the answer to this text.")),
    separate: () => copied !== null && act_and_show("separate", { index: copied }, (result) => t("Undone: {0} near-copies.", number(result.separated))),
    new: () => { at("known").replaceChildren(...state.labels.map(removal)); open("naming", "name"); },
    find: () => open("search", "words"),
    whole: () => text && act_and_show("show", { index: text.index, reason: text.reason, whole: true }),
    older: async () => {
      const { history } = (await act("history", { skip: at("history").children.length })) || {};
      if (history) at("history").append(...history.map((item) => entry(item)));
      at("older").hidden = history && history.length < 30;
    },
    further: () => search(searched.next),
    who: () => { at("person").value = own.name || ""; open("naming_me", "person"); },
    sit: () => {
      remember({ name: at("person").value.trim() || null });
      tab(own.name || "");
      at("naming_me").close();
      act_and_show("next", {}, () => `${t("Your name")}: ${state.by || "–"}`);
    },
    export: () => open("exporting", "format"),
    download: async () => {
      const suffix = at("format").value, file = await act("export", { suffix });
      at("exporting").close();
      if (!file || file.status !== 200) say(file ? message_of(file) : "", true);
      else download(`labels${suffix}`, "text/plain", file.content);
    },
    review: async () => {
      const reviewed = await act("review", {});
      if (!reviewed || reviewed.status !== 200) return;
      at("disagreements").replaceChildren(...reviewed.disagreements.map((item) => entry({ ...item, text: [voices(item), item.text].filter(Boolean).join(" · ") }, "decision")));
      at("review_note").textContent = reviewed.disagreements.length ? "" : t("There is nothing to review.");
      open("reviewing", "close_review");
    },
    add: () => { const label = at("name").value.trim(); at("naming").close(); if (label) act_and_show("add_label", { label }, () => t("New label: {0}.", label)); },
  };
  const removal = (label, i) => {
    const letter = Object.assign(element("input", "", "letter"), { maxLength: 1, value: letters.get(label) || "", ariaLabel: t("Key for {0}", label) });
    letter.onchange = () => {
      const key = letter.value.toLowerCase(), taken = key in keys || /[1-9]/.test(key) || [...letters].some(([other, used]) => used === key && other !== label);
      if (taken || !key.trim()) letter.value = "";
      if (letter.value) letters.set(label, key); else letters.delete(label);
      remember({ letters: [...letters] });
      at("labels").replaceChildren();
      show_labels();
    };
    const row = line(() => act_and_show("remove_label", { label }, () => t("Removed: {0}.", label)), element("span", t("Remove") + " "), element("b", label, colour(i)));
    row.append(letter);
    return row;
  };
  const open = (dialog, input) => { at(dialog).showModal(); at(input).focus(); if (at(input).select) at(input).select(); };
  const search = async (start) => {
    const words = start ? searched.words : at("words").value;
    const answer = await act("search", { words, start });
    if (!answer || answer.status !== 200) return void (at("matches").textContent = answer ? message_of(answer) : "");
    searched = { words, next: answer.next };
    const lines = answer.entries.map((item) => entry(item));
    if (start) at("results").append(...lines); else at("results").replaceChildren(...lines);
    const place = answer.next === null ? t("all texts") : t("{0} of {1} texts", number(answer.next), number(state.n));
    at("matches").textContent = t("{0} found in {1}.", number(at("results").children.length), place);
    at("further").hidden = answer.next === null;
  };

  for (const [id, action] of Object.entries(actions)) at(id).addEventListener("click", action);
  for (const button of document.querySelectorAll(".close")) button.addEventListener("click", () => button.closest("dialog").close());
  const on_enter = (id, action) => at(id).addEventListener("keydown", (event) => event.key === "Enter" && !event.isComposing && (event.preventDefault(), action()));
  on_enter("words", () => search(0));
  on_enter("name", actions.add);
  on_enter("person", actions.sit);
  const keys = { 0: "unsure", "?": "unsure", s: "skip", u: "undo", n: "new", "/": "find", c: "separate", r: "review", e: "export", w: "who" };
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]") || event.ctrlKey || event.altKey || event.metaKey || event.repeat || !state) return;
    const label = /^[1-9]$/.test(event.key) ? state.labels[event.key - 1] : state.labels.find((name) => letters.get(name) === event.key.toLowerCase()), action = keys[event.key.toLowerCase()];
    if (label !== undefined) choose(label);
    else if (event.key === "Enter" && state.multilabel && (event.target.closest("#labels") || !event.target.matches("button"))) actions.save();
    else if (action) actions[action]();
    else return;
    event.preventDefault();
  });
  act_and_show("next", {}).then(() => state && state.ask && !own.name && actions.who());
})();
