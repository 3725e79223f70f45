"use strict";
(() => {
  const cellValue = (row, index, numeric) => {
    const cell = row.cells[index];
    const number = cell.dataset.sort;
    return numeric ? (number === undefined ? -Infinity : Number(number)) : number ?? cell.textContent;
  };

  const collator = new Intl.Collator("en", { numeric: true });

  function sort(table, header) {
    const index = header.cellIndex;
    const numeric = header.classList.contains("number");
    const now = header.getAttribute("aria-sort");
    const first = numeric ? "descending" : "ascending";
    const order = now === null ? first : now === "ascending" ? "descending" : "ascending";
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const keyed = Array.from(body.rows, (row) => [cellValue(row, index, numeric), row]);
    const compare = numeric ? (a, b) => (a === b ? 0 : a < b ? -1 : 1) : collator.compare;
    keyed.sort((a, b) => sign * compare(a[0], b[0]));
    body.append(...keyed.map((pair) => pair[1]));
  }

  function button(text, action) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", action);
    return made;
  }

  const FILTER_FROM = 12;

  function filterBox(table) {
    const rows = table.tBodies[0].rows;
    const box = document.createElement("input");
    box.type = "search";
    box.placeholder = `Filter ${rows.length} rows`;
    box.setAttribute("aria-label", box.placeholder);
    box.className = "filter";
    let waiting = 0;
    box.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
        for (const row of rows) {
          const text = row.textContent.toLowerCase();
          row.hidden = !words.every((word) => text.includes(word));
        }
      }, 80);
    });
    return box;
  }

  // A large report has thousands of tables in closed sections: each is made ready when it is first seen.
  function prepare(root) {
    for (const table of root.querySelectorAll("table.sortable:not([data-ready])")) {
      if (table.closest("details:not([open])")) continue;
      table.dataset.ready = "";
      for (const header of table.tHead.rows[0].cells) {
        const text = header.textContent;
        header.textContent = "";
        header.append(button(text, () => sort(table, header)));
      }
      if (table.tBodies[0].rows.length >= FILTER_FROM) table.parentNode.before(filterBox(table));
    }
  }

  function reveal() {
    let id = "";
    try { id = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    const target = id && document.getElementById(id);
    if (!target) return;
    let inside = target.closest("details");
    while (inside) {
      inside.open = true;
      inside = inside.parentElement.closest("details");
    }
    target.scrollIntoView();
  }

  const THEMES = ["auto", "light", "dark"];

  function theme() {
    const made = button("Theme: auto", () => {
      const now = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % THEMES.length];
      document.documentElement.dataset.theme = now;
      made.textContent = `Theme: ${now}`;
    });
    return made;
  }

  const tools = document.getElementById("tools");
  if (document.querySelector("details.mesh")) {
    let open = false;
    const all = button("Open all", () => {
      open = !open;
      for (const one of document.querySelectorAll("details.mesh")) one.open = open;
      all.textContent = open ? "Close all" : "Open all";
    });
    tools.append(all);
  }
  tools.append(theme());
  document.addEventListener("toggle", (event) => { if (event.target.open) prepare(event.target); }, true);
  window.addEventListener("hashchange", reveal);
  prepare(document);
  reveal();
})();
