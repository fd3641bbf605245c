// Samples: their places on the page are 0, 1, 2, ... cluster after cluster.

const count = data.names.length;
const clusterOf = new Uint32Array(count);
const starts = [];
let next = 0;
data.clusters.forEach((cluster, c) => {
  starts.push(next);
  clusterOf.fill(c, next, next + cluster.count);
  next += cluster.count;
});

const className = (i) => (data.class ? data.classes[data.class[i]] : null);
const isOdd = (i) => Boolean(data.class) && data.clusters[clusterOf[i]].matched !== data.class[i];

// How many samples of a cluster are elements from the start; the same rule as in cluster_sheets.py.
function ends(c) {
  const [first, last] = data.ends;
  return data.clusters[c].count <= first + last ? [data.clusters[c].count, 0] : [first, last];
}

const parsed = new Map();

// The address of an image: from its element, or from the data of its cluster, which are parsed when first needed.
function source(i) {
  if (!data.with_images) return null;
  const c = clusterOf[i];
  const [first, last] = ends(c);
  const within = i - starts[c];
  if (within < first || within >= data.clusters[c].count - last) {
    const image = document.querySelector(`.tile[data-i="${i}"] img`);
    return image ? image.src : null;
  }
  if (!parsed.has(c)) {
    const block = byId(`images-${c}`);
    if (!block) return null; // not here yet
    parsed.set(c, JSON.parse(block.textContent));
  }
  const coded = parsed.get(c)[within - first];
  return coded ? PREFIX + coded : null;
}

function certainty(i) {
  return data.certainty ? data.certainty[i].toFixed(2) : null;
}

function sentence(i) {
  const parts = [data.names[i]];
  if (data.class) parts.push(`class ${className(i)}${isOdd(i) ? ", not the class of its cluster" : ""}`);
  if (data.certainty) parts.push(`certainty ${certainty(i)}`);
  return parts.join("; ");
}
