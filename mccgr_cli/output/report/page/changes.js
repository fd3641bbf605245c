// The controls that change clusters, and the bar that counts the changes, takes them back and saves them.

const button = (textContent, label, onclick) => make("button", { type: "button", textContent, "aria-label": label, onclick });

let mergeable = true; // there is more than one cluster

// The controls of a cluster, below its heading.
function addControls(c) {
  const row = make("div", { className: "edit" });
  headings[c].part.querySelector("h3").after(row);

  function close(focusOn) {
    const title = clusterTitle(c);
    const both = [
      button("Rename", `Rename ${title}`, openName),
      button("Merge into …", `Merge ${title} into another cluster`, openMerge),
    ];
    both[1].disabled = !mergeable;
    row.replaceChildren(...both);
    row.hidden = !clusters[c].size;
    if (focusOn !== undefined) (row.hidden ? headings[c].part.querySelector("h3") : both[focusOn]).focus();
  }

  // One control and buttons to do it or not. Enter in a text does it too, Escape does not.
  function open(control, verb, act, at) {
    const done = () => {
      close(at);
      act();
    };
    row.replaceChildren(control, button(verb, null, done), button("Cancel", null, () => close(at)));
    control.onkeydown = (event) => {
      if (event.key === "Enter" && control.matches("input")) done();
      else if (event.key === "Escape") close(at);
      else return;
      event.preventDefault();
    };
    control.focus();
  }

  function openName() {
    const label = `New name of ${clusterTitle(c)}`;
    const value = clusterName(c) ?? "";
    const input = make("input", { type: "text", value, maxLength: 200, autocomplete: "off", "aria-label": label });
    open(input, "Save", () => rename(c, input.value), 0);
    input.select();
  }

  function openMerge() {
    const options = filled().filter((other) => other !== c);
    const list = make("select", { "aria-label": `Merge ${clusterTitle(c)} into` });
    list.append(...options.map((other) => make("option", { value: String(other), textContent: choiceText(other) })));
    open(list, "Merge", () => merge(c, Number(list.value)), 1);
  }

  headings[c].showControls = () => {
    const within = row.contains(document.activeElement);
    close(within ? 0 : undefined);
  };
}

function showControls() {
  mergeable = filled().length > 1;
  headings.forEach((heading, c) => {
    if (!heading.showControls) addControls(c);
    const state = JSON.stringify([clusterTitle(c), clusters[c].size > 0, mergeable]);
    if (heading.controls !== state) heading.showControls();
    heading.controls = state;
  });
}

showControls();
onChange.push(showControls);

// The bar

const changesBar = byId("changes");
const changesNote = byId("changes-note");
const usualNote = changesNote.textContent;

function warn(event) {
  event.preventDefault();
  event.returnValue = true; // for older browsers
}

function showBar() {
  const last = changes.at(-1);
  const hadFocus = changesBar.contains(document.activeElement);
  changesBar.hidden = !changes.length && !undone.length;
  root.classList.toggle("changed", !changesBar.hidden);
  byId("changes-count").textContent = changes.length ? plural(changes.length, "change") : "No changes";
  byId("changes-last").textContent = last ? last.text : "";
  byId("changes-undo").disabled = !last;
  byId("changes-reset").disabled = !last;
  byId("changes-download").disabled = !last;
  byId("changes-redo").disabled = !undone.length;
  changesNote.textContent = usualNote;
  if (hadFocus && document.activeElement?.disabled !== false) byId(last ? "changes-undo" : "changes-redo").focus();
  // a page that would lose changes asks before it is left
  if (changes.length && !isSaved()) addEventListener("beforeunload", warn);
  else removeEventListener("beforeunload", warn);
}

byId("changes-undo").addEventListener("click", () => undo());
byId("changes-redo").addEventListener("click", () => redo());
byId("changes-reset").addEventListener("click", () => undo(changes.length));
byId("changes-download").addEventListener("click", () => {
  const note = formulaNote(downloadAssignments());
  saved = changes.slice();
  showBar();
  changesNote.textContent = [`Saved as clusters.csv.`, note, usualNote].filter(Boolean).join(" ");
  announce(changesNote.textContent);
});
onChange.push(showBar);
document.addEventListener("keydown", (event) => {
  if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || viewer.open) return;
  if (event.target.closest("input, select, textarea") || !changes.length) return;
  event.preventDefault();
  undo();
});
