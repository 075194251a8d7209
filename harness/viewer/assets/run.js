"use strict";
// One run: what it is, how it went, and its records, filtered, sorted and searched.

const PAGE_SIZE = 50;
const FIELDS = ["q", "in", "class", "group", "low", "high", "sort", "down", "offset"];

async function runPage(main, key, fields) {
  const run = await get(["runs", key]);
  const head = el("section", { "aria-label": "About this run" });
  const list = el("section", { "aria-label": "Records" });
  fill(head, about(run));
  fill(main, el("p", { class: "crumbs" }, el("a", { href: "#/", "data-up": true }, "Runs")),
    el("h1", {}, `${run.model} on ${run.task}`), head, list);
  const records = new RecordList(list, key, fields);
  await records.start();
  let last = run;
  return async () => {
    if (last.state !== "running") return;
    last = await get(["runs", key]);
    if (!head.contains(document.activeElement)) fill(head, about(last));
    await records.refresh(false);
  };
}

function about(run) {
  const facts = [`split ${run.split}`];
  if (run.opponent) facts.push(`against ${run.opponent}`);
  if (run.created) facts.push(`made ${run.created.replace("T", " ").replace("Z", "")}`);
  const live = run.state === "running" || run.state === "stopped";
  const score = run.metrics ? run.metrics.score : null;
  return [
    el("p", { class: "facts" }, el("span", { class: `state ${run.state}` }, run.state),
      ` ${count(run.records)} of ${count(run.expected)} records · ${facts.join(" · ")}`),
    live ? el("progress", { max: run.expected || 1, value: run.records, "aria-label": "records" }) : null,
    el("p", { class: "headline" }, el("strong", {}, figure(score ? score.value : run.mean)),
      score ? ` ${interval(score)}` : " mean so far",
      run.normalised === null || run.normalised === undefined ? "" : ` · normalised ${figure(run.normalised)}`,
      levels(run)),
    run.ledger ? el("p", {}, ledger(run.ledger)) : null,
    run.problem ? el("p", { class: "warning" }, run.problem) : null,
    run.faults.length ? folded(`${run.faults.length} faults that were given up on`,
      el("ul", {}, run.faults.map(fault => el("li", {}, `record ${fault.index}: ${fault.class}: ${fault.error}`)))) : null,
    run.metrics ? folded("Figures", figures(run.metrics)) : null,
    run.note ? el("p", { class: "warning" }, run.note) : null,
    run.observers.length ? sections(run) : null,
    folded("Specification", verbatim(pretty(run.manifest))),
  ];
}

function levels(run) {
  const found = run.metrics && run.metrics.levels ? Object.entries(run.metrics.levels) : [];
  return found.map(([name, value]) => ` · ${name} ${figure(value)}`).join("");
}

function sections(run) {
  const box = folded("Sections of observers");
  box.addEventListener("toggle", async () => {
    if (!box.open || box.dataset.read) return;
    box.dataset.read = "yes";
    const found = await get(["runs", run.key, "sections"]);
    put(box, found.sections.map(part => [el("h3", {}, part.name), verbatim(part.text)]));
  });
  return box;
}

function figures(metrics) {
  const columns = [
    { title: "figure", key: "name", sort: row => row.name, cell: row => row.name },
    { title: "group", key: "group", sort: row => row.group, cell: row => row.group },
    { title: "value", key: "value", class: "number", down: true, sort: row => row.value, cell: row => figure(row.value) },
    { title: "95 % interval", key: "low", class: "number", cell: row => interval(row) || "–" },
    { title: "n", key: "n", class: "number", sort: row => row.n, cell: row => count(row.n) },
    { title: "note", key: "note", class: "wide", cell: row => row.note },
  ];
  return table(columns, metrics.metrics, { caption: "Figures" });
}

class RecordList {
  constructor(place, key, fields) {
    this.place = place;
    this.key = key;
    this.fields = Object.fromEntries(FIELDS.filter(name => fields[name]).map(name => [name, fields[name]]));
    this.turn = 0;
    this.body = el("div");
    this.note = el("p", { class: "soft", role: "status" });
    this.pager = el("nav", { class: "pager", "aria-label": "Pages of the list" });
  }

  async start() {
    fill(this.place, el("h2", {}, "Records"), this.form(), this.note, this.body, this.pager);
    await this.refresh(true);
    this.choices();
  }

