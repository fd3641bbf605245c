// The map: every sample is a mark.

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
