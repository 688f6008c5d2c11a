// Where the tokens and the money of a run went: a flame graph by frame, and tables by kind of content and by frame.

import { el, compact, count, plain, plural, usd } from "./text.js";
import { KINDS, kindNumber } from "./sizes.js";

const FRAMES = 12;
const SAMPLED = 2_000; // steps
const BOXES = 400;
const NARROWEST = 0.002; // share of the width
const ROW = 24;
const DEEPEST = 20;
const RATES = [0.1, 1.25, 5]; // of tokens read, written and replied, relative to an input token

const MANY = KINDS.length;

// Returns the characters of each kind before each position of a sequence, one row of all kinds per position.
function kindSums(numbers, sizes) {
  const sums = new Float64Array((numbers.length + 1) * MANY);
  numbers.forEach((number, at) => {
    sums.copyWithin((at + 1) * MANY, at * MANY, (at + 1) * MANY);
    for (const [kind, chars] of sizes.segments(number)) sums[(at + 1) * MANY + kind] += chars;
  });
  return sums;
}

// Returns { tokens, cost } by kind: each prompt is split by characters. What was read from the cache is its beginning,
// what was written to it follows. The cost is that of the step, split by the prices of reading, writing and replying.
export function byKind(run, sizes, every = 1) {
  const sums = run.sequences.map(() => null);
  const sumsOf = (sequence) => (sums[sequence] ??= kindSums(run.sequences[sequence], sizes));
  const [tokens, cost] = [new Float64Array(MANY), new Float64Array(MANY)];
  let replies = 0;
  run.rows.forEach((row, at) => {
    if (at % every) return;
    const weights = weigh(run, row);
    const ranges = sizes.ranges(at + 1);
    const total = sizes.total(ranges);
    const prices = [weights.read, weights.written, weights.plain];
    const bounds = [row[3], row[3] + row[4], Infinity].map((bound) => (bound / Math.max(1, row[2])) * total);
    replies += weights.output;
    const add = (kind, chars, price) => {
      const share = total ? (chars * row[2]) / total : row[2];
      tokens[kind] += share;
      cost[kind] += share * price;
    };
    if (!total) add(kindNumber.unknown, 0, row[2] ? (row[3] * prices[0] + row[4] * prices[1] + (row[2] - row[3] - row[4]) * prices[2]) / row[2] : 0);
    let start = 0;
    for (const range of total ? ranges : []) start = split(range, start, bounds, prices, sizes, sumsOf(range[0]), add);
  });
  return { tokens, cost, replies };
}

// Splits a range of parts at the bounds of what was read and written; returns the characters up to its end.
function split([sequence, from, to], start, bounds, prices, sizes, kinds, add) {
  const sums = sizes.sumsOf(sequence);
  const end = start + sums[to] - sums[from];
  const before = kinds.slice(from * MANY, (from + 1) * MANY);
  let left = start;
  for (const [at, bound] of bounds.entries()) {
    if (left >= end || bound <= left) continue;
    const right = Math.min(bound, end);
    const upto = right === end ? kinds.subarray(to * MANY, (to + 1) * MANY) : kindsUpTo(sequence, right - start + sums[from], from, to, sizes, kinds);
    for (let kind = 0; kind < MANY; kind += 1) if (upto[kind] > before[kind]) add(kind, upto[kind] - before[kind], prices[at]);
    before.set(upto);
    left = right;
  }
  return end;
}

// Returns the characters of each kind before a character of a sequence.
function kindsUpTo(sequence, chars, from, to, sizes, kinds) {
  const sums = sizes.sumsOf(sequence);
  const place = placeBefore(sums, from, to, chars);
  const found = kinds.slice(place * MANY, (place + 1) * MANY);
  let left = chars - sums[place];
  for (const [kind, many] of place < to ? sizes.segments(sizes.run.sequences[sequence][place]) : []) {
    found[kind] += Math.min(left, many);
    left -= Math.min(left, many);
  }
  return found;
}

// Returns the last position up to which there are at most that many characters.
function placeBefore(sums, from, to, chars) {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sums[middle] <= chars) low = middle;
    else high = middle - 1;
  }
  return low;
}

