"""The HTML page's frame, style and script. Nothing is loaded from elsewhere."""

from __future__ import annotations

from string import Template
from typing import Final

STYLE: Final = """
:root { --ink: #1c2330; --soft: #66707f; --line: #d9dee6; --page: #fff; --band: #f5f7fa;
  --bar: #3568b8; --ok: #7fae8b; --fault: #d1795c; --mark: #b3372c; --good: #1f7a4a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa4b2; --line: #363d49;
  --page: #14181f; --band: #1c222b; --bar: #7fa8ea; --ok: #5d8a69; --fault: #c06a4e;
  --mark: #ef8277; --good: #74c797; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 28px; background: var(--page); color: var(--ink);
  font: 14px/1.45 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; }
.lead { color: var(--soft); margin: 0 0 18px; max-width: 76em; }
.tools { display: flex; flex-wrap: wrap; gap: 14px; align-items: center; margin: 0 0 12px; }
.tools input[type=search], .tools select { font: inherit; color: inherit; background: var(--page);
  border: 1px solid var(--line); border-radius: 6px; padding: 5px 9px; }
.tools output { color: var(--soft); }
.frame { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: separate; border-spacing: 0; width: 100%;
  font-variant-numeric: tabular-nums; }
th, td { padding: 9px 12px; border-bottom: 1px solid var(--line); vertical-align: top; }
tbody tr:last-child td, tbody tr:last-child th { border-bottom: 0; }
thead th { position: sticky; top: 0; background: var(--band); text-align: right; z-index: 2; }
thead th button { all: unset; cursor: pointer; font-weight: 600; }
thead th button:focus-visible { outline: 2px solid var(--bar); }
thead th small { display: block; font-weight: 400; color: var(--soft); }
th:first-child { position: sticky; left: 0; background: var(--band); text-align: left; z-index: 1;
  min-width: 9em; overflow-wrap: anywhere; }
thead th:first-child { z-index: 3; }
td { text-align: right; min-width: 12.5em; }
.value { font-size: 17px; font-weight: 600; }
.mark { color: var(--mark); font-weight: 700; cursor: help; }
.rank { color: var(--soft); margin-left: 6px; }
.first { color: var(--good); font-weight: 600; }
.soft, .delta { color: var(--soft); font-size: 12.5px; white-space: nowrap; }
.track, .ledger { position: relative; height: 6px; margin: 5px 0; background: var(--line);
  border-radius: 3px; overflow: hidden; }
.track i { position: absolute; top: 1px; height: 4px; background: var(--bar); opacity: .45; }
.track b { position: absolute; top: 0; width: 2px; height: 6px; background: var(--bar); }
.ledger { height: 4px; display: flex; }
.ledger i { background: var(--ok); } .ledger i.fault { background: var(--fault); }
.base { color: var(--soft); font-weight: 400; font-size: 12.5px; }
[aria-sort=ascending] button::after { content: " \\2191"; }
[aria-sort=descending] button::after { content: " \\2193"; }
ul { color: var(--soft); padding-left: 1.2em; max-width: 100em; }
li { margin: 4px 0; overflow-wrap: anywhere; }
[hidden] { display: none; }
"""

SCRIPT: Final = """
const table = document.querySelector("table"), body = table.tBodies[0];
const heads = [...table.tHead.rows[0].cells], rows = [...body.rows];
const search = document.getElementById("search"), domain = document.getElementById("domain");
const clean = document.getElementById("clean"), shown = document.getElementById("shown");
const value = (row, i) => row.cells[i].dataset.value;
function sort(i) {
  const down = heads[i].getAttribute("aria-sort") !== "descending";
  heads.forEach(h => h.removeAttribute("aria-sort"));
  heads[i].setAttribute("aria-sort", down ? "descending" : "ascending");
  const sign = down ? -1 : 1;
  rows.sort((a, b) => {
    const x = value(a, i), y = value(b, i);
    if (i === 0) return -sign * x.localeCompare(y);
    if (x === "" || y === "") return (x === "") - (y === "");
    return sign * (x - y);
  });
  body.append(...rows);
}
function filter() {
  const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
  heads.forEach((h, i) => {
    const off = i > 0 && domain.value !== "" && h.dataset.domain !== domain.value;
    h.hidden = off;
    rows.forEach(r => { r.cells[i].hidden = off; });
  });
  let count = 0;
  rows.forEach(r => {
    const name = value(r, 0).toLowerCase();
    const marked = clean.checked && [...r.cells].some(c => c.dataset.marks && !c.hidden);
    r.hidden = marked || !words.every(w => name.includes(w));
    count += !r.hidden;
  });
  shown.value = count + " of " + rows.length + " rows";
}
heads.forEach((h, i) => h.querySelector("button").addEventListener("click", () => sort(i)));
[search, domain, clean].forEach(e => e.addEventListener("input", filter));
filter();
"""

PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Leaderboard</title>
<style>$style</style>
</head>
<body>
<h1>Leaderboard</h1>
<p class="lead">$lead</p>
<div class="tools">
<input id="search" type="search" placeholder="Filter rows" aria-label="Filter rows">
<select id="domain" aria-label="Columns">$domains</select>
<label><input id="clean" type="checkbox"> hide rows with marked cells</label>
<output id="shown"></output>
</div>
<div class="frame">
<table>
<thead><tr>$heads</tr></thead>
<tbody>
$rows
</tbody>
</table>
</div>
<ul>
$notes
</ul>
<script>$script</script>
</body>
</html>
""")
