// The selected samples: listed below the map, and moved to another cluster or a new one.

const chosen = new Uint8Array(count); // 1 for each selected sample
const selectionPart = byId("selection");
const selectionList = listWithin(selectionPart);
const moveTarget = byId("move-target");
const NEW = "new";

const selected = () => [...chosen.keys()].filter((i) => chosen[i]);

// how: "set" selects these samples only, "add" these too, "toggle" changes each of these.
function select(places, how) {
  if (how === "set") chosen.fill(0);
  for (const i of places) chosen[i] = how === "toggle" ? 1 - chosen[i] : 1;
  showSelection();
  const many = selected().length;
  announce(many ? `${plural(many)} selected.` : "Nothing is selected.");
}

function showSelection() {
  const places = selected();
  const hadFocus = selectionPart.contains(document.activeElement);
  selectionPart.hidden = !places.length;
  if (hadFocus && !places.length) (byId("canvas") ?? byId("search")).focus({ preventScroll: true });
  byId("selected-count").textContent = `${plural(places.length)} selected`;
  byId("selected-clusters").textContent = `in ${clustersOf(places)}`;
  byId("selected-note").textContent = "";
  selectionList.show(places);
  showTargets();
  map?.draw();
}

// The clusters of samples, with how many are in each.
function clustersOf(places, most = 8) {
  const many = new Map();
  for (const i of places) many.set(now[i], (many.get(now[i]) ?? 0) + 1);
  const largest = [...many].sort((a, b) => b[1] - a[1]);
  const texts = largest.slice(0, most).map(([c, number]) => `${choiceText(c)} (${thousands(number)})`);
  if (largest.length > most) texts.push(plural(largest.length - most, "more cluster"));
  return texts.join("; ");
}

function showTargets() {
  const before = moveTarget.value;
  moveTarget.replaceChildren(
    make("option", { value: NEW, textContent: "a new cluster" }),
    ...filled().map((c) => make("option", { value: String(c), textContent: choiceText(c) })),
  );
  moveTarget.value = before;
  if (moveTarget.selectedIndex < 0) moveTarget.value = NEW;
  byId("move-name-label").hidden = moveTarget.value !== NEW;
}

moveTarget.addEventListener("change", () => {
  byId("move-name-label").hidden = moveTarget.value !== NEW;
});
byId("move").addEventListener("click", () => {
  const isNew = moveTarget.value === NEW;
  const places = selected().filter((i) => isNew || now[i] !== Number(moveTarget.value));
  if (!places.length) return announce("They are in this cluster already.");
  chosen.fill(0);
  if (isNew) moveToNew(places, byId("move-name").value);
  else move(places, Number(moveTarget.value));
  byId("move-name").value = "";
});
byId("move-name").addEventListener("keydown", (event) => event.key === "Enter" && byId("move").click());
byId("selected-csv").addEventListener("click", () => {
  byId("selected-note").textContent = formulaNote(downloadSelection(selected()));
  announce(`Saved as selection.csv. ${byId("selected-note").textContent}`);
});
byId("selected-clear").addEventListener("click", () => select([], "set"));
onChange.push(showSelection);