// Returns the price of one token that was read, written or neither, and the cost of the reply, so that they add up to
// the cost of the step; without a price, in input tokens.
function weigh(run, row) {
  const [read, write, output] = run.rates.length ? run.rates : RATES;
  const whole = row[3] * read + row[4] * write + Math.max(0, row[2] - row[3] - row[4]) + row[5] * output;
  const unit = run.priced && run.usd > 0 ? row[7] / Math.max(1e-9, whole) : 1;
  return { read: read * unit, written: write * unit, plain: unit, output: row[5] * output * unit };
}

// Returns for each frame { own, whole, ownCost, cost }: of its own steps, and of all steps of it and below it.
export function byFrame(run) {
  const found = run.frames.map(() => ({ own: 0, whole: 0, ownCost: 0, cost: 0 }));
  for (const row of run.rows) {
    const tokens = row[2] + row[5];
    const cost = run.priced && run.usd > 0 ? row[7] : costOf(run, row);
    found[row[0]].own += tokens;
    found[row[0]].ownCost += cost;
    for (let at = row[0]; at >= 0; at = run.frames[at].parent) {
      found[at].whole += tokens;
      found[at].cost += cost;
    }
  }
  return found;
}

function costOf(run, row) {
  const { read, written, plain: unit, output } = weigh(run, row);
  return row[3] * read + row[4] * written + Math.max(0, row[2] - row[3] - row[4]) * unit + output;
}

// Says which kind of content cost most, and which had most tokens, in a few words each; empty for a run without steps.
export function mostOf(run, sizes) {
  const { tokens, cost, replies } = byKind(run, sizes, Math.ceil(run.count / SAMPLED));
  const say = (values, whole) => {
    const at = values.reduce((best, value, kind) => (value > values[best] ? kind : best), 0);
    return whole > 0 ? `${Math.round((100 * values[at]) / whole)} % ${KINDS[at]?.[1] ?? "writing replies"}` : "";
  };
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  return { tokens: say([...tokens], sum(tokens)), cost: say([...cost, replies], sum(cost) + replies) };
}

const bar = (share, name) => {
  const inner = el("i", { class: name });
  inner.style.width = `${Math.max(0.5, 100 * share)}%`;
  return el("span", { class: "spent-bar" }, inner);
};

const amount = (run) => (run.priced && run.usd > 0 ? usd : (cost) => compact(cost));

function kindRows(run, sizes) {
  const { tokens, cost, replies } = byKind(run, sizes);
  const written = run.rows.reduce((sum, row) => sum + row[5], 0);
  const rows = [...tokens.keys()].map((kind) => [KINDS[kind][1], `kind-${KINDS[kind][0]}`, tokens[kind], cost[kind]]);
  rows.push(["replies as they were written", "kind-replies", written, replies]);
  const [sent, paid] = [2, 3].map((at) => rows.reduce((sum, row) => sum + row[at], 0) || 1);
  const order = rows.filter((row) => row[2] > 0).sort((one, other) => other[3] - one[3]);
  const share = (part, whole) => `${Math.round((100 * part) / whole)} %`;
  return order.map(([name, kind, many, money]) =>
    el("tr", {}, el("th", { scope: "row", text: name }), el("td", { text: compact(many) }), el("td", { text: share(many, sent) }), el("td", { text: amount(run)(money) }), el("td", { text: share(money, paid) }), el("td", {}, bar(money / paid, kind))),
  );
}

function frameRows(run, choose) {
  const spent = byFrame(run);
  const whole = spent[0]?.cost || 1;
  const order = [...spent.keys()].sort((one, other) => spent[other].cost - spent[one].cost).slice(0, FRAMES);
  return order.map((at) => {
    const frame = run.frames[at];
    const name = el("button", { type: "button", class: "crumb", onclick: () => choose(frame.first), text: frame.name });
    const own = el("i", { class: "own" });
    own.style.width = `${(100 * spent[at].ownCost) / whole}%`;
    const rest = el("i", { class: "children" });
    rest.style.width = `${(100 * (spent[at].cost - spent[at].ownCost)) / whole}%`;
    const figures = [compact(spent[at].own), compact(spent[at].whole), amount(run)(spent[at].ownCost), amount(run)(spent[at].cost)];
    return el("tr", {}, el("th", { scope: "row" }, name), ...figures.map((text) => el("td", { text })), el("td", {}, el("span", { class: "spent-bar" }, own, rest)));
  });
}

