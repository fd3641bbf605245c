// The reader's changes: clusters that are renamed or merged, samples that are moved. The state of all clusters follows
// from the file and the list of changes, so that undoing is leaving out the last one.

const changes = []; // each with a text, and a function that applies it
const undone = [];
const onChange = []; // functions that show the new state
let saved = []; // the changes that were downloaded

function replay() {
  clusters.length = data.clusters.length;
  clusters.forEach((cluster, c) => Object.assign(cluster, unchanged(c), { size: 0 }));
  now.set(home);
  for (const change of changes) change.apply();
  for (let i = 0; i < count; i += 1) clusters[now[i]].size += 1;
  data.clusters.forEach(({ size, count: shown }, c) => {
    clusters[clusters[c].othersIn].size += size - shown;
  });
  for (const show of onChange) show();
}

function change(text, apply) {
  changes.push({ text, apply });
  undone.length = 0;
  replay();
  announce(text);
}

function rename(c, text) {
  const given = text.trim().replace(/\s+/g, " ") || null;
  if (given === clusterName(c) || given === clusters[c].given) return;
  const what = given === null ? "has no name of yours any more" : `is now called ${given}`;
  change(`${capital(clusterTitle(c))} ${what}.`, () => {
    clusters[c].given = given;
  });
}

function merge(from, into) {
  change(`${capital(clusterTitle(from))} is merged into ${clusterTitle(into)}.`, () => {
    for (let i = 0; i < count; i += 1) if (now[i] === from) now[i] = into;
    for (const cluster of clusters) if (cluster.othersIn === from) cluster.othersIn = into;
    clusters[from].mergedInto = into;
  });
}

// The cluster that samples of a merged cluster are in now.
function mergedInto(c) {
  let into = c;
  while (clusters[into].mergedInto !== null) into = clusters[into].mergedInto;
  return into;
}

// A number for a new cluster that no other has.
function newNumber() {
  const taken = new Set(clusters.map(({ number }) => String(number)));
  let number = clusters.length;
  while (taken.has(String(number))) number += 1;
  return number;
}

function move(places, into) {
  change(`${plural(places.length)} moved to ${clusterTitle(into)}.`, () => {
    for (const i of places) now[i] = into;
  });
}

function moveToNew(places, name) {
  const given = name.trim().replace(/\s+/g, " ") || null;
  const number = newNumber();
  change(`${plural(places.length)} moved to the new cluster ${number}${given === null ? "" : `, ${given}`}.`, () => {
    const c = clusters.length;
    const asInFile = { number, count: 0, size: 0, look: c, matched: null, mostly: null };
    clusters.push({ ...asInFile, isNew: true, ...unchanged(c), given });
    for (const i of places) now[i] = c;
  });
}

function undo(steps = 1) {
  const last = changes.splice(Math.max(changes.length - steps, 0));
  if (!last.length) return;
  undone.push(...last.reverse());
  replay();
  announce(last.length === 1 ? `Undone: ${last[0].text}` : `${last.length} changes undone.`);
}

function redo() {
  const again = undone.pop();
  if (!again) return;
  changes.push(again);
  replay();
  announce(again.text);
}

const isSaved = () => changes.length === saved.length && changes.every((one, k) => one === saved[k]);
