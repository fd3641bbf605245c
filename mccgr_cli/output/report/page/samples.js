// Samples and clusters, as they are in the file and as they are after the reader's changes.
// Samples have places on the page, 0, 1, 2, ..., cluster after cluster. Clusters have places too; new ones come last.

const PREFIX = "data:image/webp;base64,";
// given: the reader's name. mergedInto: where a merged cluster went. othersIn: where its samples are that are not on
// the page.
const unchanged = (c) => ({ given: null, mergedInto: null, othersIn: c });
const clusters = data.clusters.map((cluster, c) => ({ ...cluster, isNew: false, ...unchanged(c) }));
const home = new Uint32Array(count); // the cluster of each sample in the file
const starts = [];
data.clusters.forEach((cluster, c) => {
  starts.push(c ? starts[c - 1] + data.clusters[c - 1].count : 0);
  home.fill(c, starts[c], starts[c] + cluster.count);
});
const now = home.slice(); // the cluster of each sample after changes

// What a cluster is called: the reader's name; or the class that it is matched with, if no other is more frequent in it.
const ownClass = ({ matched, mostly }) => (matched === null || matched !== mostly ? null : data.classes[matched]);
const clusterName = (c) => clusters[c].given ?? ownClass(clusters[c]);
// The most frequent class of a cluster.
function mostlyText({ matched, mostly }) {
  return mostly === null ? null : `${matched === mostly ? "" : "mostly "}${data.classes[mostly]}`;
}

const shortName = (c) => clusterName(c) ?? String(clusters[c].number);
const clusterTitle = (c) =>
  clusters[c].given === null ? `cluster ${clusters[c].number}` : `${clusters[c].given} (cluster ${clusters[c].number})`;
// Clusters that have samples.
const filled = () => [...clusters.keys()].filter((c) => clusters[c].size > 0);
// A cluster among others.
const choiceText = (c) => [clusterTitle(c), mostlyText(clusters[c])].filter(Boolean).join(", ");

const className = (i) => (data.class ? data.classes[data.class[i]] : null);
const isOdd = (i) => Boolean(data.class) && !clusters[now[i]].isNew && clusters[now[i]].matched !== data.class[i];
const certainty = (i) => (data.certainty ? data.certainty[i].toFixed(2) : null);

function outlier(i) {
  if (!data.outlier) return null;
  return data.outlier[i] < 10000 ? data.outlier[i].toFixed(2) : data.outlier[i].toPrecision(3);
}

function sentence(i) {
  const parts = [data.names[i]];
  if (data.class) parts.push(`class ${className(i)}${isOdd(i) ? ", not the class of its cluster" : ""}`);
  if (data.certainty) parts.push(`certainty ${certainty(i)}`);
  return parts.join("; ");
}

// Images

// How many samples of a cluster are elements from the start; the same rule as in cluster_sheets.py.
function ends(c) {
  const [first, last] = data.ends;
  return data.clusters[c].count <= first + last ? [data.clusters[c].count, 0] : [first, last];
}

const parsed = new Map(); // images that no element showed at the start, by cluster
let embedded = null; // elements of the other images, by sample

// The address of an image: from its element, or from the data of its cluster, which are parsed when first needed.
function source(i) {
  if (!data.with_images) return null;
  const c = home[i];
  const [first, last] = ends(c);
  const within = i - starts[c];
  if (within < first || within >= data.clusters[c].count - last) {
    embedded ??= new Map(
      [...document.querySelectorAll("#clusters .tile img")].map((image) => [Number(image.closest(".tile").dataset.i), image]),
    );
    return embedded.get(i)?.src ?? null;
  }
  if (!parsed.has(c)) {
    const block = byId(`images-${c}`);
    if (!block) return null; // not here yet
    parsed.set(c, JSON.parse(block.textContent));
  }
  const coded = parsed.get(c)[within - first];
  return coded ? PREFIX + coded : null;
}

// Frames that get their image when they come near the window, and when it has arrived.
const late = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      const i = Number(target.closest(".tile").dataset.i);
      const address = isIntersecting ? source(i) : null;
      if (address === null) continue;
      late.unobserve(target);
      target.replaceWith(make("img", { decoding: "async", src: address, alt: data.names[i] }));
    }
  },
  { rootMargin: "400px" },
);

function watchLate() {
  for (const frame of document.querySelectorAll(".late")) {
    late.unobserve(frame); // to be told again where it is
    late.observe(frame);
  }
}

watchLate();
document.addEventListener("DOMContentLoaded", watchLate); // all images are here
