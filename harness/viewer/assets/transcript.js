"use strict";
// One record: what was asked, what was said, what it was read as and what it paid, and beside it
// what the task shows.

const TITLES = new Map();

async function titleOf(key) {
  if (!TITLES.has(key)) {
    for (const run of (await get(["runs"])).runs) TITLES.set(run.key, `${run.model} on ${run.task}`);
  }
  return TITLES.get(key) || key;
}

async function recordPage(main, key, index, fields) {
  const record = await get(["runs", key, "records", index], fields);
  const title = await titleOf(key);
  const list = { ...fields };
  const near = record.around;
  const go = (text, to, rel) => (to === null
    ? el("span", { class: "soft" }, text)
    : el("a", { href: address(["run", key, "record", to], list), rel, "data-turn": rel }, text));
  fill(main,
    el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Runs"), " › ",
      el("a", { href: address(["run", key], list), "data-up": true }, title)),
    el("h1", {}, record.sample),
    el("nav", { class: "turn", "aria-label": "Records" },
      go("‹ previous", near.previous, "previous"),
      el("span", {}, near.position === null ? "outside of the list" : `${count(near.position + 1)} of ${count(near.matched)}`),
      go("next ›", near.next, "next")),
    whole(record, key));
}

function whole(record, key) {
  const beside = el("section", { class: "beside", "aria-label": "What the task shows" },
    el("p", { class: "soft" }, "…"));
  get(["runs", key, "records", record.index, "exhibits"])
    .then(found => fill(beside, exhibits(found)))
    .catch(error => fill(beside, el("p", { class: "warning" }, error.message)));
  return [scoreBox(record), beside, conversation(record), rest(record)];
}

function scoreBox(record) {
  const parts = Object.entries(record.parts);
  return el("section", { class: "score", "aria-label": "Score" },
    el("p", { class: "headline" }, el("strong", {}, figure(record.value)), " ",
      badge(record.class, record.meaning), " ", el("small", {}, record.meaning),
      record.group ? el("small", {}, ` · ${record.group}`) : null,
      record.returns.length ? el("small", {}, ` · returns ${record.returns.join(", ")}`) : null),
    parts.length ? el("dl", { class: "parts" }, parts.map(([name, value]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, figure(value))))) : null);
}

function conversation(record) {
  const many = record.moves.length > 1;
  return el("section", { "aria-label": "Transcript" }, el("h2", {}, "Transcript"),
    record.moves.map((move, i) => el("article", { class: "move" },
      many ? el("h3", {}, `${i + 1}. seat ${move.seat}`, move.attempt ? `, attempt ${move.attempt + 1}` : "") : null,
      prompt(move, i === 0),
      move.reasoning ? folded("Reasoning", verbatim(move.reasoning, { class: "said" })) : null,
      move.drafts.length ? folded(`Drafts that it was chosen from (${move.drafts.length})`,
        move.drafts.map(text => verbatim(text, { class: "said" }))) : null,
      reply(move))));
}

function prompt(move, open) {
  if (!move.messages.length && !move.kept) return null;
  const before = move.kept ? `, after the ${move.kept} messages before` : "";
  const words = move.messages.reduce((sum, message) => sum + message.content.length, 0);
  const box = folded(`Prompt (${count(words)} characters${before})`,
    move.messages.map(message => el("div", { class: `message ${message.role}` },
      el("h4", {}, message.role), verbatim(message.content, { class: "said" }))));
  box.open = open;
  return box;
}

function reply(move) {
  const cut = move.finish_reason === "length" ? " · cut off at the limit" : "";
  const tokens = move.completion_tokens ? ` · ${count(move.completion_tokens)} tokens` : "";
  const parsed = move.parsed === null ? "no answer" : line(move.parsed);
  return el("div", { class: "message reply" }, el("h4", {}, "reply"),
    verbatim(move.visible || "(nothing)", { class: "said" }),
    el("p", { class: "read" }, badge(move.class, move.meaning), " read as ", el("code", {}, parsed),
      el("small", {}, `${tokens}${cut}`)));
}

function rest(record) {
  const { seed, repeat, cluster, canonical, split, raw, data, per_seat } = record;
  const facts = { split, seed, repeat, cluster, canonical, per_seat, raw, data };
  return folded("Everything else in the record", verbatim(pretty(facts)));
}

// What the task shows

function exhibits(found) {
  return [
    found.problem ? el("p", { class: "warning" }, found.problem) : null,
    found.exhibits.map(exhibit => (exhibit.kind === "steps" ? steps(exhibit) : grid(exhibit))),
    found.target ? folded("The task's own answer", verbatim(found.target, { class: "said" })) : null,
    found.truth && Object.keys(found.truth).length ? folded("Truth", verbatim(pretty(found.truth))) : null,
  ];
}

function grid(exhibit) {
  const marks = new Map(exhibit.marks.map(([row, column, kind]) => [`${row} ${column}`, kind]));
  const cells = (row, i) => row.map((text, j) => el(j ? "td" : "th",
    { scope: j ? null : "row", class: marks.get(`${i} ${j}`) }, text));
  return el("figure", {},
    el("div", { class: "frame", tabindex: 0, role: "region", "aria-label": exhibit.title },
      el("table", { class: "grid" }, el("caption", {}, exhibit.title),
        el("thead", {}, el("tr", {}, exhibit.columns.map(title => el("th", { scope: "col" }, title)))),
        el("tbody", {}, exhibit.rows.map((row, i) => el("tr", {}, cells(row, i)))))),
    exhibit.note ? el("figcaption", {}, exhibit.note) : null);
}

function steps(exhibit) {
  const board = verbatim("", { class: "board", "aria-label": "board" });
  const note = el("p", { class: "soft" });
  const last = exhibit.steps.length - 1;
  const slider = el("input", { type: "range", min: 0, max: last, step: 1, "aria-label": `${exhibit.title}: step` });
  const buttons = exhibit.steps.map((step, i) => el("button", { type: "button", on: { click: () => show(i) } }, step.label));
  function show(i) {
    const at = Math.max(0, Math.min(last, i));
    slider.value = at;
    board.textContent = exhibit.steps[at].board;
    board.hidden = !exhibit.steps[at].board;
    note.textContent = exhibit.steps[at].note;
    buttons.forEach((button, k) => button.setAttribute("aria-current", k === at ? "step" : "false"));
  }
  slider.addEventListener("input", () => show(Number(slider.value)));
  const turn = (text, label, by) => el("button", { type: "button", "aria-label": label,
    on: { click: () => show(Number(slider.value) + by) } }, text);
  const whole = el("figure", { class: "steps" }, el("h2", {}, exhibit.title),
    el("div", { class: "tools" }, turn("‹", "step back", -1), slider, turn("›", "step on", 1)),
    board, note, el("ol", { class: "moves" }, buttons.map(button => el("li", {}, button))),
    exhibit.note ? el("figcaption", {}, exhibit.note) : null);
  show(last);
  return whole;
}
