// The legend of the map: which groups there are, and which are switched off.

const MANY = 12; // groups; if there are more, they come closer to each other

function showLegend(map) {
  const buttons = map.groups().map(({ name, look, cluster }, g) => {
    if (cluster !== undefined && !clusters[cluster].size) return null;
    const { given, mostly } = cluster === undefined ? { given: null, mostly: null } : clusters[cluster];
    const main = mostly === null ? null : data.classes[mostly]; // class
    const beside = [given === null ? null : name, main].filter((text) => text !== null);
    const label = [given, `${map.by} ${name}`, main === null ? null : `mostly ${main}`].filter((text) => text !== null);
    const button = make(
      "button",
      { type: "button", "aria-pressed": String(!map.off.has(g)), "aria-label": label.join(", ") },
      sign(look),
      make("span", { className: "name", textContent: given ?? name }),
      beside.length ? make("small", { textContent: beside.join(", ") }) : null,
    );
    button.addEventListener("click", () => {
      if (!map.off.delete(g)) map.off.add(g);
      button.setAttribute("aria-pressed", String(!map.off.has(g)));
      map.draw();
    });
    return button;
  });
  const legend = byId("legend");
  const focused = [...legend.children].indexOf(document.activeElement);
  legend.replaceChildren(...buttons.filter(Boolean));
  legend.classList.toggle("many", legend.children.length > MANY);
  legend.children[Math.min(focused, legend.children.length - 1)]?.focus({ preventScroll: true });
}

function addLegend(map) {
  for (const button of document.querySelectorAll("[data-colour]")) {
    button.addEventListener("click", () => {
      map.by = button.dataset.colour;
      map.off.clear();
      for (const one of document.querySelectorAll("[data-colour]")) one.setAttribute("aria-pressed", String(one === button));
      showLegend(map);
      map.draw();
    });
  }
  for (const button of document.querySelectorAll("[data-every]")) {
    button.addEventListener("click", () => {
      map.off = new Set(button.dataset.every === "all" ? [] : map.groups().keys());
      showLegend(map);
      map.draw();
    });
  }
  byId("with-names").addEventListener("click", (event) => {
    withNames = !withNames;
    event.currentTarget.setAttribute("aria-pressed", String(withNames));
    map.draw();
  });
  showLegend(map);
  onChange.push(() => {
    showLegend(map);
    map.draw();
  });
}