  form() {
    const input = (name, properties) => el("input", { ...properties, value: this.fields[name] || "",
      on: { input: event => this.change(name, event.target.value) } });
    const pick = (name, label, options) => {
      const select = el("select", { "aria-label": label, "data-name": name,
        on: { change: event => this.change(name, event.target.value) } },
        options.map(([value, text]) => el("option", { value }, text)));
      select.value = this.fields[name] || options[0][0];
      return select;
    };
    this.classes = pick("class", "Class", [["", "all classes"]]);
    this.groups = pick("group", "Group", [["", "all groups"]]);
    return el("form", { class: "tools", role: "search", on: { submit: event => event.preventDefault() } },
      input("q", { type: "search", id: "search", placeholder: "search", "aria-label": "Search" }),
      pick("in", "Search in", [["replies", "in replies"], ["prompts", "in prompts"], ["sample", "in sample names"]]),
      this.classes, this.groups,
      el("label", {}, "score ", input("low", { type: "number", step: "any", "aria-label": "lowest score", placeholder: "from" })),
      input("high", { type: "number", step: "any", "aria-label": "highest score", placeholder: "to" }));
  }

  async choices() {
    const found = await get(["runs", this.key, "facets"]);
    const add = (select, rows, name) => {
      for (const row of rows) {
        select.append(el("option", { value: row.name },
          `${row.name} (${count(row.count)}, mean ${figure(row.mean, 2)})`));
      }
      if (this.fields[name] && ![...select.options].some(option => option.value === this.fields[name])) {
        select.append(el("option", { value: this.fields[name] }, this.fields[name]));
      }
      select.value = this.fields[name] || "";
    };
    add(this.classes, found.classes, "class");
    add(this.groups, found.groups.filter(row => row.name), "group");
  }

  change(name, value) {
    this.fields[name] = value;
    if (name !== "offset") delete this.fields.offset;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(true), name === "q" ? 150 : 0);
  }

  link() {
    return address(["run", this.key], this.fields);
  }

  async refresh(moved) {
    const turn = ++this.turn;
    const focus = this.body.contains(document.activeElement);
    if (moved) history.replaceState(null, "", this.link());
    for (;;) {
      let found;
      try {
        found = await get(["runs", this.key, "records"], this.fields);
      } catch (error) {
        fill(this.note, error.message);
        return;
      }
      if (turn !== this.turn || (this.shown && !this.place.isConnected)) return;
      if (moved || !focus) this.draw(found);
      if (found.scanned >= found.total) return;
      this.shown = this.place.isConnected;
      await new Promise(done => setTimeout(done, 50));
    }
  }

  draw(found) {
    const fields = this.fields;
    const from = found.rows.length ? found.offset + 1 : 0;
    const through = found.offset + found.rows.length;
    const searching = found.scanned < found.total ? `, searched ${count(found.scanned)} of ${count(found.total)}` : "";
    fill(this.note, `${count(from)} to ${count(through)} of ${count(found.matched)} records${searching}`);
    const order = { sort: fields.sort || "index", down: fields.down === "1" };
    const onSort = state => {
      Object.assign(fields, { sort: state.sort, down: state.down ? "1" : "" });
      delete fields.offset;
      this.refresh(true);
    };
    fill(this.body, table(this.columns(), found.rows, { caption: "Records", order, onSort }));
    const turn = (text, offset, rel) => (offset === null ? null
      : el("button", { type: "button", "data-turn": rel, on: { click: () => this.change("offset", String(offset)) } }, text));
    fill(this.pager,
      turn("previous page", found.offset > 0 ? Math.max(0, found.offset - PAGE_SIZE) : null, "previous"),
      turn("next page", through < found.matched ? through : null, "next"));
  }

  columns() {
    const open = row => address(["run", this.key, "record", row.index], { ...this.fields, offset: "" });
    const again = row => (row.seed || row.repeat ? ` (seed ${row.seed}, ${row.repeat})` : "");
    return [
      { title: "#", key: "index", class: "number", sort: true,
        cell: row => el("a", { class: "row-link", href: open(row), "aria-label": `record ${row.index}` }, row.index) },
      { title: "sample", key: "sample", class: "wide", cell: row => row.sample + again(row) },
      { title: "group", key: "group", class: "wide", sort: true, cell: row => row.group },
      { title: "class", key: "class", sort: true, cell: row => badge(row.class) },
      { title: "score", key: "value", class: "number", sort: true, cell: row => figure(row.value) },
      { title: "tokens", key: "tokens", class: "number wide", sort: true, down: true, cell: row => count(row.tokens) },
      { title: "moves", key: "moves", class: "number wide", sort: true, down: true, cell: row => count(row.moves) },
      { title: "answer", key: "answer", class: "text", cell: row => row.answer },
    ];
  }
}
