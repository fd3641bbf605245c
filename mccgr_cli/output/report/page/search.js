// The search: samples by their names, their classes, and the reader's names of their clusters; and clusters.

const searchBox = byId("search");
const foundPart = byId("found");
const foundList = listWithin(foundPart);
const MOST_CLUSTERS = 12; // that are listed
const FIRST_FOUND = 24; // samples that are listed at once: they change with every letter
let hits = []; // the samples that were found
let keys = null; // names of samples as they are compared

const comparable = (text) => text.normalize("NFC").toLowerCase();

// What the first search needs; it is made when the reader goes to the box.
function prepare() {
  keys ??= data.names.map(comparable);
  source(0);
}

// All words of the query must be in a sample's name, class, or name of its cluster.
function findSamples(words) {
  prepare();
  const classKeys = (data.classes ?? []).map(comparable);
  const givenKeys = clusters.map(({ given }) => (given === null ? "" : comparable(given)));
  const found = [];
  for (let i = 0; i < count; i += 1) {
    const has = (word) =>
      keys[i].includes(word) || (data.class && classKeys[data.class[i]].includes(word)) || givenKeys[now[i]].includes(word);
    if (words.every(has)) found.push(i);
  }
  return found;
}

function findClusters(query) {
  const called = (c) => {
    const { given, matched, mostly, number } = clusters[c];
    const classes = [matched, mostly].filter((one) => one !== null).map((one) => data.classes[one]);
    return [given ?? "", `cluster ${number}`, ...classes].map(comparable);
  };
  const isNumber = (c) => String(clusters[c].number) === query;
  return filled().filter((c) => isNumber(c) || (query.length > 1 && called(c).some((text) => text.includes(query))));
}

function showFoundClusters(found) {
  const links = found.slice(0, MOST_CLUSTERS).map((c) => {
    const text = make("span", { className: "name", textContent: capital(choiceText(c)) });
    const size = make("small", { textContent: thousands(clusters[c].size) });
    return make("li", {}, make("a", { href: `#${sectionId(c)}` }, sign(clusters[c].look), text, size));
  });
  byId("found-clusters").replaceChildren(...links);
}

function search() {
  const query = comparable(searchBox.value.trim());
  const inUse = query !== "";
  hits = inUse ? findSamples(query.split(/\s+/)) : [];
  const foundClusters = inUse ? findClusters(query) : [];
  foundPart.hidden = !inUse;
  if (map) {
    map.found = inUse ? new Uint8Array(count) : null;
    for (const i of hits) map.found[i] = 1;
    map.drawSoon();
  }
  showFoundClusters(foundClusters);
  foundList.show(hits, FIRST_FOUND);
  byId("found-tools").hidden = !hits.length;
  byId("found-select").textContent = `Select ${hits.length === 1 ? "it" : `all ${thousands(hits.length)}`}`;
  const many = [plural(hits.length), ...(foundClusters.length ? [plural(foundClusters.length, "cluster")] : [])];
  const any = hits.length + foundClusters.length > 0;
  const text = any ? `${many.join(", ")} found.` : `Nothing is called “${searchBox.value.trim()}”.`;
  byId("found-count").textContent = text;
  announce(inUse ? text : "");
}

function clearSearch() {
  searchBox.value = "";
  search();
}

searchBox.addEventListener("input", search);
searchBox.addEventListener("focus", () => {
  prepare();
  foundPart.hidden = !searchBox.value.trim();
});
byId("searching").addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  event.preventDefault();
  clearSearch();
  searchBox.focus();
});
byId("found-clear").addEventListener("click", () => {
  clearSearch();
  searchBox.focus();
});
byId("found-select").addEventListener("click", () => {
  select(hits, "add");
  leaveResults(selectionPart);
});
byId("found-map")?.addEventListener("click", () => leaveResults(byId("map")));

// Hide the list of results, not what the map shows of them, and go to a part of the page.
function leaveResults(part) {
  foundPart.hidden = true;
  part.scrollIntoView({ behavior: "instant", block: part === selectionPart ? "end" : "start" });
  (part === selectionPart ? part : canvas).focus({ preventScroll: true });
}

// A click elsewhere, or a link that is followed, uncovers the page.
document.addEventListener("pointerdown", (event) => {
  if (!event.target.closest("#searching, dialog")) foundPart.hidden = true;
});
byId("found").addEventListener("click", (event) => {
  if (event.target.closest("a")) foundPart.hidden = true;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || viewer.open) return;
  if (event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  searchBox.focus({ preventScroll: true });
  searchBox.select();
});
onChange.push(() => {
  const wasHidden = foundPart.hidden;
  if (searchBox.value.trim()) search();
  foundPart.hidden = wasHidden;
});
