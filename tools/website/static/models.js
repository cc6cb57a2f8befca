// Shows the rows of the list of models that have every word in the field.
const field = document.querySelector("#model-words");
const said = document.querySelector("#model-filter output");
const families = [...document.querySelectorAll("section section:has(table)")];
const rows = families.flatMap((family) => [...family.querySelectorAll("tbody tr")]);

function filter() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  for (const family of families) {
    family.hidden = !family.querySelector("tbody tr:not([hidden])");
  }
  said.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} models`;
}

field.addEventListener("input", filter);
field.form.addEventListener("submit", (event) => event.preventDefault());
filter();
