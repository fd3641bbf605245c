// The theme: as the system has it, or as the button says.

const dark = matchMedia("(prefers-color-scheme: dark)");
const toggle = byId("theme");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

function themed() {
  toggle.setAttribute("aria-pressed", String(isDark()));
  map?.draw();
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
