// What the page does beyond showing: the map, sheets that grow, the image viewer, the theme.
// Data come from blocks of JSON; everything that is text goes in as text, never as HTML.
(() => {
  "use strict";

  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const root = document.documentElement;
  const PREFIX = "data:image/webp;base64,";
  const CHUNK = 60; // tiles that are made at a time

  // An element with properties, attributes (aria-..., data-...) and children.
  function make(name, properties = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (value === null || value === undefined) continue;
      if (key.includes("-")) element.setAttribute(key, value);
      else element[key] = value;
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }

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

  // Sheets

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

  // Viewer

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

  // Map

  const canvas = byId("canvas");

  class SampleMap {
    constructor() {
      this.canvas = canvas;
      this.overlay = byId("overlay");
      this.card = byId("card");
      this.reading = byId("reading");
      this.by = "cluster";
      this.off = new Set(); // groups that are switched off
      this.at = -1; // the sample that is pointed at
      this.outlines = Object.values(data.markers).map((outline) => {
        const centred = new Path2D();
        centred.addPath(new Path2D(outline), new DOMMatrix([1, 0, 0, 1, -6, -6]));
        return centred;
      });
      // not Math.max(...): a call takes some 100,000 arguments at most
      this.wide = data.x.reduce((most, x) => Math.max(most, x), 1);
      this.high = data.y.reduce((most, y) => Math.max(most, y), 1);
      this.legend();
      new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
      canvas.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.point(event));
      canvas.addEventListener("pointerleave", () => document.activeElement !== canvas && this.show(-1));
      canvas.addEventListener("click", (event) => this.click(event));
      canvas.addEventListener("keydown", (event) => this.key(event));
      canvas.addEventListener("blur", () => this.show(-1));
      for (const button of document.querySelectorAll("[data-colour]")) {
        button.addEventListener("click", () => this.colour(button.dataset.colour));
      }
      for (const button of document.querySelectorAll("[data-every]")) {
        button.addEventListener("click", () => this.every(button.dataset.every === "all"));
      }
    }

    // Groups for the colours: their names and looks, and the group of a sample.
    groups() {
      if (this.by === "class") return data.classes.map((name, look) => ({ name, look, mostly: null }));
      return data.clusters.map(({ number, look, mostly }) => ({
        name: String(number),
        look,
        mostly: mostly === null ? null : data.classes[mostly],
      }));
    }

    group(i) {
      return this.by === "class" ? data.class[i] : clusterOf[i];
    }

    colour(by) {
      this.by = by;
      this.off.clear();
      for (const button of document.querySelectorAll("[data-colour]")) {
        button.setAttribute("aria-pressed", String(button.dataset.colour === by));
      }
      this.legend();
      this.draw();
    }

    every(on) {
      this.off = new Set(on ? [] : this.groups().keys());
      for (const button of byId("legend").children) button.setAttribute("aria-pressed", String(on));
      this.draw();
    }

    legend() {
      const buttons = this.groups().map(({ name, look, mostly }, g) => {
        const sign = document.createElementNS(SVG, "svg");
        sign.setAttribute("class", `marker c${look % 8}`);
        sign.setAttribute("viewBox", "0 0 12 12");
        sign.setAttribute("aria-hidden", "true");
        const path = document.createElementNS(SVG, "path");
        path.setAttribute("d", data.markers[look % this.outlines.length]);
        sign.append(path);
        const label = make("span", { className: "name", textContent: name });
        const beside = mostly === null ? null : make("small", { textContent: mostly });
        const button = make("button", { type: "button", "aria-pressed": "true" }, sign, label, beside);
        button.setAttribute("aria-label", `${this.by} ${name}${mostly === null ? "" : `, mostly ${mostly}`}`);
        button.addEventListener("click", () => {
          if (!this.off.delete(g)) this.off.add(g);
          button.setAttribute("aria-pressed", String(!this.off.has(g)));
          this.draw();
        });
        return button;
      });
      byId("legend").replaceChildren(...buttons);
    }

    resize() {
      const box = canvas.parentElement.getBoundingClientRect();
      this.ratio = Math.min(devicePixelRatio || 1, 3);
      for (const one of [canvas, this.overlay]) {
        one.width = Math.max(1, Math.round(box.width * this.ratio));
        one.height = Math.max(1, Math.round(box.height * this.ratio));
      }
      const margin = 18;
      const scale = Math.min((box.width - 2 * margin) / this.wide, (box.height - 2 * margin) / this.high);
      const left = (box.width - scale * this.wide) / 2;
      const bottom = (box.height + scale * this.high) / 2;
      this.px = Float32Array.from(data.x, (x) => left + scale * x);
      this.py = Float32Array.from(data.y, (y) => bottom - scale * y);
      // large enough to distinguish marks, small enough not to hide others
      this.size = Math.min(Math.max(Math.sqrt((box.width * box.height) / count) / 36, 0.34), 0.8);
      this.draw();
    }

    draw() {
      const context = canvas.getContext("2d");
      const style = getComputedStyle(root);
      const colours = [...Array(8).keys()].map((c) => style.getPropertyValue(`--c${c}`).trim());
      const groups = this.groups();
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.clearRect(0, 0, canvas.width, canvas.height);
      context.globalAlpha = 0.8;
      const zoom = this.ratio * this.size;
      for (let i = 0; i < count; i += 1) {
        const g = this.group(i);
        if (this.off.has(g)) continue;
        context.setTransform(zoom, 0, 0, zoom, this.px[i] * this.ratio, this.py[i] * this.ratio);
        context.fillStyle = colours[groups[g].look % 8];
        context.fill(this.outlines[groups[g].look % this.outlines.length]);
      }
      this.show(this.at >= 0 && this.off.has(this.group(this.at)) ? -1 : this.at);
    }

    nearest(x, y, reach) {
      let best = -1;
      let least = reach * reach;
      for (let i = 0; i < count; i += 1) {
        const far = (this.px[i] - x) ** 2 + (this.py[i] - y) ** 2;
        if (far < least && !this.off.has(this.group(i))) [best, least] = [i, far];
      }
      return best;
    }

    under(event) {
      const box = canvas.getBoundingClientRect();
      return this.nearest(event.clientX - box.left, event.clientY - box.top, 24);
    }

    point(event) {
      const i = this.under(event);
      if (i !== this.at) this.show(i);
      canvas.classList.toggle("pointing", i >= 0);
    }

    click(event) {
      // a click has rounded coordinates, which may be nearer to another mark: a mouse opens the sample that is shown
      const i = event.pointerType !== "touch" && this.at >= 0 ? this.at : this.under(event);
      if (i < 0) return;
      // a finger cannot hover: the first tap shows a sample, the second opens its cluster
      if (event.pointerType === "touch" && i !== this.at) this.show(i);
      else openCluster(i);
    }

    key(event) {
      const toward = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (toward) {
        event.preventDefault();
        this.show(this.at < 0 ? this.nearest(canvas.clientWidth / 2, canvas.clientHeight / 2, Infinity) : this.beside(...toward));
      } else if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        if (this.at >= 0) openCluster(this.at);
      } else if (event.key === "Escape") {
        this.show(-1);
      }
    }

    // The nearest sample in a direction; samples to the side count as farther away.
    beside(dx, dy) {
      let best = this.at;
      let least = Infinity;
      for (let i = 0; i < count; i += 1) {
        const x = this.px[i] - this.px[this.at];
        const y = this.py[i] - this.py[this.at];
        const along = x * dx + y * dy;
        const across = Math.abs(x * dy) + Math.abs(y * dx);
        if (along <= 0.01 || across > 2 * along || this.off.has(this.group(i))) continue;
        const far = along + 2 * across;
        if (far < least) [best, least] = [i, far];
      }
      return best;
    }

    show(i) {
      this.at = i;
      const context = this.overlay.getContext("2d");
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.clearRect(0, 0, this.overlay.width, this.overlay.height);
      if (i < 0) {
        this.card.hidden = true;
        this.reading.textContent = "";
        return;
      }
      context.strokeStyle = getComputedStyle(root).getPropertyValue("--ink").trim();
      context.lineWidth = 1.6 * this.ratio;
      context.beginPath();
      context.arc(this.px[i] * this.ratio, this.py[i] * this.ratio, (6 * this.size + 4) * this.ratio, 0, 2 * Math.PI);
      context.stroke();
      const cluster = data.clusters[clusterOf[i]];
      const address = source(i);
      const lines = [`cluster ${cluster.number}`];
      if (data.class) lines.push(`class ${className(i)}`);
      if (data.certainty) lines.push(`certainty ${certainty(i)}`);
      this.card.replaceChildren(
        ...[
          address ? make("img", { src: address, alt: "" }) : null,
          make("p", { className: "name", textContent: data.names[i] }),
          ...lines.map((line) => make("p", { textContent: line })),
        ].filter(Boolean),
      );
      this.card.hidden = false;
      this.beside_mark(i);
      this.reading.textContent = [data.names[i], ...lines].join(", ");
    }

    // Put the card beside its mark, within the map and the window.
    beside_mark(i) {
      const box = canvas.getBoundingClientRect();
      const { offsetWidth: width, offsetHeight: height } = this.card;
      const right = Math.min(box.width, document.documentElement.clientWidth - box.left);
      let left = this.px[i] + 16;
      if (left + width > right) left = this.px[i] - 16 - width;
      const low = Math.min(box.height, innerHeight - box.top) - height;
      const top = Math.max(Math.min(this.py[i] - height / 2, low), Math.max(0, -box.top));
      this.card.style.left = `${Math.max(0, Math.min(left, right - width))}px`;
      this.card.style.top = `${top}px`;
    }
  }

  const map = canvas && data.x ? new SampleMap() : null;

  // Theme

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const toggle = byId("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  function themed() {
    toggle.setAttribute("aria-pressed", String(isDark()));
    map?.px && map.draw();
  }

  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("mccgr-theme", root.dataset.theme);
    } catch {
      // no storage: the choice is not remembered
    }
    themed();
  });
  dark.addEventListener("change", themed);
  themed();

  // Paper is white.
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    themed();
  });
  addEventListener("afterprint", () => {
    if (before === undefined) delete root.dataset.theme;
    else root.dataset.theme = before;
    themed();
  });

  // Links to clusters mark the cluster.
  function mark() {
    for (const element of document.querySelectorAll(".cluster.chosen")) element.classList.remove("chosen");
    if (location.hash.startsWith("#cluster-")) byId(location.hash.slice(1))?.classList.add("chosen");
  }

  addEventListener("hashchange", mark);
  mark();

  // The section that is being read, in the bar above.
  const links = new Map([...document.querySelectorAll(".sections a")].map((link) => [link.hash.slice(1), link]));
  const reader = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const link = links.get(target.id);
        if (isIntersecting) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-30% 0px -65% 0px" },
  );
  for (const id of links.keys()) reader.observe(byId(id));

  // Commands to the clipboard
  byId("copy")?.addEventListener("click", async (event) => {
    const button = event.currentTarget;
    const text = [...document.querySelectorAll(".steps pre")].map((line) => line.textContent).join("\n");
    try {
      await navigator.clipboard.writeText(`${text}\n`);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(document.querySelector(".steps"));
      button.textContent = "Selected; copy with Ctrl+C";
    }
  });

  root.dataset.ready = "true";
})();
