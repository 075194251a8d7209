"use strict";
// Building the page. Everything that comes from a run is put in as text, never as markup.

function el(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    } else if (name === "class") node.className = value;
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  put(node, children);
  return node;
}

function put(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

function fill(node, ...children) {
  node.replaceChildren();
  put(node, children);
  return node;
}

function say(text) {
  document.getElementById("status").textContent = text;
}

const figure = (value, digits = 3) =>
  value === null || value === undefined ? "–" : Number(value).toFixed(digits);
const signed = value => (value > 0 ? "+" : "") + figure(value);
const count = value => Number(value).toLocaleString("en");
const interval = row =>
  row.low === null || row.low === undefined ? "" : `[${figure(row.low)}, ${figure(row.high)}]`;
const pretty = value => (typeof value === "string" ? value : JSON.stringify(value, null, 1));

// One line of JSON that a person reads: texts without quotes, lists and objects as they are.
const line = value => (typeof value === "string" ? value : JSON.stringify(value));

// An address of this page: parts of the path and fields.
function address(parts, fields) {
  const used = Object.entries(fields || {}).filter(([, value]) => value !== "" && value !== null);
  const query = new URLSearchParams(used).toString();
  return "#/" + parts.map(encodeURIComponent).join("/") + (query ? "?" + query : "");
}

function folded(title, ...inside) {
  return el("details", {}, el("summary", {}, title), inside);
}

function verbatim(text, properties) {
  // A region of its own that a keyboard can scroll.
  return el("pre", { tabindex: 0, ...properties }, text);
}

function badge(cls, meaning) {
  return el("span", { class: cls === "ok" ? "badge ok" : "badge fault", title: meaning }, cls);
}

function ledger(counts) {
  const total = Object.values(counts).reduce((a, b) => a + b, 0);
  const used = Object.entries(counts).filter(([, n]) => n);
  const bar = el("span", { class: "ledger", "aria-hidden": "true" });
  for (const [name, n] of used) {
    const part = el("i", { class: name === "ok" ? "ok" : "fault" });
    part.style.width = `${(100 * n) / total}%`;
    bar.append(part);
  }
  const words = used.map(([name, n]) => `${name} ${count(n)}`).join(", ");
  return el("span", { class: "with-ledger" }, bar, el("small", {}, words));
}

// A table whose columns sort. columns: {title, key, cell(row), sort(row) or name, class}; order:
// {sort, down}; onSort(name). Without onSort the rows given are sorted here.
function table(columns, rows, { caption, order, onSort, rowClass } = {}) {
  const state = order || { sort: "", down: false };
  const body = el("tbody");
  const heads = columns.map(column => {
    const name = column.key;
    if (!column.sort) return el("th", { scope: "col", class: column.class }, column.title);
    const press = () => {
      const down = state.sort === name ? !state.down : Boolean(column.down);
      Object.assign(state, { sort: name, down });
      mark();
      if (onSort) onSort(state);
      else draw();
    };
    const button = el("button", { type: "button", on: { click: press } }, column.title);
    return el("th", { scope: "col", class: column.class, "data-key": name }, button);
  });
  function mark() {
    for (const head of heads) {
      if (!head.dataset.key) continue;
      if (head.dataset.key !== state.sort) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    }
  }
  function draw() {
    let shown = [...rows];
    const by = columns.find(column => column.key === state.sort);
    if (by && !onSort) {
      const sign = state.down ? -1 : 1;
      shown.sort((a, b) => {
        const [x, y] = [by.sort(a), by.sort(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
      });
    }
    fill(body, shown.map(row => el("tr", { class: rowClass ? rowClass(row) : null },
      columns.map((column, i) => el(i ? "td" : "th",
        { class: column.class, scope: i ? null : "row" }, column.cell(row))))));
  }
  mark();
  draw();
  const inside = el("table", {}, caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, heads)), body);
  return el("div", { class: "frame", tabindex: 0, role: "region", "aria-label": caption || "table" },
    inside);
}
