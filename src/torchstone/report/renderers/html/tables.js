// Tables with titles: sorted by a column, filtered by words, without the columns that one does not want to see.
(() => {
  const UNITS = new Map(Object.entries(JSON.parse(document.getElementById("units").textContent)));
  const NUMBER = /^[\s([±]*(?:about |at least |at most |약 )?([-−+]?(?:\d[\d,]*)?\.?\d+(?:e[-+]?\d+)?)\s*([^\s\d*=)\],:]*)/i;
  const FILTERED = 12; // rows, from more than which on there is a filter
  const NOTHING = ["", "–"];

  /** Return the number that a cell begins with, in the base unit; null where it begins with none. */
  const quantity = (text) => {
    const found = NUMBER.exec(text);
    if (found === null) return null;
    const value = Number(found[1].replaceAll(",", "").replace("−", "-"));
    return Number.isNaN(value) ? null : value * (UNITS.get(found[2]) ?? 1);
  };

  /** Return what a cell is sorted by: numbers before words. */
  const keyOf = (text, isText) => {
    const number = isText ? null : quantity(text);
    return number === null ? [1, text] : [0, number];
  };

  const compare = (a, b) => {
    if (a[0] !== b[0]) return a[0] - b[0];
    return a[0] === 0 ? a[1] - b[1] : a[1].localeCompare(b[1], document.documentElement.lang, { numeric: true });
  };

  const sortable = (table) => {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
    heads.forEach((head, place) => {
      if (head.tagName !== "TH" || head.classList.contains("axis")) return;
      const isText = table.classList.contains(`l${place + 1}`) && !head.dataset.numbers;
      head.setAttribute("aria-sort", "none");
      head.replaceChildren(button(head.textContent, () => {
        const order = NEXT[head.getAttribute("aria-sort")];
        for (const one of heads) if (one.hasAttribute("aria-sort")) one.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", order);
        const sign = order === "descending" ? -1 : 1;
        const rows = original.map((row) => [row, row.cells[place].textContent.trim()]);
        const known = rows.filter(([, text]) => !NOTHING.includes(text));
        const missing = rows.filter(([, text]) => NOTHING.includes(text)); // always last
        const keys = new Map(known.map(([row, text]) => [row, keyOf(text, isText)]));
        if (order !== "none") known.sort(([a], [b]) => sign * compare(keys.get(a), keys.get(b)));
        body.append(...(order === "none" ? original : [...known, ...missing].map(([row]) => row)));
      }, { className: "sort" }));
    });
  };

  const filterable = (table, tools) => {
    const rows = [...table.tBodies[0].rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const count = element("output", { textContent: say("{0} rows", rows.length) });
    const field = element("input", { type: "search" });
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, place) => {
        row.hidden = !words.every((word) => texts[place].includes(word));
        if (!row.hidden) shown += 1;
      });
      count.textContent = words.length ? say("{0} of {1} rows", shown, rows.length) : say("{0} rows", rows.length);
    });
    tools.append(element("label", {}, say("Filter"), field), count);
  };

  /**
   * Return which columns leave where there is no room for all: those of the highest rank first, then from the right.
   * An interval that is as important as its value stays as long as that.
   */
  const outOf = (heads, over) => {
    const leaving = new Set();
    const rankOf = (place) => Number(heads[place].dataset.rank ?? 0);
    const leavesWith = ({ dataset: { of } }, rank) => of !== undefined && rankOf(of) === rank;
    const ranked = heads.map((head, place) => [rankOf(place), place])
      .filter(([rank, place]) => rank > 1 && !leavesWith(heads[place], rank)); // what was asked for stays
    ranked.sort(([rank, place], [other, later]) => other - rank || later - place);
    for (const [, place] of ranked) {
      if (over <= 0) break;
      heads.forEach((head, at) => {
        if (leaving.has(at) || (at !== place && head.dataset.of !== String(place))) return;
        leaving.add(at); // with what belongs to it
        over -= head.offsetWidth;
      });
    }
    return leaving;
  };

  const choosable = (table, tools, grid) => {
    const heads = [...table.tHead.rows[0].cells];
    const titles = heads.map((head) => head.textContent);
    const wanted = heads.map(() => true);
    const isThere = (place) => {
      const of = heads[place].dataset.of;
      return wanted[place] && (of === undefined || isThere(Number(of)));
    };
    const title = element("summary");
    const apply = () => {
      heads.forEach((_, place) => table.classList.toggle(`h${place + 1}`, !isThere(place)));
      title.textContent = `${say("Columns")}: ${heads.filter((_, place) => isThere(place)).length}/${heads.length}`;
    };
    const boxes = new Map();
    heads.forEach((head, place) => {
      if (!head.dataset.rank) return;
      const box = element("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => { wanted[place] = box.checked; apply(); });
      boxes.set(place, box);
    });
    if (!boxes.size) return;
    const labelled = [...boxes].map(([place, box]) => {
      const of = heads[place].dataset.of;
      return element("label", {}, box, of === undefined ? titles[place] : `${titles[of]} ${titles[place]}`);
    });
    tools.append(element("details", { className: "columns" }, title, element("div", {}, ...labelled)));
    apply();
    const seen = new ResizeObserver(() => { // of a table in a folded section: when that is opened
      if (!grid.clientWidth) return;
      seen.disconnect();
      for (const place of outOf(heads, table.offsetWidth - grid.clientWidth)) {
        if (boxes.has(place)) boxes.get(place).checked = wanted[place] = false;
      }
      apply();
    });
    seen.observe(grid);
  };

  for (const table of document.querySelectorAll("table.titled")) {
    const rows = table.tBodies[0].rows.length;
    const tools = element("div", { className: "tools" });
    if (rows > FILTERED) filterable(table, tools);
    const grid = table.closest(".grid");
    choosable(table, tools, grid); // before the titles become buttons
    if (rows > 1) sortable(table);
    if (tools.childElementCount) grid.prepend(tools);
  }
})();
