"use strict";
const form = document.getElementById("filters");
const rows = [...document.querySelectorAll("details.row")].map((row) => ({
  row,
  text: row.textContent.toLowerCase(),
  verdicts: row.dataset.verdicts.split(" "),
}));

// Hide what the filters do not select, and the libraries without any row left.
function filter() {
  const { library, encoding, verdict, text } = Object.fromEntries(new FormData(form));
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const { row, text: own, verdicts } of rows) {
    row.hidden = !(
      (!library || row.dataset.library === library) &&
      (!encoding || row.dataset.encoding === encoding) &&
      (!verdict || verdicts.includes(verdict)) &&
      words.every((word) => own.includes(word))
    );
  }
  for (const section of document.querySelectorAll("section.library")) {
    const own = [...section.querySelectorAll("details.row")];
    const wanted = !library || section.querySelector("h3").id === library;
    const filtered = encoding || verdict || words.length;
    section.hidden = !wanted || (Boolean(filtered) && own.every((row) => row.hidden));
  }
  const shown = (inside) => {
    const every = [...document.querySelectorAll(`${inside} > details.row`)];
    return `${every.filter((row) => !row.hidden).length} of ${every.length}`;
  };
  document.getElementById("shown").textContent =
    `Shown: ${shown(".library")} functions, ${shown(".claims")} deviations.`;
}

// The browser opens the row that a link names; show it if a filter hides it.
function reveal() {
  const goal = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (goal?.closest("[hidden]")) {
    form.reset();
    filter();
    goal.closest("details").scrollIntoView(); // Chromium would do it, others have tried before
  }
}

form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(filter));
for (const cell of document.querySelectorAll("a.cell")) {
  cell.addEventListener("click", () => {
    form.reset();
    form.elements.library.value = cell.dataset.library;
    form.elements.encoding.value = cell.dataset.encoding;
    filter();
  });
}
addEventListener("hashchange", reveal);
filter();
