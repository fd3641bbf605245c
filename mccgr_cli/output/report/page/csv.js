// Tables to download. Names are written as they are, because other programs look samples up by them.

const FORMULA = /^[=+\-@\t\r]/; // a spreadsheet takes a cell that begins like this for a formula

const cell = (value) => {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

// Save rows as a file; return how many different texts a spreadsheet would take for formulas.
function downloadTable(fileName, rows) {
  const text = rows.map((row) => row.map(cell).join(",")).join("\n");
  const address = URL.createObjectURL(new Blob([text, "\n"], { type: "text/csv;charset=utf-8" }));
  const link = make("a", { href: address, download: fileName, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  const texts = new Set(rows.flat().filter((value) => typeof value === "string"));
  return [...texts].filter((value) => FORMULA.test(value) && Number.isNaN(Number(value))).length;
}

function formulaNote(number) {
  if (!number) return "";
  const names = number === 1 ? "1 name begins" : `${thousands(number)} names begin`;
  return `${names} with = + - or @. Names are unchanged; in a spreadsheet, import the columns as text.`;
}

// The name of a sample on the page as it is in the file; its number if the file has no names.
function fullName(i) {
  return data.full_names === null ? String(data.samples[i]) : (data.full_names[i] ?? data.names[i]);
}

let everyone = null;

// All samples in the order of the file, each as its place on the page or, if it is not there, its name and cluster.
function allSamples() {
  if (everyone) return everyone;
  everyone = new Array(data.total).fill(null);
  data.samples.forEach((sample, i) => {
    everyone[sample] = { place: i };
  });
  if (count === data.total) return everyone;
  const others = JSON.parse(byId("others").textContent);
  const bytes = Uint8Array.from(atob(others.clusters), (letter) => letter.charCodeAt(0));
  const homes = new { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array }[others.bytes](bytes.buffer);
  let next = 0;
  let name = "";
  for (let sample = 0; sample < data.total; sample += 1) {
    if (everyone[sample]) continue;
    if (others.names === null) name = String(sample);
    else name = name.slice(0, others.names[2 * next]) + others.names[2 * next + 1];
    everyone[sample] = { place: null, name, home: homes[next] };
    next += 1;
  }
  return everyone;
}

const sampleName = ({ place, name }) => (place === null ? name : fullName(place));
const sampleCluster = (sample) => (sample.place === null ? clusters[sample.home].othersIn : now[sample.place]);

function assignmentRow(sample) {
  const c = sampleCluster(sample);
  return [sampleName(sample), clusters[c].number, clusterName(c) ?? ""];
}

const ASSIGNMENT_COLUMNS = ["sample", "cluster", "name"];

const downloadAssignments = () =>
  downloadTable("clusters.csv", [ASSIGNMENT_COLUMNS, ...allSamples().map(assignmentRow)]);

function downloadSelection(places) {
  const inOrder = [...places].sort((a, b) => data.samples[a] - data.samples[b]);
  return downloadTable("selection.csv", [ASSIGNMENT_COLUMNS, ...inOrder.map((place) => assignmentRow({ place }))]);
}

function downloadDuplicates() {
  const everything = allSamples();
  const rows = data.duplicates.flatMap(([samples, similarity, exact], group) =>
    samples.map((sample, k) => {
      const name = sampleName(everything[sample]);
      return [group, name, k === 0 ? "yes" : "no", similarity, exact ? "yes" : "no"];
    }),
  );
  return downloadTable("duplicates.csv", [["group", "sample", "keep", "similarity", "exact"], ...rows]);
}
