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
