"use strict";
// Addresses, keys, theme, and looking again while a run goes on.

const main = document.getElementById("main");
const help = document.getElementById("help");
let again = null;
let turn = 0;

function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent),
    fields: Object.fromEntries(new URLSearchParams(query || "")) };
}

async function show() {
  const mine = ++turn;
  const { parts, fields } = place();
  const inside = el("div");
  again = null;
  let step;
  try {
    if (!parts.length) step = await runsPage(inside, fields);
    else if (parts[0] === "board") step = await boardPage(inside, fields);
    else if (parts[0] === "compare" && parts[2]) step = await comparePage(inside, parts[1], parts[2], fields);
    else if (parts[0] === "pair" && parts[2]) step = await pairPage(inside, parts[1], parts[2], fields);
    else if (parts[0] === "run" && parts[2] === "record") step = await recordPage(inside, parts[1], parts[3], fields);
    else if (parts[0] === "run" && parts[1]) step = await runPage(inside, parts[1], fields);
    else throw new Error("there is no such page");
  } catch (error) {
    fill(inside, el("h1", {}, "Not to be shown"), el("p", { class: "warning", role: "alert" }, error.message));
  }
  if (mine !== turn) return;
  fill(main, inside);
  again = step || null;
  const title = inside.querySelector("h1").textContent;
  document.title = `${title} · harness`;
  for (const link of document.querySelectorAll("header nav a")) {
    const here = (link.getAttribute("href") === "#/board") === (parts[0] === "board");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  say(title);
  scrollTo(0, 0);
}

async function lookAgain() {
  const step = again;
  if (step && !document.hidden) await step().catch(() => {});
  setTimeout(lookAgain, 2000);
}

// Keys

function move(by) {
  const links = [...main.querySelectorAll("a.row-link")];
  if (!links.length) return;
  const row = document.activeElement.closest ? document.activeElement.closest("tr") : null;
  const at = links.findIndex(link => row && row.contains(link));
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, at + by));
  links[next].focus();
  links[next].closest("tr").scrollIntoView({ block: "nearest" });
}

function press(selector) {
  const found = main.querySelector(selector);
  if (found) found.click();
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  n: () => press("[data-turn=next]"),
  p: () => press("[data-turn=previous]"),
  u: () => press("[data-up]"),
  r: () => { location.hash = "#/"; },
  b: () => { location.hash = "#/board"; },
  "?": () => help.showModal(),
  "/": () => {
    const search = document.getElementById("search");
    if (search) search.focus();
  },
};

document.addEventListener("keydown", event => {
  const typing = event.target.closest("input:not([type=checkbox]):not([type=range]), select, textarea");
  if (event.key === "Escape" && typing) typing.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
});
document.querySelector(".skip").addEventListener("click", event => {
  event.preventDefault();
  main.focus();
});
document.getElementById("help-button").addEventListener("click", () => help.showModal());
document.getElementById("help-close").addEventListener("click", () => help.close());

// Theme: the system's, or the one that was chosen here

const THEMES = ["auto", "light", "dark"];
const button = document.getElementById("theme");

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  button.textContent = `theme: ${name}`;
}

function remembered(name) {
  try {
    if (name) localStorage.setItem("harness-theme", name);
    return localStorage.getItem("harness-theme");
  } catch {
    return null; // storage is switched off
  }
}

button.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || "auto";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  theme(next);
  remembered(next);
});
theme(THEMES.includes(remembered()) ? remembered() : "auto");

addEventListener("hashchange", show);
show();
setTimeout(lookAgain, 2000);
