"use strict";
// The leaderboard, two runs compared, and one sample in both.

async function boardPage(main, fields) {
  const columns = fields.columns || "overall";
  const pick = el("select", { "aria-label": "Columns", on: { change: event => {
    location.hash = address(["board"], { columns: event.target.value });
  } } });
  const offer = names => {
    fill(pick, [...new Set([...names, columns])].map(name => el("option", { value: name }, name)));
    pick.value = columns;
  };
  offer(["overall"]);
  const place = el("div");
  fill(main, el("h1", {}, "Leaderboard"), el("div", { class: "tools" }, el("label", {}, "columns ", pick)), place);
  let board;
  try {
    board = await get(["board"], { columns });
  } catch (error) {
    fill(place, el("p", { class: "warning" }, error.message));
    return;
  }
  offer(board.presets);
  const cells = new Map(board.cells.map(cell => [`${cell.label}\n${cell.column}`, cell]));
  const of = (label, column) => cells.get(`${label}\n${column.key}`);
  fill(place, table([
    { title: "model", key: "model", sort: label => label, cell: label => label },
    ...board.columns.map(column => ({ title: column.title || column.key, key: column.key, class: "number", down: true,
      sort: label => (of(label, column) ? of(label, column).value : null),
      cell: label => boardCell(of(label, column)) })),
  ], board.rows, { caption: "Leaderboard" }),
  el("ul", { class: "soft" }, board.caption.map(text => el("li", {}, text))));
}

function boardCell(cell) {
  if (!cell || cell.value === null) return "–";
  return [el("strong", {}, figure(cell.value)), cell.marks ? el("span", { class: "mark" }, cell.marks) : null,
    cell.rank === null ? null : el("span", { class: "rank" }, ` #${cell.rank}`),
    el("small", {}, interval(cell)), el("small", {}, `n ${count(cell.n)}`),
    Object.values(cell.ledger).some(Boolean) ? ledger(cell.ledger) : null];
}

async function comparePage(main, first, second, fields) {
  const metric = fields.metric || "score";
  const found = await get(["compare", first, second], { metric });
  const pick = el("select", { "aria-label": "Metric", on: { change: event => {
    location.hash = address(["compare", first, second], { metric: event.target.value });
  } } }, found.parts.map(name => el("option", { value: name }, name)));
  pick.value = metric;
  const all = found.overall;
  const named = (key, label) => el("a", { href: address(["run", key]) }, label);
  fill(main,
    el("p", { class: "crumbs" }, el("a", { href: "#/", "data-up": true }, "Runs")),
    el("h1", {}, `${found.first} and ${found.second} on ${found.task}`),
    found.warnings.map(text => el("p", { class: "warning" }, text)),
    el("div", { class: "tools" }, el("label", {}, "figure ", pick)),
    el("p", { class: "headline" }, named(first, found.first), " ", el("strong", {}, figure(found.first_mean)), " · ",
      named(second, found.second), " ", el("strong", {}, figure(found.second_mean)), " · difference ",
      el("strong", {}, signed(all.difference)), ` ${interval(all) || "(too few clusters for an interval)"}, p = ${Number(all.p).toPrecision(3)}`),
    el("p", { class: "soft" }, `${count(all.n)} common samples in ${count(all.clusters)} clusters; ` +
      `first better on ${count(found.better)}, second better on ${count(found.worse)}` +
      (found.samples_needed ? `; ${count(found.samples_needed)} samples would separate the two` : "")),
    found.groups.length ? folded("By group", groupTable(found)) : null,
    el("h2", {}, "Flips"), flipTable(found, first, second, metric));
}

function groupTable(found) {
  return table([
    { title: "group", key: "name", sort: row => row.name, cell: row => row.name },
    { title: "first", key: "first", class: "number", sort: row => row.first, cell: row => figure(row.first) },
    { title: "second", key: "second", class: "number", sort: row => row.second, cell: row => figure(row.second) },
    { title: "difference", key: "difference", class: "number", sort: row => row.result.difference,
      cell: row => [signed(row.result.difference), el("small", {}, interval(row.result))] },
    { title: "p (Holm)", key: "p", class: "number", sort: row => row.p, cell: row => Number(row.p).toPrecision(3) },
  ], found.groups, { caption: "By group" });
}

function flipTable(found, first, second, metric) {
  const open = flip => address(["pair", first, second], { sample: flip.sample, metric });
  return table([
    { title: "sample", key: "sample", sort: flip => flip.sample,
      cell: flip => el("a", { class: "row-link", href: open(flip) }, flip.sample) },
    { title: "group", key: "group", class: "wide", sort: flip => flip.group, cell: flip => flip.group },
    { title: found.first, key: "first", class: "number", sort: flip => flip.first, cell: flip => figure(flip.first) },
    { title: found.second, key: "second", class: "number", sort: flip => flip.second, cell: flip => figure(flip.second) },
    { title: "change", key: "change", class: "number", sort: flip => flip.first - flip.second,
      cell: flip => signed(flip.first - flip.second) },
  ], found.flips, { caption: `The ${found.flips.length} largest changes` });
}

async function pairPage(main, first, second, fields) {
  const sample = fields.sample || "";
  const [pair, found] = await Promise.all([
    get(["pair", first, second], { sample }),
    get(["compare", first, second], { metric: fields.metric || "score" }),
  ]);
  const at = found.flips.findIndex(flip => flip.sample === sample);
  const go = (text, step, rel) => {
    const flip = at < 0 ? undefined : found.flips[at + step];
    return flip ? el("a", { href: address(["pair", first, second], { ...fields, sample: flip.sample }), rel, "data-turn": rel }, text)
      : el("span", { class: "soft" }, text);
  };
  const side = async (key, label, indices) => el("section", { "aria-label": label }, el("h2", {}, label),
    indices.length ? whole(await get(["runs", key, "records", indices[0]]), key) : el("p", {}, "has no such sample"));
  fill(main,
    el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Runs"), " › ",
      el("a", { href: address(["compare", first, second], { metric: fields.metric || "" }), "data-up": true }, `${found.first} and ${found.second}`)),
    el("h1", {}, sample),
    el("nav", { class: "turn", "aria-label": "Flips" }, go("‹ previous flip", -1, "previous"),
      el("span", {}, at < 0 ? "no flip" : `${at + 1} of ${found.flips.length}`), go("next flip ›", 1, "next")),
    el("div", { class: "pair" }, await side(first, found.first, pair.indices[0]), await side(second, found.second, pair.indices[1])));
}
