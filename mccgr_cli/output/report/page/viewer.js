// The viewer: one image, large, with its facts. Arrow keys go through the list from which it was opened.

const viewer = byId("viewer");
let viewed = -1;
let viewedList = null; // the element of the list from which it was opened
let sequence = []; // the samples of that list

// The samples that are beside one another: those of a cluster, or those of a list.
function samplesOf(list, i) {
  if (list.closest(".cluster") && !list.closest(".added")) {
    const c = home[i];
    return Array.from({ length: data.clusters[c].count }, (_, k) => starts[c] + k);
  }
  return growing.get(list)?.places ?? [...list.querySelectorAll(".tile")].map((tile) => Number(tile.dataset.i));
}

function view(i) {
  viewed = i;
  const address = source(i);
  const image = address
    ? make("img", { src: address, alt: data.names[i] })
    : make("p", { className: "no-image", textContent: "No image" });
  byId("viewer-image").replaceChildren(image);
  byId("viewer-title").textContent = data.names[i];
  const at = sequence.indexOf(i);
  const facts = [["Cluster", capital(choiceText(now[i]))]];
  if (data.class) facts.push(["Class", className(i) + (isOdd(i) ? " (not the class of its cluster)" : "")]);
  if (data.certainty) facts.push(["Certainty", certainty(i)]);
  if (data.outlier) facts.push(["Outlier score", outlier(i)]);
  facts.push(["In this list", `${thousands(at + 1)} of ${thousands(sequence.length)}`]);
  byId("viewer-facts").replaceChildren(
    ...facts.map(([name, value]) => make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value }))),
  );
  byId("previous").disabled = at <= 0;
  byId("next").disabled = at === sequence.length - 1;
  byId("view-select").setAttribute("aria-pressed", String(Boolean(chosen[i])));
  if (!viewer.open) viewer.showModal();
}

function step(by) {
  const to = sequence[sequence.indexOf(viewed) + by];
  if (to !== undefined) view(to);
}

document.addEventListener("click", (event) => {
  const tile = event.target.closest?.(".tile");
  if (!tile) return;
  viewedList = tile.closest("ul");
  const i = Number(tile.dataset.i);
  sequence = samplesOf(viewedList, i);
  view(i);
});
byId("previous").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
byId("close").addEventListener("click", () => viewer.close());
byId("view-cluster").addEventListener("click", () => {
  viewedList = null;
  viewer.close();
  openCluster(viewed);
});
byId("view-select").addEventListener("click", () => {
  select([viewed], "toggle");
  byId("view-select").setAttribute("aria-pressed", String(Boolean(chosen[viewed])));
});
viewer.addEventListener("click", (event) => event.target === viewer && viewer.close()); // beside it
viewer.addEventListener("keydown", (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  step(by);
});
viewer.addEventListener("close", () => {
  viewedList?.querySelector(`.tile[data-i="${viewed}"]`)?.focus();
});
