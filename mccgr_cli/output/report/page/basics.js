// What all parts of the script use. Data come from blocks of JSON; text goes in as text, never as HTML.

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
