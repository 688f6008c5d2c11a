// The list of runs and benches, searched, filtered and sorted by the server, and updated while it is open.

import { el, keepPlace, plain, cost, count, compact, usd, duration, plural, size } from "./text.js";
import { DARK, switchTheme, isDark } from "./theme.js";
import { hueOf } from "./colors.js";
import { ask, openCommand } from "./commands.js";
import { homeParts, lookAtHome, showFirstStep } from "./home.js";

const AT_ONCE = 200;
const MAX_ROWS = 2_000;
const MAX_PICKED = 6;
const COLUMNS = [
  ["started", "Started", (row) => row.started.slice(0, 16).replace("T", " ")],
  ["task", "Task", (row) => row.task || row.run],
  ["outcome", "Outcome", (row) => row.outcome],
  ["strategy", "Strategy", (row) => row.strategy],
  ["model", "Model", (row) => row.model],
  ["steps", "Steps", (row) => (row.steps === null ? "" : count(row.steps)), true],
  ["tokens", "Tokens", (row) => (row.tokens === null ? "" : compact(row.tokens)), true],
  ["cost_usd", "Cost", (row) => (row.steps === null ? "" : cost(row.cost_usd, row.tokens)), true],
  ["wall_seconds", "Time", (row) => (row.wall_seconds === null ? "" : duration(row.wall_seconds)), true],
  ["disk_bytes", "Size", (row) => (row.disk_bytes === null ? "" : size(row.disk_bytes)), true],
  ["request", "Request", (row) => row.request],
];
const GOOD = ["solved", "finished"];

const RUNS = "runs"; // the scope without the trials of benches
const wanted = { in: RUNS, q: "", filters: [], sort: "-started", limit: AT_ONCE };
const picked = new Set();
let shown = { rows: [], matched: 0, total: 0, unread: 0, outcomes: {}, places: [] };

const text = el("input", { type: "search", placeholder: "Search   /", "aria-label": "Search runs by task, strategy, model, outcome, request or id", autocomplete: "off", spellcheck: "false" });
const conditions = el("input", { type: "text", placeholder: "outcome=solved cost_usd<0.50", "aria-label": "Filter: conditions as for stackmem runs --filter", autocomplete: "off", spellcheck: "false" });
const scope = el("select", { "aria-label": "Show", hidden: true, onchange: () => choosePlace(scope.value) });
const status = el("p", { class: "faint", role: "status" });
const wrong = el("p", { class: "warn", role: "alert" });
const outcomes = el("div", { class: "outcomes", role: "group", "aria-label": "Outcomes" });
const head = el("tr", {});
const body = el("tbody", {});
const more = el("button", { type: "button", class: "more", hidden: true, onclick: showMore });
const compare = el("button", { type: "button", class: "primary", onclick: () => (location.href = `run?${[...picked].map((id) => `id=${encodeURIComponent(id)}`).join("&")}`) });
const benches = el("section", { class: "card benches", "aria-label": "Benches", hidden: true });

const strategyMark = (name) => (name ? el("i", { class: `strategy-mark hue-${hueOf(name)}` }) : "");

function tone(outcome) {
  if (GOOD.includes(outcome)) return "ok";
  return outcome === "running" ? "open" : "failed";
}

function heading([field, label, , number]) {
  const way = wanted.sort === field ? "ascending" : wanted.sort === `-${field}` ? "descending" : null;
  const turn = () => {
    wanted.sort = way === "descending" ? field : `-${field}`;
    look();
  };
  const arrow = { ascending: " ↑", descending: " ↓" }[way] ?? "";
  return el("th", { scope: "col", class: number ? "n" : "", "aria-sort": way }, el("button", { type: "button", "data-key": field, onclick: turn, text: label + arrow }));
}

