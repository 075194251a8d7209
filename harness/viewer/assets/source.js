"use strict";
// Where the data comes from: the server's answers, or files beside the page (harness view
// --static), which are scripts because a page opened from a folder may read nothing else.

const SITE = { data: new Map(), waiting: new Map() };

function harnessData(name, value) {
  SITE.data.set(name, value);
}

function load(name) {
  if (SITE.data.has(name)) return Promise.resolve(SITE.data.get(name));
  if (!SITE.waiting.has(name)) {
    SITE.waiting.set(name, new Promise((done, failed) => {
      const script = el("script", { src: `data/${name}.js` });
      script.addEventListener("load", () => done(SITE.data.get(name)));
      script.addEventListener("error", () => failed(new Error("not among the exported files")));
      document.head.append(script);
    }));
  }
  return SITE.waiting.get(name);
}

async function get(parts, fields) {
  if (document.documentElement.dataset.site) return fromFiles(parts, fields || {});
  const query = new URLSearchParams(fields || {}).toString();
  const path = "api/" + parts.map(encodeURIComponent).join("/") + (query ? "?" + query : "");
  let answer;
  try {
    answer = await fetch(path);
  } catch {
    throw new Error("the server does not answer; start harness view again");
  }
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

// The same questions, answered from files.

async function fromFiles(parts, fields) {
  if (parts[0] === "runs" && parts.length === 1) return load("runs");
  if (parts[0] === "board") return load(`board-${fields.columns || "overall"}`);
  if (parts[0] === "compare") return load(`compare-${await number(parts[1])}-${await number(parts[2])}`);
  if (parts[0] === "pair") return pairFromFiles(parts[1], parts[2], fields.sample);
  const run = await number(parts[1]);
  if (parts.length === 2) return load(`${run}/run`);
  if (parts[2] === "facets") return (await load(`${run}/run`)).facets;
  if (parts[2] === "sections") return load(`${run}/run`);
  const rows = (await load(`${run}/index`)).rows;
  if (parts.length === 3) return pageFromFiles(run, rows, fields);
  const place = rows.findIndex(row => row.index === Number(parts[3]));
  if (place < 0) throw new Error("there is no such run or record");
  const record = await recordFromFiles(run, place);
  if (parts[4] === "exhibits") return record.beside;
  const { places } = await chosen(run, rows, fields, false);
  const at = places.indexOf(place);
  const near = step => (at < 0 || !(at + step in places) ? null : rows[places[at + step]].index);
  const around = { position: at < 0 ? null : at, matched: places.length, previous: near(-1), next: near(1) };
  return { ...record.transcript, around };
}

async function number(key) {
  const { runs } = await load("runs");
  const found = runs.findIndex(run => run.key === key);
  if (found < 0) throw new Error("there is no such run or record");
  return found;
}

const CHUNK = 50;

async function recordFromFiles(run, place) {
  const chunk = await load(`${run}/records-${Math.floor(place / CHUNK)}`);
  return chunk[place % CHUNK];
}

async function pairFromFiles(first, second, sample) {
  const indices = [];
  for (const key of [first, second]) {
    const { rows } = await load(`${await number(key)}/index`);
    indices.push(rows.filter(row => row.sample === sample).map(row => row.index));
  }
  return { sample, keys: [first, second], indices };
}

async function pageFromFiles(run, rows, fields) {
  const { places, scanned } = await chosen(run, rows, fields, true);
  const offset = Number(fields.offset || 0);
  const shown = places.slice(offset, offset + Number(fields.count || 50));
  return { rows: shown.map(place => rows[place]), offset, matched: places.length, scanned, total: rows.length };
}

const SEARCHED = new Map();

// The places that fit, sorted. A text is searched chunk by chunk, a few chunks a call.
async function chosen(run, rows, fields, more) {
  const inside = (name, group) => name === group || name.split("/").includes(group);
  const needle = (fields.q || "").trim().toLowerCase();
  let hits = null;
  if (needle) hits = await searched(run, rows, needle, fields.in || "replies", more);
  const places = [...rows.keys()].filter(place => {
    const row = rows[place];
    return (!hits || hits[place]) && (!fields.class || row.class === fields.class)
      && (!fields.group || inside(row.group, fields.group))
      && (!fields.low || row.value >= Number(fields.low))
      && (!fields.high || row.value <= Number(fields.high));
  });
  const sort = fields.sort || "index";
  const order = (a, b) => {
    const [x, y] = [rows[a][sort], rows[b][sort]];
    return typeof x === "string" ? (x < y ? -1 : x > y ? 1 : 0) : x - y;
  };
  const sign = fields.down === "1" ? -1 : 1;
  places.sort((a, b) => sign * order(a, b) || a - b);
  return { places, scanned: hits ? hits.length : rows.length };
}

async function searched(run, rows, needle, where, more) {
  if (where === "sample") return rows.map(row => row.sample.toLowerCase().includes(needle));
  const key = JSON.stringify([run, needle, where]);
  if (!SEARCHED.has(key)) SEARCHED.set(key, []);
  const hits = SEARCHED.get(key);
  const until = hits.length + (more ? 8 * CHUNK : 0);
  while (hits.length < Math.min(until, rows.length)) {
    const chunk = await load(`${run}/records-${hits.length / CHUNK}`);
    for (const { transcript } of chunk) hits.push(holds(transcript, needle, where));
  }
  return hits;
}

function holds(transcript, needle, where) {
  const texts = transcript.moves.flatMap(move => (where === "prompts"
    ? move.messages.map(message => message.content) : [move.visible, move.reasoning]));
  return texts.some(text => text.toLowerCase().includes(needle));
}
