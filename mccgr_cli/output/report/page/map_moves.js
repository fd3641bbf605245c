// What is seen of the map, and what is selected on it: zoom, movement, and the lasso.

const ZOOM_STEP = 1.5;
const MOST_ZOOM = 60;
const DRAG = 4; // pixels; less is a click

// Change the zoom by a factor around a point, or around the mark that is shown, or the middle. 0: the whole map.
function zoomBy(map, factor, x, y) {
  const shown = map.at >= 0 && map.isInView(map.at);
  const atX = x ?? (shown ? map.px[map.at] : map.width / 2);
  const atY = y ?? (shown ? map.py[map.at] : map.height / 2);
  const zoom = Math.min(Math.max(map.zoom * factor, 1), MOST_ZOOM);
  map.left = atX - ((atX - map.left) * zoom) / map.zoom;
  map.top = atY - ((atY - map.top) * zoom) / map.zoom;
  map.zoom = zoom;
  moveBy(map, 0, 0);
}

function moveBy(map, dx, dy) {
  map.left += dx;
  map.top += dy;
  map.place();
  map.drawSoon();
  canvas.classList.toggle("zoomed", map.zoom > 1); // one finger moves the map instead of the page
  byId("zoom-out").disabled = byId("zoom-reset").disabled = map.zoom <= 1;
  byId("zoom-in").disabled = map.zoom >= MOST_ZOOM;
}

function setLasso(map, on) {
  map.lassoing = on;
  map.gestures.line = null; // one that is being drawn
  canvas.classList.toggle("lassoing", on);
  byId("lasso").setAttribute("aria-pressed", String(on));
  map.show(-1);
}

function selectInView(map) {
  const within = (i) => map.px[i] >= 0 && map.px[i] <= map.width && map.py[i] >= 0 && map.py[i] <= map.height;
  select([...Array(count).keys()].filter((i) => within(i) && !map.isOff(i)), "add");
}

// Whether a point is within a closed line: a ray from it crosses the line an odd number of times.
function isWithin(line, x, y) {
  let inside = false;
  for (let k = 0, before = line.length - 1; k < line.length; before = k, k += 1) {
    const [ax, ay] = line[k];
    const [bx, by] = line[before];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

function drawLasso(map, line) {
  const context = map.clearOverlay();
  context.setTransform(map.ratio, 0, 0, map.ratio, 0, 0);
  context.beginPath();
  for (const [x, y] of line) context.lineTo(x, y);
  context.closePath();
  context.fillStyle = context.strokeStyle = getComputedStyle(root).getPropertyValue("--accent").trim();
  context.globalAlpha = 0.12;
  context.fill();
  context.globalAlpha = 1;
  context.lineWidth = 1.5;
  context.stroke();
}

// Pointers on the map: one moves it or draws the lasso, two zoom it.
class Gestures {
  constructor(map) {
    this.map = map;
    this.pointers = new Map();
    this.line = null; // the lasso
    this.adds = false;
    this.far = 0; // how far the pointer went
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => this.up(event));
    canvas.addEventListener("click", (event) => this.far < DRAG && !map.lassoing && !event.shiftKey && map.click(event));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  at(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.at(event));
    this.line = null;
    if (this.pointers.size > 1) return;
    this.far = 0;
    this.adds = event.shiftKey || event.ctrlKey || event.metaKey;
    if (this.map.lassoing || event.shiftKey) this.line = [this.at(event)];
  }

  moved(event) {
    const [x, y] = this.at(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch" && !this.map.lassoing) this.map.point(event);
      return;
    }
    const [dx, dy] = [x - before[0], y - before[1]];
    this.far += Math.hypot(dx, dy);
    if (this.far < DRAG) return;
    this.pointers.set(event.pointerId, [x, y]);
    if (this.pointers.size === 2) this.pinch(event.pointerId, before);
    else if (this.line) {
      this.line.push([x, y]);
      drawLasso(this.map, this.line);
    } else moveBy(this.map, dx, dy);
  }

  // Two fingers: the distance between them is the zoom, the middle between them is where the map is held.
  pinch(id, before) {
    const other = [...this.pointers].find(([key]) => key !== id)[1];
    const here = this.pointers.get(id);
    const distance = (point) => Math.max(Math.hypot(point[0] - other[0], point[1] - other[1]), 1);
    moveBy(this.map, (here[0] - before[0]) / 2, (here[1] - before[1]) / 2);
    zoomBy(this.map, distance(here) / distance(before), (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
  }

  up(event) {
    if (!this.pointers.delete(event.pointerId)) return;
    const { line, map } = this;
    this.line = null;
    if (!line || event.type === "pointercancel") return;
    map.show(-1);
    if (this.far < DRAG) {
      const i = map.under(event);
      if (i >= 0) select([i], "toggle");
      return;
    }
    const inside = [...Array(count).keys()].filter((i) => !map.isOff(i) && isWithin(line, map.px[i], map.py[i]));
    select(inside, this.adds ? "add" : "set");
  }

  // The wheel zooms with Ctrl (so do two fingers on a touchpad), and without it once the map has been clicked.
  wheel(event) {
    const { map } = this;
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    const lines = event.deltaMode === 1 ? 16 : 1;
    const factor = Math.exp(-Math.min(Math.max(event.deltaY * lines, -120), 120) / (event.ctrlKey ? 100 : 300));
    if (map.zoom <= 1 && factor <= 1 && !event.ctrlKey && !event.metaKey) return; // the page scrolls on
    event.preventDefault();
    zoomBy(map, factor, ...this.at(event));
  }
}

function makeMap() {
  const made = new SampleMap();
  addLegend(made);
  made.gestures = new Gestures(made);
  byId("zoom-in").addEventListener("click", () => zoomBy(made, ZOOM_STEP));
  byId("zoom-out").addEventListener("click", () => zoomBy(made, 1 / ZOOM_STEP));
  byId("zoom-reset").addEventListener("click", () => zoomBy(made, 0));
  byId("lasso").addEventListener("click", () => setLasso(made, !made.lassoing));
  byId("select-view").addEventListener("click", () => selectInView(made));
  byId("zoom-out").disabled = byId("zoom-reset").disabled = true;
  return made;
}

const map = canvas && data.x ? makeMap() : null;
