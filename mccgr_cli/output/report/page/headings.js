// What the page calls its clusters: headings, links and sections of new clusters follow the reader's changes.

const chips = byId("cluster-chips");

// The section and the link of a cluster that is not in the file.
function addSection(c) {
  const { look } = clusters[c];
  const id = sectionId(c);
  const heading = make("h3", { id: `${id}-title`, tabIndex: -1 }, sign(look), make("span", { className: "name" }));
  const about = make("p", { className: "about" }, make("span", { textContent: "A new cluster" }));
  const part = make("section", { id, className: "cluster", "aria-labelledby": `${id}-title` }, heading, about);
  byId("clusters").append(part);
  const link = make("a", { href: `#${id}` }, sign(look), make("span", { className: "name" }), make("small"));
  chips.append(make("li", {}, link));
  return { part, link, fromFile: "" };
}

// The parts of the page that name a cluster, by its place.
const headings = data.clusters.map((cluster, c) => {
  const part = byId(`cluster-${cluster.number}`);
  const fromFile = part.querySelector("h3 .matched-class")?.textContent ?? "";
  return { part, link: chips.children[c].firstElementChild, fromFile };
});

function showHeading(c) {
  const { part, link, fromFile } = headings[c];
  const { given, number, size, isNew } = clusters[c];
  const heading = part.querySelector("h3");
  let beside = given === null ? fromFile : [`cluster ${number}`, fromFile].filter(Boolean).join(", ");
  if (!size) beside = clusters[c].mergedInto === null ? "has no samples now" : `is merged into ${clusterTitle(mergedInto(c))}`;
  heading.querySelector(".name").textContent = given ?? `Cluster ${number}`;
  if (!heading.querySelector(".matched-class")) heading.append(make("span", { className: "matched-class" }));
  heading.querySelector(".matched-class").textContent = beside;
  const after = part.querySelector(".after") ?? make("span", { className: "after" });
  const changed = isNew || size !== data.clusters[c].size;
  part.querySelector(".about").prepend(after);
  after.hidden = !changed;
  after.textContent = `${plural(size)} after your changes${isNew ? "" : "; in the file:"}`;
  part.querySelector(".body")?.toggleAttribute("hidden", !size);
  link.parentElement.hidden = !size;
  link.querySelector(".name").textContent = given ?? String(number);
  link.querySelector("small").textContent = thousands(size);
}

// What a heading depends on.
function stateOf(c) {
  const { number, given, size } = clusters[c];
  return JSON.stringify([number, given, size, clusters[c].mergedInto === null ? null : clusterTitle(mergedInto(c))]);
}

headings.forEach((heading, c) => {
  heading.state = stateOf(c);
});

function showHeadings() {
  while (headings.length > clusters.length) {
    const { part, link } = headings.pop();
    if (part.contains(document.activeElement)) byId("main").focus({ preventScroll: true });
    part.remove();
    link.parentElement.remove();
    added.delete(headings.length);
  }
  for (let c = headings.length; c < clusters.length; c += 1) headings.push(addSection(c));
  headings.forEach((heading, c) => {
    const state = stateOf(c);
    if (heading.state !== state) showHeading(c);
    heading.state = state;
  });
}

// Links elsewhere that name the cluster of a sample, and in how many clusters the samples of a group are.
function showLinks() {
  for (const link of document.querySelectorAll("[data-cluster-of]")) {
    const c = now[Number(link.dataset.clusterOf)];
    link.textContent = clusterTitle(c);
    link.href = `#${sectionId(c)}`;
  }
  for (const text of document.querySelectorAll("[data-name-of]")) {
    const { given, number } = clusters[Number(text.dataset.nameOf)];
    text.textContent = given ?? String(number);
  }
  for (const text of document.querySelectorAll(".spread")) {
    const samples = data.duplicates[Number(text.dataset.group)][0].map((sample) => allSamples()[sample]);
    const many = new Set(samples.map(sampleCluster)).size;
    text.textContent = `in ${many === 1 ? "one cluster" : `${many} clusters`}`;
    text.classList.toggle("scattered", many > 1);
  }
}

onChange.push(showHeadings, showMoved, showLinks);

byId("duplicates-csv")?.addEventListener("click", () => {
  byId("duplicates-note").textContent = formulaNote(downloadDuplicates());
  announce(`Saved as duplicates.csv. ${byId("duplicates-note").textContent}`);
});
