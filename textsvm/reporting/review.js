(() => {
  const controls = document.getElementById("filters");
  if (!controls) return;
  const [label, suggested, kind, words] = ["label", "suggested", "kind", "words"].map((name) => document.getElementById("filter-" + name));
  const shown = document.getElementById("filter-shown");
  const articles = [...document.querySelectorAll("article[data-kinds]")];
  const read = new Map(articles.map((each) => [each, each.textContent.toLowerCase()]));
  const update = () => {
    const sought = words.value.trim().toLowerCase();
    let count = 0;
    for (const each of articles) {
      const fits = (!label.value || each.dataset.label === label.value) &&
        (!suggested.value || each.dataset.suggested === suggested.value) &&
        (!kind.value || each.dataset.kinds.split(" ").includes(kind.value)) &&
        (!sought || read.get(each).includes(sought));
      each.hidden = !fits;
      count += fits;
    }
    shown.textContent = count.toLocaleString("en") + " of " + articles.length.toLocaleString("en") + " shown";
  };
  for (const each of [label, suggested, kind, words]) each.addEventListener("input", update);
  controls.hidden = false;
  update();
})();