// Draws each frame as wide as what it and its children cost, below its parent; the free part of its width is its own.
function flameGraph(run, choose) {
  const spent = byFrame(run);
  const whole = spent[0]?.cost || 1;
  const children = run.frames.map(() => []);
  run.frames.forEach((frame, at) => frame.parent >= 0 && children[frame.parent].push(at));
  const boxes = [];
  let hidden = 0;
  const place = (at, left) => {
    const frame = run.frames[at];
    if (spent[at].cost / whole < NARROWEST || frame.depth >= DEEPEST || boxes.length >= BOXES) {
      hidden += 1;
      return;
    }
    boxes.push(box(run, at, spent[at], whole, left, choose));
    let from = left;
    for (const child of [...children[at]].sort((one, other) => spent[other].cost - spent[one].cost)) {
      place(child, from);
      from += spent[child].cost;
    }
  };
  if (run.count) place(0, 0);
  const deepest = boxes.reduce((most, one) => Math.max(most, Number(one.dataset.depth)), 0);
  const graph = el("div", { class: "flame-graph", role: "group", "aria-label": "Cost by frame" }, ...boxes);
  graph.style.height = `${(deepest + 1) * ROW}px`;
  const notes = hidden ? [el("p", { class: "faint", text: `${plural(hidden, "frame")} that cost less than ${100 * NARROWEST} % or are deeper are not drawn.` })] : [];
  return el("div", {}, graph, el("p", { class: "faint", text: "Width: the cost of a frame with its children, the most expensive first. Dark: its own steps." }), ...notes);
}

function box(run, at, spent, whole, left, choose) {
  const frame = run.frames[at];
  const [share, own] = [spent.cost / whole, spent.ownCost / Math.max(1e-9, spent.cost)];
  const told = `${plain(frame.name.slice(0, 100))}: ${amount(run)(spent.cost)} with children, ${amount(run)(spent.ownCost)} own, ${compact(spent.whole)} tokens`;
  const node = el("button", { type: "button", class: "flame-box", title: told, "aria-label": told, "data-depth": String(frame.depth), onclick: () => choose(frame.first) }, el("span", { text: `${frame.name} ${amount(run)(spent.cost)}` }));
  Object.assign(node.style, { left: `${(100 * left) / whole}%`, width: `${100 * share}%`, top: `${frame.depth * ROW}px` });
  node.style.setProperty("--own", `${100 * own}%`);
  return node;
}

const table = (name, heads, rows) => el("table", { "aria-label": name }, el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head || el("span", { class: "visually-hidden", text: "as a bar" }))))), el("tbody", {}, ...rows));

// Says where the figures come from.
function source(run) {
  const tokens = run.estimated ? "Tokens are estimated from characters" : "Tokens are recorded";
  const cache = run.simulated ? ", the cache is simulated" : run.estimated ? ", the cache is not reported" : ", the cache too";
  const price = run.priced && run.usd > 0 ? "Costs are recorded." : "The run has no price: costs are simulated, in input tokens at the usual prices of cached tokens and replies.";
  return `${tokens}${cache}. ${price} Each prompt is split among its parts by their characters.`;
}

// Returns a folded card that is computed when it is opened.
export function spentCard(timeline, sizesOf) {
  const body = el("div", {});
  const details = el("details", { class: "card spent" }, el("summary", {}, el("h2", { text: "Where the tokens and the money went" }), el("span", { class: "faint", text: " by kind and by frame" })), body);
  const fill = () => {
    const { run } = timeline;
    const choose = (step) => timeline.choose(step, run.place);
    const more = run.frames.length > FRAMES ? el("p", { class: "faint", text: `The ${FRAMES} most expensive of ${count(run.frames.length)} frames.` }) : "";
    const cost = run.priced && run.usd > 0 ? "cost" : "cost (input tokens)";
    const tables = el(
      "div",
      { class: "spent-tables" },
      table("Tokens by kind", ["content of the requests", "tokens", "share", cost, "share", ""], kindRows(run, sizesOf(run))),
      el("div", {}, table("Tokens by frame", ["frame", "own", "with children", `own ${cost}`, cost, ""], frameRows(run, choose)), more),
    );
    body.replaceChildren(el("p", { class: "faint source", text: `${run.letter ? `Run ${run.letter}. ` : ""}${source(run)}` }), flameGraph(run, choose), tables);
    details.shown = run;
  };
  details.addEventListener("toggle", () => details.open && fill());
  timeline.on("growth", () => details.open && fill());
  timeline.on("choice", () => details.open && details.shown !== timeline.run && fill());
  return details;
}
