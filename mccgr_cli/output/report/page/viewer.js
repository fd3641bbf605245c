// The viewer: one image, large, with its facts.

const viewer = byId("viewer");
let viewed = -1;

function view(i) {
  viewed = i;
  const address = source(i);
  const image = address
    ? make("img", { src: address, alt: data.names[i] })
    : make("p", { className: "no-image", textContent: "No image" });
  byId("viewer-image").replaceChildren(image);
  byId("viewer-title").textContent = data.names[i];
  const c = clusterOf[i];
  const facts = [["Cluster", `${data.clusters[c].number}, ${i - starts[c] + 1} of ${data.clusters[c].count}`]];
  if (data.class) facts.push(["Class", className(i) + (isOdd(i) ? " (not the class of its cluster)" : "")]);
  if (data.certainty) facts.push(["Certainty", certainty(i)]);
  byId("viewer-facts").replaceChildren(
    ...facts.map(([name, value]) => make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value }))),
  );
  byId("previous").disabled = i === starts[c];
  byId("next").disabled = i === starts[c] + data.clusters[c].count - 1;
  if (!viewer.open) viewer.showModal();
}

function step(by) {
  const c = clusterOf[viewed];
  const to = viewed + by;
  if (to >= starts[c] && to < starts[c] + data.clusters[c].count) view(to);
}

document.addEventListener("click", (event) => {
  const tile = event.target.closest?.(".tile");
  if (tile) view(Number(tile.dataset.i));
});
byId("previous").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
byId("close").addEventListener("click", () => viewer.close());
viewer.addEventListener("click", (event) => event.target === viewer && viewer.close()); // beside it
viewer.addEventListener("keydown", (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  step(by);
});
viewer.addEventListener("close", () => {
  document.querySelector(`.tile[data-i="${viewed}"]`)?.focus();
});
