// Lists of samples: tiles or rows, of which more are made as the reader scrolls near; and the sheets of the clusters.

const CHUNK = 60; // samples of a list that are made at a time

function item(i) {
  const label = data.class
    ? make("span", { className: isOdd(i) ? "class odd" : "class", textContent: className(i) })
    : null;
  const sure = data.certainty ? bar(data.certainty[i]) : null;
  if (!data.with_images) {
    const number = data.certainty ? make("span", { className: "number", textContent: certainty(i) }) : null;
    const name = make("span", { className: "name", textContent: data.names[i] });
    return make("li", { "data-i": i, tabIndex: -1 }, name, label, sure, number);
  }
  const address = source(i);
  const seen = address
    ? make("img", { decoding: "async", src: address, alt: data.names[i] })
    : make("span", { className: "no-image", textContent: data.names[i] });
  if (!address && document.readyState === "loading") seen.classList.add("late");
  const frame = make("span", { className: "frame" }, seen);
  const tile = make("button", { type: "button", className: "tile", title: sentence(i), "data-i": i }, frame, sure, label);
  return make("li", {}, tile);
}

// The same outside of the sheets: without an image, a link to the sample there.
function itemElsewhere(i) {
  const made = item(i);
  if (data.with_images) return made;
  const name = made.querySelector(".name");
  name.replaceWith(make("a", { className: "name", href: `#${sectionId(now[i])}`, "data-to": i, textContent: data.names[i] }));
  made.removeAttribute("data-i");
  return made;
}

const growing = new Map(); // lists by their elements

class GrowingList {
  constructor(list, button, makeItem) {
    Object.assign(this, { list, button, makeItem, line: button.closest("p"), places: [], next: 0 });
    this.watch = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && this.grow(CHUNK), {
      rootMargin: "600px",
    });
    button.addEventListener("click", () => this.open());
    growing.set(list, this);
  }

  // Other samples instead of those in the list.
  show(places, many = CHUNK) {
    this.watch.disconnect();
    Object.assign(this, { places, next: 0 });
    this.list.replaceChildren();
    this.button.hidden = false;
    this.grow(many);
    this.button.textContent = `Show ${thousands(places.length - this.next)} more`;
    this.line.hidden = this.next >= places.length;
  }

  open() {
    const first = this.places[this.next];
    const focused = document.activeElement === this.button;
    this.grow(CHUNK);
    if (this.next < this.places.length) {
      this.button.hidden = true;
      this.watch.observe(this.line);
    }
    if (focused) this.list.querySelector(`.tile[data-i="${first}"], [data-to="${first}"]`)?.focus();
  }

  grow(many) {
    const some = this.places.slice(this.next, this.next + many);
    this.next += some.length;
    this.list.append(...some.map(this.makeItem));
    if (this.next >= this.places.length) {
      this.watch.disconnect();
      this.button.hidden = true;
    } else if (this.button.hidden) {
      // it may still be in view; then the observer would not report it again
      this.watch.unobserve(this.line);
      this.watch.observe(this.line);
    }
  }

  reach(i) {
    const at = this.places.indexOf(i);
    if (at < this.next) return;
    if (!this.button.hidden) this.open();
    if (this.next <= at) this.grow(at - this.next + 1);
  }
}

// A list in a part of the page that the template has made ready for it.
const listWithin = (part) =>
  new GrowingList(part.querySelector(".growing > ul"), part.querySelector(".growing .more"), itemElsewhere);

// Sheets: the samples of a cluster in the file, and those that were added by changes.

const sectionId = (c) => `cluster-${clusters[c].number}`;
const hidden = new Map(); // the samples between the first and the last, by cluster
const added = new Map(); // the samples that were added, by cluster

for (const button of document.querySelectorAll("button.more[data-from]")) {
  const [from, to] = [Number(button.dataset.from), Number(button.dataset.to)];
  const list = new GrowingList(button.closest("p").previousElementSibling, button, markedItem);
  list.places = Array.from({ length: to - from }, (_, k) => from + k);
  hidden.set(home[from], list);
}

// Mark samples in the sheet of their cluster that are in another cluster now.
function markMoved(element) {
  const i = Number(element.dataset.i);
  element.querySelector(".moved-to")?.remove();
  element.classList.toggle("moved", now[i] !== home[i]);
  if (now[i] !== home[i]) element.append(make("span", { className: "moved-to", textContent: `→ ${shortName(now[i])}` }));
}

function markedItem(i) {
  const made = item(i);
  if (now[i] !== home[i]) markMoved(data.with_images ? made.firstChild : made);
  return made;
}

let anyMoved = false;

function showMoved() {
  const moved = clusters.map(() => []);
  for (let i = 0; i < count; i += 1) if (now[i] !== home[i]) moved[now[i]].push(i);
  const any = moved.some((places) => places.length);
  if (any || anyMoved) {
    for (const element of document.querySelectorAll("#clusters .body [data-i]")) markMoved(element);
  }
  anyMoved = any;
  moved.forEach((places, c) => {
    if (places.length || added.has(c)) showAdded(c, places);
  });
}

function showAdded(c, places) {
  if (!added.has(c)) {
    const button = make("button", { type: "button", className: "more" });
    const list = make("ul", { className: data.with_images ? "sheet" : "list" });
    const part = make("div", { className: "added" }, make("h4"), list, make("p", { className: "between" }, button));
    byId(sectionId(c)).append(part);
    added.set(c, new GrowingList(list, button, item));
  }
  const { list, places: before } = added.get(c);
  if (places.length === before.length && places.every((i, k) => i === before[k])) return;
  list.parentElement.hidden = !places.length;
  list.parentElement.firstChild.textContent = `${plural(places.length)} added by you`;
  added.get(c).show(places);
}

// Go to a cluster and show one of its samples there.
function openCluster(i) {
  const c = now[i];
  (c === home[i] ? hidden : added).get(c)?.reach(i);
  const part = byId(sectionId(c));
  const found = part.querySelector(`${c === home[i] ? ".body" : ".added"} [data-i="${i}"]`);
  for (const element of document.querySelectorAll(".chosen")) element.classList.remove("chosen");
  part.classList.add("chosen");
  const target = found ?? part.querySelector("h3");
  if (found) found.classList.add("chosen");
  target.focus({ preventScroll: true });
  const place = target.getBoundingClientRect().top < part.getBoundingClientRect().top + innerHeight * 0.6 ? part : target;
  // not smooth: clusters on the way that have not been laid out yet would change the position
  place.scrollIntoView({ behavior: "instant", block: place === part ? "start" : "center" });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("[data-to]");
  if (!link) return;
  event.preventDefault();
  openCluster(Number(link.dataset.to));
});
