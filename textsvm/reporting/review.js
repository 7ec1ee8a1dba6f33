(() => {
  const controls = document.getElementById("filters");
  if (!controls) return;
  const [label, suggested, kind, words] = ["label", "suggested", "kind", "words"].map((name) => document.getElementById("filter-" + name));
  const shown = document.getElementById("filter-shown");
  const articles = [...document.querySelectorAll("article[data-kinds]")];
  const read = new Map(articles.map((article) => [article, article.textContent.toLowerCase()]));
  const update = () => {
    const sought = words.value.trim().toLowerCase();
    let count = 0;
    for (const article of articles) {
      const fits = (!label.value || article.dataset.label === label.value) &&
        (!suggested.value || article.dataset.suggested === suggested.value) &&
        (!kind.value || article.dataset.kinds.split(" ").includes(kind.value)) &&
        (!sought || read.get(article).includes(sought));
      article.hidden = !fits;
      count += fits;
    }
    shown.textContent = count.toLocaleString("en") + " of " + articles.length.toLocaleString("en") + " shown";
  };
  for (const control of [label, suggested, kind, words]) control.addEventListener("input", update);
  controls.hidden = false;
  update();

  // Decisions: ids and labels as they are, not as the page shows them.
  const { ids, own, likeliest, labels } = JSON.parse(document.getElementById("review").textContent);
  const decided = document.getElementById("decided"), save = document.getElementById("save-decisions");
  const decisions = new Map();
  let current = -1, unsaved = false;
  const fields = articles.map((article) => article.querySelector(".decide"));
  const choices = fields.map((field) => field.querySelector("select"));
  const show = (i) => {
    for (const button of fields[i].querySelectorAll("button")) {
      button.ariaPressed = String(decisions.get(i) === button.value);
    }
    decided.textContent = decisions.size.toLocaleString("en") + " decided";
    save.disabled = !decisions.size;
    unsaved = decisions.size > 0;
  };
  const decide = (i, decision) => {
    if (decisions.get(i) === decision) decisions.delete(i); else decisions.set(i, decision);
    show(i);
  };
  const go = (i) => {
    if (articles[current]) articles[current].classList.remove("current");
    current = i;
    articles[i].classList.add("current");
    articles[i].scrollIntoView({ block: "center" });
  };
  const move = (step) => {
    for (let i = current + step; i >= 0 && i < articles.length; i += step) {
      if (!articles[i].hidden) return go(i);
    }
  };
  const all = document.getElementById("labels");
  fields.forEach((field, i) => {
    choices[i].append(...all.cloneNode(true).children);
    const first = likeliest[i] === own[i] ? labels.findIndex((_, k) => k !== own[i]) : likeliest[i];
    choices[i].selectedIndex = Math.max(first, 0);
    choices[i].addEventListener("change", () => { decisions.set(i, "change"); show(i); });
    for (const button of field.querySelectorAll("button")) button.addEventListener("click", () => decide(i, button.value));
    field.hidden = false;
    articles[i].addEventListener("focusin", () => { if (current !== i) go(i); });
  });
  const keys = { ArrowLeft: "keep", ArrowRight: "change", u: "unsure" };
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select") || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") move(event.key === "ArrowDown" ? 1 : -1);
    else if (event.key in keys && articles[current] && !articles[current].hidden) {
      decisions.set(current, keys[event.key]);
      show(current);
      move(1);
    } else return;
    event.preventDefault();
  });
  save.addEventListener("click", () => {
    const lines = [...decisions].sort((a, b) => a[0] - b[0]).map(([i, decision]) =>
      JSON.stringify({ id: ids[i], decision, was: labels[own[i]], label: labels[decision === "change" ? choices[i].selectedIndex : own[i]] }));
    download("corrections.jsonl", "application/x-ndjson", lines.join("\n") + "\n");
    unsaved = false;
  });
  addEventListener("beforeunload", (event) => { if (unsaved) event.preventDefault(); });
})();
