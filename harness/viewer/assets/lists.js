"use strict";
// The list of runs.

const CHOSEN = new Set();

async function runsPage(main, fields) {
  const found = await get(["runs"]);
  const search = el("input", { type: "search", id: "search", value: fields.q || "",
    placeholder: "model, task, split", "aria-label": "Filter the runs" });
  const compare = el("button", { type: "button" }, "Compare two runs");
  const note = el("p", { class: "soft", role: "status" });
  const place = el("div");
  const order = { sort: "", down: false };
  let runs = found.runs;

  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = runs.filter(run => {
      const text = [run.name, run.model, run.task, run.split, run.opponent, run.state].join(" ");
      return words.every(word => text.toLowerCase().includes(word));
    });
    fill(place, table(RUN_COLUMNS(remark), shown, { caption: "Runs", order }));
    fill(note, `${shown.length} of ${runs.length} runs`);
    remark();
  }
  function remark() {
    const [a, b] = [...CHOSEN].map(key => runs.find(run => run.key === key));
    compare.disabled = !(a && b && a.task === b.task && CHOSEN.size === 2);
  }
  compare.addEventListener("click", () => {
    location.hash = address(["compare", ...CHOSEN], {});
  });
  search.addEventListener("input", draw);
  fill(main, el("h1", {}, "Runs"),
    found.problems.map(text => el("p", { class: "warning" }, `Not shown: ${text}`)),
    el("div", { class: "tools" }, search, compare), note, place);
  draw();
  return async () => {
    if (!runs.some(run => run.state === "running")) return;
    runs = (await get(["runs"])).runs;
    if (!place.contains(document.activeElement)) draw();
  };
}

const RUN_COLUMNS = remark => [
  { title: "model", key: "model", sort: run => run.model,
    cell: run => el("a", { class: "row-link", href: address(["run", run.key]) }, run.model) },
  { title: "task", key: "task", sort: run => run.task, cell: run => run.task },
  { title: "score", key: "score", class: "number", down: true, sort: scoreOf,
    cell: run => [figure(scoreOf(run)), run.score ? el("small", {}, interval(run.score)) : null] },
  { title: "records", key: "records", class: "number wide", sort: run => run.records,
    cell: run => (run.records === run.expected ? count(run.records)
      : `${count(run.records)} of ${count(run.expected)}`) },
  { title: "state", key: "state", sort: run => run.state,
    cell: run => el("span", { class: `state ${run.state}` }, run.state) },
  { title: "ledger", key: "ledger", class: "wide", cell: run => (run.ledger ? ledger(run.ledger) : "") },
  { title: "against", key: "opponent", class: "wide", sort: run => run.opponent, cell: run => run.opponent },
  { title: "split", key: "split", class: "wide", sort: run => run.split, cell: run => run.split },
  { title: "made", key: "created", class: "wide", sort: run => run.created,
    cell: run => run.created.replace("T", " ").replace("Z", "") },
  { title: "compare", key: "choose", cell: run => choose(run, remark) },
];

const scoreOf = run => (run.score ? run.score.value : run.mean);

function choose(run, remark) {
  const box = el("input", { type: "checkbox", "aria-label": `compare ${run.name}` });
  box.checked = CHOSEN.has(run.key);
  box.addEventListener("change", () => {
    if (box.checked) CHOSEN.add(run.key);
    else CHOSEN.delete(run.key);
    remark();
  });
  return box;
}
