// Where the tokens of a run went: by kind of content and by frame, own and with children.

import { el, compact, count, usd } from "./text.js";
import { KINDS, kindNumber } from "./sizes.js";

const FRAMES = 12;

// Returns the tokens of all prompts by kind; each prompt is split by characters.
function byKind(run, sizes) {
  const sums = run.sequences.map(() => null);
  const sumsOf = (sequence) => (sums[sequence] ??= kindSums(run.sequences[sequence], sizes));
  const found = new Float64Array(KINDS.length);
  run.rows.forEach((row, at) => {
    const ranges = sizes.ranges(at + 1);
    const total = sizes.total(ranges);
    if (!total) found[kindNumber.unknown] += row[2];
    for (const [sequence, from, to] of total ? ranges : []) {
      const held = sumsOf(sequence);
      for (let kind = 0; kind < KINDS.length; kind += 1) found[kind] += ((held[kind][to] - held[kind][from]) * row[2]) / total;
    }
  });
  return found;
}

function kindSums(numbers, sizes) {
  const sums = KINDS.map(() => new Float64Array(numbers.length + 1));
  numbers.forEach((number, at) => {
    for (const one of sums) one[at + 1] = one[at];
    for (const [kind, chars] of sizes.segments(number)) sums[kind][at + 1] += chars;
  });
  return sums;
}

// Returns for each frame { own, whole, usd }: tokens of its own steps, of all steps below it, and the cost of the latter.
export function byFrame(run) {
  const found = run.frames.map(() => ({ own: 0, whole: 0, usd: 0 }));
  for (const row of run.rows) {
    const tokens = row[2] + row[5];
    found[row[0]].own += tokens;
    for (let at = row[0]; at >= 0; at = run.frames[at].parent) {
      found[at].whole += tokens;
      found[at].usd += row[7] ?? 0;
    }
  }
  return found;
}

const bar = (share, name) => {
  const inner = el("i", { class: name });
  inner.style.width = `${Math.max(0.5, 100 * share)}%`;
  return el("span", { class: "spent-bar" }, inner);
};

function kindRows(run, sizes) {
  const tokens = byKind(run, sizes);
  const whole = tokens.reduce((sum, one) => sum + one, 0) || 1;
  const order = [...tokens.keys()].filter((kind) => tokens[kind] > 0).sort((one, other) => tokens[other] - tokens[one]);
  return order.map((kind) =>
    el("tr", {}, el("th", { scope: "row", text: KINDS[kind][1] }), el("td", { text: compact(tokens[kind]) }), el("td", { text: `${Math.round((100 * tokens[kind]) / whole)} %` }), el("td", {}, bar(tokens[kind] / whole, `kind-${KINDS[kind][0]}`))),
  );
}

function frameRows(run, choose) {
  const spent = byFrame(run);
  const whole = spent[0]?.whole || 1;
  const order = [...spent.keys()].sort((one, other) => spent[other].whole - spent[one].whole).slice(0, FRAMES);
  return order.map((at) => {
    const frame = run.frames[at];
    const name = el("button", { type: "button", class: "crumb", onclick: () => choose(frame.first), text: frame.name });
    const own = el("i", { class: "own" });
    own.style.width = `${(100 * spent[at].own) / whole}%`;
    const rest = el("i", { class: "children" });
    rest.style.width = `${(100 * (spent[at].whole - spent[at].own)) / whole}%`;
    return el("tr", {}, el("th", { scope: "row" }, name), el("td", { text: compact(spent[at].own) }), el("td", { text: compact(spent[at].whole) }), run.priced ? el("td", { text: usd(spent[at].usd) }) : "", el("td", {}, el("span", { class: "spent-bar" }, own, rest)));
  });
}

const table = (name, heads, rows) => el("table", { "aria-label": name }, el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col", text: head })))), el("tbody", {}, ...rows));

// Returns a folded card that is computed when it is opened.
export function spentCard(timeline, sizesOf) {
  const body = el("div", { class: "spent-tables" });
  const details = el("details", { class: "card spent" }, el("summary", {}, el("h2", { text: "Where the tokens went" }), el("span", { class: "faint", text: " by kind and by frame" })), body);
  const fill = () => {
    const { run } = timeline;
    const more = run.frames.length > FRAMES ? el("p", { class: "faint", text: `The ${FRAMES} largest of ${count(run.frames.length)} frames.` }) : "";
    body.replaceChildren(
      table("Tokens by kind", ["content of the prompts", "tokens", "share", ""], kindRows(run, sizesOf(run))),
      el("div", {}, table("Tokens by frame", ["frame", "own", "with children", run.priced ? "cost" : null, ""].filter((head) => head !== null), frameRows(run, (step) => timeline.choose(step))), more),
    );
  };
  details.addEventListener("toggle", () => details.open && fill());
  timeline.on("growth", () => details.open && fill());
  return details;
}
