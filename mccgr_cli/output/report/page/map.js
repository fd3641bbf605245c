// The map: every sample is a mark. Point at it to see the sample, click it to open its cluster.

const canvas = byId("canvas");
const REACH = 24; // pixels from a mark within which it is pointed at
const FAINT = 0.13; // opacity of marks that are not found by a search, or not selected
const FOUND_SIZE = 1.5; // times the size of other marks

class SampleMap {
  constructor() {
    this.overlay = byId("overlay");
    this.card = byId("card");
    this.reading = byId("reading");
    this.by = "cluster"; // or "class": what colours mean
    this.off = new Set(); // groups that are switched off
    this.at = -1; // the sample that is pointed at
    this.found = null; // 1 for each sample that a search has found; null without a search
    this.zoom = 1;
    this.left = 0; // of the whole map, in pixels of the window
    this.top = 0;
    this.outlines = data.markers.map((outline) => {
      const centred = new Path2D();
      centred.addPath(new Path2D(outline), new DOMMatrix([1, 0, 0, 1, -6, -6]));
      return centred;
    });
    // not Math.max(...): a call takes some 100,000 arguments at most
    this.wide = data.x.reduce((most, x) => Math.max(most, x), 1);
    this.high = data.y.reduce((most, y) => Math.max(most, y), 1);
    this.px = new Float32Array(count); // where marks are, in pixels of the window
    this.py = new Float32Array(count);
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    // the mark at which the keyboard is stays shown
    canvas.addEventListener("pointerleave", () => canvas.matches(":focus-visible") || this.show(-1));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.show(-1));
  }

  // Groups for the colours: their names and looks, and the group of a sample.
  groups() {
    if (this.by === "class") return data.classes.map((name, k) => ({ name, look: data.class_looks[k] }));
    return clusters.map(({ number, look }, c) => ({ name: String(number), look, cluster: c }));
  }

  group(i) {
    return this.by === "class" ? data.class[i] : now[i];
  }

  isOff(i) {
    return this.off.has(this.group(i));
  }

  resize() {
    const box = canvas.parentElement.getBoundingClientRect();
    const before = this.width;
    [this.width, this.height] = [box.width, box.height];
    this.ratio = Math.min(devicePixelRatio || 1, 3);
    for (const one of [canvas, this.overlay, byId("names")]) {
      one.width = Math.max(1, Math.round(box.width * this.ratio));
      one.height = Math.max(1, Math.round(box.height * this.ratio));
    }
    if (before) this.left *= box.width / before;
    this.place();
    this.draw();
  }

  // Put all marks where they are at this zoom.
  place() {
    const { width, height, zoom } = this;
    this.left = Math.min(0, Math.max(this.left, width * (1 - zoom)));
    this.top = Math.min(0, Math.max(this.top, height * (1 - zoom)));
    const margin = 18;
    const scale = Math.min((width - 2 * margin) / this.wide, (height - 2 * margin) / this.high);
    const left = (width - scale * this.wide) / 2;
    const bottom = (height + scale * this.high) / 2;
    for (let i = 0; i < count; i += 1) {
      this.px[i] = this.left + zoom * (left + scale * data.x[i]);
      this.py[i] = this.top + zoom * (bottom - scale * data.y[i]);
    }
    // large enough to distinguish marks, small enough not to hide others
    const size = Math.sqrt((width * height) / count) / 36;
    this.size = Math.min(Math.max(size, 0.34), 0.8) * Math.min(zoom ** 0.4, 2);
  }

  isInView(i) {
    return this.px[i] > -8 && this.px[i] < this.width + 8 && this.py[i] > -8 && this.py[i] < this.height + 8;
  }

  // Draw with the next frame, for what happens many times in a frame.
  drawSoon() {
    this.waiting ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    if (this.waiting) cancelAnimationFrame(this.waiting);
    this.waiting = null;
    if (!this.width) return; // not laid out yet
    const context = canvas.getContext("2d");
    const style = getComputedStyle(root);
    const colours = [...Array(data.colours).keys()].map((c) => style.getPropertyValue(`--c${c}`).trim());
    const groups = this.groups();
    const strong = this.found ?? (chosen.includes(1) ? chosen : null);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.strokeStyle = style.getPropertyValue("--ink").trim();
    context.lineWidth = 2;
    this.visible = new Uint8Array(clusters.length); // clusters that have marks, and found ones if there is a search
    for (const pass of strong ? [0, 1] : [1]) {
      const zoom = this.ratio * this.size * (this.found && pass ? FOUND_SIZE : 1);
      context.globalAlpha = pass ? 0.8 : FAINT;
      for (let i = 0; i < count; i += 1) {
        const g = this.group(i);
        if ((strong && strong[i] !== pass) || this.off.has(g)) continue;
        if (pass || !this.found) this.visible[now[i]] = 1;
        if (!this.isInView(i)) continue;
        const outline = this.outlines[groups[g].look % this.outlines.length];
        context.setTransform(zoom, 0, 0, zoom, this.px[i] * this.ratio, this.py[i] * this.ratio);
        context.fillStyle = colours[groups[g].look % data.colours];
        if (pass) context.fill(outline);
        else context.fillRect(-4, -4, 8, 8); // faster, and of a faint mark nobody sees the shape
        if (chosen[i]) context.stroke(outline);
      }
    }
    drawNames(this);
    this.show(this.at >= 0 && (this.isOff(this.at) || !this.isInView(this.at)) ? -1 : this.at);
  }

  nearest(x, y, reach) {
    let best = -1;
    let least = reach * reach;
    for (let i = 0; i < count; i += 1) {
      const far = (this.px[i] - x) ** 2 + (this.py[i] - y) ** 2;
      if (far < least && !this.isOff(i)) [best, least] = [i, far];
    }
    return best;
  }

  under(event) {
    const box = canvas.getBoundingClientRect();
    return this.nearest(event.clientX - box.left, event.clientY - box.top, REACH);
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
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const toward = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const act = {
      Enter: () => this.at >= 0 && openCluster(this.at),
      " ": () => this.at >= 0 && select([this.at], "toggle"),
      a: () => selectInView(this),
      A: () => selectInView(this),
      "+": () => zoomBy(this, ZOOM_STEP),
      "=": () => zoomBy(this, ZOOM_STEP),
      "-": () => zoomBy(this, 1 / ZOOM_STEP),
      0: () => zoomBy(this, 0),
      Escape: () => (this.at >= 0 ? this.show(-1) : setLasso(this, false)),
    }[event.key];
    if (!toward && !act) return;
    event.preventDefault();
    if (act) act();
    else if (event.shiftKey) moveBy(this, (-toward[0] * this.width) / 5, (-toward[1] * this.height) / 5);
    else this.goTo(this.at < 0 ? this.nearest(this.width / 2, this.height / 2, Infinity) : this.beside(...toward));
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
      if (along <= 0.01 || across > 2 * along || this.isOff(i)) continue;
      const far = along + 2 * across;
      if (far < least) [best, least] = [i, far];
    }
    return best;
  }

  // Show a sample; if its mark is outside, move the map.
  goTo(i) {
    this.at = i;
    if (i < 0 || this.isInView(i)) this.show(i);
    else moveBy(this, this.width / 2 - this.px[i], this.height / 2 - this.py[i]);
  }

  clearOverlay() {
    const context = this.overlay.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.overlay.width, this.overlay.height);
    context.strokeStyle = getComputedStyle(root).getPropertyValue("--ink").trim();
    context.lineWidth = 1.6 * this.ratio;
    return context;
  }

  show(i) {
    this.at = i;
    const context = this.clearOverlay();
    if (i < 0) {
      this.card.hidden = true;
      this.reading.textContent = "";
      return;
    }
    context.beginPath();
    context.arc(this.px[i] * this.ratio, this.py[i] * this.ratio, (6 * this.size + 4) * this.ratio, 0, 2 * Math.PI);
    context.stroke();
    const address = source(i);
    const lines = [clusterTitle(now[i])];
    if (data.class) lines.push(`class ${className(i)}`);
    if (data.certainty) lines.push(`certainty ${certainty(i)}`);
    if (data.outlier) lines.push(`outlier score ${outlier(i)}`);
    if (chosen[i]) lines.push("selected");
    this.card.replaceChildren(
      ...[
        address ? make("img", { src: address, alt: "" }) : null,
        make("p", { className: "name", textContent: data.names[i] }),
        ...lines.map((line) => make("p", { textContent: line })),
      ].filter(Boolean),
    );
    this.card.hidden = false;
    this.putBeside(i);
    this.reading.textContent = [data.names[i], ...lines].join(", ");
  }

  // Put the card beside its mark, within the map and the window.
  putBeside(i) {
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
