// Before anything is drawn: the theme that was chosen before, if the browser remembers it.
(() => {
  "use strict";
  document.documentElement.classList.add("script");
  try {
    const theme = localStorage.getItem("mccgr-theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch {
    // a page from a file may be allowed no memory
  }
})();
