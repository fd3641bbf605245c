// What all parts of the script use. Data come from blocks of JSON; text goes in as text, never as HTML.

const byId = (id) => document.getElementById(id);
const root = document.documentElement;
const data = JSON.parse(byId("data").textContent);
const count = data.names.length; // samples on the page
const SVG = "http://www.w3.org/2000/svg";

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

function drawing(className, viewBox, part, attributes) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", className);
  svg.setAttribute("viewBox", viewBox);
  svg.setAttribute("aria-hidden", "true");
  const inner = document.createElementNS(SVG, part);
  for (const [key, value] of Object.entries(attributes)) inner.setAttribute(key, String(value));
  svg.append(inner);
  return svg;
}

// The sign of a cluster or class, as in the template.
const sign = (look) =>
  drawing(`marker c${look % data.colours}`, "0 0 12 12", "path", { d: data.markers[look % data.markers.length] });

function bar(share) {
  const svg = drawing("bar", "0 0 100 4", "rect", { width: 100 * Math.min(Math.max(share, 0), 1), height: 4 });
  svg.setAttribute("preserveAspectRatio", "none");
  return svg;
}

const thousands = (number) => number.toLocaleString("en-US");
const plural = (number, noun = data.noun) => `${thousands(number)} ${noun}${number === 1 ? "" : "s"}`;
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// What a screen reader says when it has finished its sentence.
function announce(text) {
  byId("announcer").textContent = text;
}
