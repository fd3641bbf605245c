// The names of the clusters on the map, each at the centre of its cluster.

const LONGEST_NAME = 26; // letters
const NAME_HEIGHT = 16; // pixels
let centres = null; // of each cluster the sample in its middle; null until it is needed
let withNames = true;

onChange.push(() => {
  centres = null;
});

// The sample nearest to the medians of both coordinates: a few samples far away do not matter, and it is on a mark.
function findCentres() {
  const members = clusters.map(() => []);
  for (let i = 0; i < count; i += 1) members[now[i]].push(i);
  const median = (values) => Float64Array.from(values).sort()[values.length >> 1];
  return members.map((places) => {
    if (!places.length) return -1;
    const x = median(places.map((i) => data.x[i]));
    const y = median(places.map((i) => data.y[i]));
    const far = (i) => (data.x[i] - x) ** 2 + (data.y[i] - y) ** 2;
    return places.reduce((best, i) => (far(i) < far(best) ? i : best), places[0]);
  });
}

function drawNames(map) {
  const layer = byId("names");
  const context = layer.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, layer.width, layer.height);
  if (!withNames) return;
  centres ??= findCentres();
  const style = getComputedStyle(root);
  context.setTransform(map.ratio, 0, 0, map.ratio, 0, 0);
  context.font = `600 13px ${style.fontFamily}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 4;
  context.strokeStyle = style.getPropertyValue("--surface").trim();
  context.fillStyle = style.getPropertyValue("--ink").trim();
  const taken = [];
  // the largest first: where two would overlap, the smaller one goes without
  const bySize = [...clusters.keys()].sort((a, b) => clusters[b].size - clusters[a].size);
  for (const c of bySize) {
    const i = centres[c];
    if (i < 0 || !map.visible[c] || !map.isInView(i)) continue;
    const name = shortName(c);
    const text = name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name;
    const half = context.measureText(text).width / 2 + 3;
    const x = Math.min(Math.max(map.px[i], half), map.width - half);
    const y = Math.min(Math.max(map.py[i], NAME_HEIGHT / 2), map.height - NAME_HEIGHT / 2);
    if (taken.some((box) => Math.abs(box.x - x) < box.half + half && Math.abs(box.y - y) < NAME_HEIGHT)) continue;
    taken.push({ x, y, half, text });
    context.strokeText(text, x, y);
    context.fillText(text, x, y);
  }
  layer.dataset.shown = JSON.stringify(taken.map(({ text }) => text));
}