function line(row) {
  const link = `run?id=${encodeURIComponent(row.id)}`;
  const name = plain(row.run);
  const pick = el("input", { type: "checkbox", "aria-label": `Select ${name}`, onchange: () => choose(row.id, pick) });
  pick.checked = picked.has(row.id);
  const cells = COLUMNS.map(([field, , tell, number]) => {
    const told = tell(row);
    if (field === "task") return el("th", { scope: "row" }, el("a", { href: link, title: name, "data-key": row.id, text: told }), row.parent ? el("span", { class: "faint", text: row.frame ? ` ${row.frame}` : " fork" }) : "");
    if (field === "outcome") return el("td", {}, el("span", { class: `pill ${tone(told)}`, text: told }));
    if (field === "strategy") return el("td", {}, strategyMark(told), told ? el("span", { text: told }) : "");
    return el("td", { class: number ? "n" : field, title: field === "request" ? plain(told) : null, text: told });
  });
  return el("tr", {}, el("td", {}, el("label", { class: "pick" }, pick)), ...cells);
}

// Shows the runs outside benches, those of one bench, or all.
function choosePlace(place) {
  wanted.in = place;
  wanted.limit = AT_ONCE;
  return look();
}

function showScope() {
  const known = shown.places.map((place, at) => [String(at), place.bench ? `trials of ${plain(place.name)}` : ""]).filter(([, name]) => name);
  scope.hidden = !known.length || known.length === shown.places.length;
  const options = [[RUNS, "runs outside benches"], ...known, ["all", "all runs and trials"]];
  if (scope.options.length !== options.length) scope.replaceChildren(...options.map(([value, name]) => el("option", { value, text: name })));
  scope.value = wanted.in;
}

function choose(id, box) {
  if (box.checked && picked.size >= MAX_PICKED) box.checked = false;
  if (box.checked) picked.add(id);
  else picked.delete(id);
  showPicked();
}

function showPicked() {
  compare.disabled = picked.size < 2;
  compare.textContent = picked.size < 2 ? `Select 2 to ${MAX_PICKED} runs to compare` : `Compare ${picked.size} runs`;
}

// Moves the keyboard focus to the first of the new rows.
async function showMore() {
  const before = body.rows.length;
  wanted.limit += AT_ONCE;
  await look();
  body.rows[before]?.querySelector("input").focus();
}

function show() {
  keepPlace(head, () => head.replaceChildren(el("td", {}), ...COLUMNS.map(heading)));
  keepPlace(body, () => body.replaceChildren(...shown.rows.map(line)));
  showScope();
  showFirstStep(shown.looked && !shown.total && wanted.in === RUNS && !shown.places.some((place) => place.bench));
  const reading = shown.unread > 0 ? `, ${count(shown.unread)} still to be read` : "";
  status.textContent = shown.total
    ? `${plural(shown.matched, "run")}${shown.matched < shown.total ? ` of ${count(shown.total)}` : ""}${reading}`
    : shown.looked
      ? "No runs yet"
      : "Reading the folder …";
  more.hidden = shown.rows.length >= Math.min(shown.matched, MAX_ROWS);
  more.textContent = `Show ${count(Math.min(AT_ONCE, shown.matched - shown.rows.length))} more`;
  const pressed = wanted.filters.map((condition) => [condition.slice("outcome=".length), 0]);
  const kinds = Object.entries({ ...Object.fromEntries(pressed), ...shown.outcomes }).sort((one, other) => other[1] - one[1]);
  const chips = kinds.map(([name, many]) => {
    const condition = `outcome=${name}`;
    const on = wanted.filters.includes(condition);
    const flip = () => {
      wanted.filters = on ? wanted.filters.filter((one) => one !== condition) : [...wanted.filters, condition];
      look();
    };
    return el("button", { type: "button", class: "chip", "aria-pressed": on, "data-key": name, onclick: flip }, el("i", { class: `swatch ${tone(name)}` }), `${plain(name)} ${count(many)}`);
  });
  keepPlace(outcomes, () => outcomes.replaceChildren(...chips));
  document.documentElement.dataset.ready = "";
}

