// The sheets of the clusters: tiles or rows, and those that are made when the reader asks for them.

const SVG = "http://www.w3.org/2000/svg";

function bar(share) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "bar");
  svg.setAttribute("viewBox", "0 0 100 4");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const rect = document.createElementNS(SVG, "rect");
  rect.setAttribute("width", String(100 * Math.min(Math.max(share, 0), 1)));
  rect.setAttribute("height", "4");
  svg.append(rect);
  return svg;
}

function item(i) {
  const label = data.class
    ? make("span", { className: isOdd(i) ? "class odd" : "class", textContent: className(i) })
    : null;
  const sure = data.certainty ? bar(data.certainty[i]) : null;
  if (!data.with_images) {
    const number = data.certainty ? make("span", { className: "number", textContent: certainty(i) }) : null;
    const row = make("li", {}, make("span", { className: "name", textContent: data.names[i] }), label, sure, number);
    row.dataset.i = i;
    return row;
  }
  const address = source(i);
  const seen = address
    ? make("img", { src: address, alt: data.names[i], decoding: "async" })
    : make("span", { className: "no-image", textContent: data.names[i] });
  const frame = make("span", { className: "frame" }, seen);
  const tile = make("button", { type: "button", className: "tile", title: sentence(i), "data-i": i }, frame, sure, label);
  return make("li", {}, tile);
}

// The samples between the first and the last: elements are made as the reader scrolls near.
class Hidden {
  constructor(button) {
    this.button = button;
    this.list = button.closest("p").previousElementSibling;
    this.next = Number(button.dataset.from);
    this.end = Number(button.dataset.to);
    this.watch = new IntersectionObserver(
      (entries) => entries.some((entry) => entry.isIntersecting) && this.grow(CHUNK),
      { rootMargin: "600px" },
    );
    button.addEventListener("click", () => this.open());
  }

  open() {
    const first = this.next;
    const focused = document.activeElement === this.button;
    this.grow(CHUNK);
    if (this.next < this.end) {
      this.button.hidden = true;
      this.watch.observe(this.button.closest("p"));
    }
    if (focused) this.list.querySelector(`.tile[data-i="${first}"]`)?.focus();
  }

  grow(many) {
    const end = Math.min(this.next + many, this.end);
    const items = [];
    for (; this.next < end; this.next += 1) items.push(item(this.next));
    this.list.append(...items);
    if (this.next >= this.end) {
      this.watch.disconnect();
      this.button.hidden = true;
    } else if (this.button.hidden) {
      // it may still be in view; then the observer would not report it again
      this.watch.unobserve(this.button.closest("p"));
      this.watch.observe(this.button.closest("p"));
    }
  }

  reach(i) {
    if (i < Number(this.button.dataset.from) || i >= this.end) return;
    if (!this.button.hidden) this.open();
    if (this.next <= i) this.grow(i - this.next + 1);
  }
}

const hidden = new Map();
for (const button of document.querySelectorAll("button.more")) {
  hidden.set(clusterOf[Number(button.dataset.from)], new Hidden(button));
}

// Go to a cluster and show one of its samples there.
function openCluster(i) {
  const c = clusterOf[i];
  hidden.get(c)?.reach(i);
  const part = byId(`cluster-${data.clusters[c].number}`);
  const found = part.querySelector(`[data-i="${i}"]`);
  for (const element of document.querySelectorAll(".chosen")) element.classList.remove("chosen");
  part.classList.add("chosen");
  const target = found ?? part.querySelector("h3");
  if (found) found.classList.add("chosen");
  target.focus({ preventScroll: true });
  const place = target.getBoundingClientRect().top < part.getBoundingClientRect().top + innerHeight * 0.6 ? part : target;
  // not smooth: clusters on the way that have not been laid out yet would change the position
  place.scrollIntoView({ behavior: "instant", block: place === part ? "start" : "center" });
}