let asked = 0;
async function look() {
  const query = new URLSearchParams({ q: wanted.q, sort: wanted.sort, limit: Math.min(wanted.limit, MAX_ROWS), in: wanted.in });
  for (const one of [...wanted.filters, conditions.value]) if (one.trim()) query.append("filter", one.trim());
  const mine = (asked += 1);
  try {
    const found = await ask(`rows?${query}`);
    if (mine !== asked) return;
    wrong.textContent = found.unclear ?? "";
    if (found.unclear) return;
    shown = found;
    show();
  } catch (error) {
    if (mine === asked) wrong.textContent = error.message;
  }
}

function bench(one) {
  const left = one.seconds_left === null ? "" : `, about ${duration(one.seconds_left)} left`;
  const state = one.running ? `running${left}` : one.done < one.total ? "stopped" : "complete";
  const told = one.broken ? el("span", { class: "warn", text: one.broken }) : el("span", { class: "faint", text: `${one.total ? `${count(one.done)} of ` : ""}${plural(one.total || one.done, "trial")}${one.errors ? `, ${plural(one.errors, "error")}` : ""} · bill ${usd(one.bill_usd)} · ${state}` });
  const bar = el("progress", { max: Math.max(1, one.total), value: one.done, "aria-label": `Trials of ${plain(one.name)} that have ended` });
  const trials = el("button", { type: "button", "data-key": `trials ${one.place}`, "aria-label": `Show the trials of ${plain(one.name)}`, text: "Trials", onclick: () => showTrials(String(one.place)) });
  const solved = one.strategies.map(({ name, solved: good, trials: all }) => el("span", { class: "solved" }, strategyMark(name), el("span", { text: `${name} ${count(good)}/${count(all)}` })));
  const by = solved.length ? el("div", { class: "by", role: "group", "aria-label": `Solved in ${plain(one.name)}` }, "solved", ...solved, one.more ? `and ${count(one.more)} more` : "") : "";
  return el("li", {}, el("a", { href: `bench/${one.place}/`, text: one.name }), one.broken ? "" : bar, told, one.broken || scope.hidden ? "" : trials, by);
}

async function showTrials(place) {
  await choosePlace(place);
  scope.scrollIntoView({ block: "nearest" });
  scope.focus();
}

async function lookAtBenches() {
  const found = await ask("benches");
  benches.hidden = !found.length;
  keepPlace(benches, () => benches.replaceChildren(el("h2", { text: "Benches" }), el("ul", {}, ...found.map(bench))));
}

function later(does) {
  let waiting;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(does, 120);
  };
}

text.addEventListener("input", later(() => ((wanted.q = text.value.trim()), (wanted.limit = AT_ONCE), look())));
conditions.addEventListener("input", later(look));
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, dialog, select")) return;
  event.preventDefault();
  text.focus();
});

document.title = "Runs · stackmem";
document.documentElement.dataset.scheme = isDark() ? "dark" : "light";
const theme = el("button", { type: "button", class: "icon", "aria-label": "Switch between light and dark", text: "◐", onclick: switchTheme });
DARK.addEventListener("change", () => (document.documentElement.dataset.scheme = isDark() ? "dark" : "light"));
const prune = el("button", { type: "button", text: "Prune old runs", onclick: () => openCommand("prune", String(shown.places.findIndex((place) => !place.bench))) });
document.body.prepend(
  el("header", { class: "top" }, el("span", { class: "brand", text: "stackmem" }), el("div", { class: "search", role: "search" }, text), theme),
  el(
    "main",
    {},
    el("h1", { class: "visually-hidden", text: "Runs and benches" }),
    ...homeParts,
    benches,
    el(
      "section",
      { class: "card runs", "aria-label": "Runs" },
      el("div", { class: "bar" }, el("h2", { text: "Recent" }), scope, status, outcomes, conditions, compare, prune),
      wrong,
      el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table of runs" }, el("table", {}, el("thead", {}, head), body)),
      more,
    ),
  ),
);
showPicked();
const source = new EventSource("changes");
source.addEventListener("changed", () => (look(), lookAbove()));
source.addEventListener("error", () => (status.textContent = "The server does not respond; this is the last known state."));
const lookAbove = () => Promise.all([lookAtHome(), lookAtBenches()]).catch(() => {}); // the stream reports a lost server
look().then(lookAbove);
setInterval(lookAbove, 3000);
