// What differs between two prompts: of two steps, or of two runs.

import { el, keepPlace, count, plural, showText } from "./text.js";
import { describe, row } from "./parts.js";
import { textOf } from "./life.js";

const CONTEXT = 1; // equal parts or lines that are shown next to a difference
const ROWS = 200;
const LINES = 400;

// Returns an alignment of two lists as [place in the first or -1, place in the second or -1], in order.
export function align(before, now) {
  let same = 0; // both begin with as many equal members; prompts mostly differ at their ends
  while (same < before.length && same < now.length && before[same] === now[same]) same += 1;
  const places = new Map();
  for (let at = before.length - 1; at >= same; at -= 1) {
    if (!places.has(before[at])) places.set(before[at], []);
    places.get(before[at]).push(at);
  }
  const pairs = [];
  for (let at = same; at < now.length; at += 1) {
    const found = places.get(now[at])?.pop();
    if (found !== undefined) pairs.push([found, at]);
  }
  const ops = Array.from({ length: same }, (_, at) => [at, at]);
  let [left, right] = [same, same];
  const skip = (to, end) => {
    for (; left < to; left += 1) ops.push([left, -1]);
    for (; right < end; right += 1) ops.push([-1, right]);
  };
  for (const [one, other] of increasing(pairs)) {
    skip(one, other);
    ops.push([one, other]);
    [left, right] = [one + 1, other + 1];
  }
  skip(before.length, now.length);
  return ops;
}

// Returns the longest list of pairs, ordered by their second values, whose first values increase.
function increasing(pairs) {
  const [tails, previous] = [[], []];
  pairs.forEach(([value], at) => {
    let [low, high] = [0, tails.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[tails[middle]][0] < value) low = middle + 1;
      else high = middle;
    }
    previous[at] = low ? tails[low - 1] : -1;
    tails[low] = at;
  });
  const found = [];
  for (let at = tails.at(-1) ?? -1; at >= 0; at = previous[at]) found.unshift(pairs[at]);
  return found;
}

// Pairs removed parts with added parts of the same kind and name, so that a changed part is shown by its lines.
function changes(runs, before, now) {
  const ops = align(before, now).map(([one, other]) => ({ one: one < 0 ? -1 : before[one], other: other < 0 ? -1 : now[other] }));
  const nameOf = (number) => {
    const part = runs[0].parts[number];
    return part[0] === "t" ? `t ${part[1]} ${firstWord(runs[0].text(part[2]))}` : ["s", "d"].includes(part[0]) ? `${part[0]} ${part[0] === "d" ? part[1] : ""}` : null;
  };
  const removed = ops.filter((op) => op.other < 0);
  for (const op of ops.filter((each) => each.one < 0)) {
    const name = nameOf(op.other);
    const at = name === null ? -1 : removed.findIndex((each) => nameOf(each.one) === name);
    if (at < 0) continue;
    op.one = removed[at].one;
    removed[at].gone = true;
    removed.splice(at, 1);
  }
  return ops.filter((op) => !op.gone);
}

const firstWord = (text) => text.slice(0, 40).split(/[\s:]/, 1)[0];

function lineDiff(before, now) {
  const [one, other] = [before.split("\n"), now.split("\n")];
  const pre = el("pre", { class: "block", tabindex: "0" });
  const ops = align(one, other).slice(0, LINES);
  const near = nearby(ops.map(([a, b]) => a < 0 || b < 0));
  ops.forEach(([a, b], at) => {
    if (!near[at]) {
      if (near[at - 1] !== false) pre.append(el("span", { class: "line hunk", text: "…\n" }));
      return;
    }
    const [mark, name] = a < 0 ? ["+", "added"] : b < 0 ? ["-", "removed"] : [" ", ""];
    pre.append(showText(el("span", { class: `line ${name}` }), `${mark}${a < 0 ? other[b] : one[a]}\n`));
  });
  return pre;
}

// Returns which places are different or next to a difference.
function nearby(different) {
  const near = new Array(different.length).fill(false);
  different.forEach((one, at) => one && near.fill(true, Math.max(0, at - CONTEXT), at + CONTEXT + 1));
  return near;
}

export class PromptDiff {
  // `sizesOf` returns the sizes of a run; `changed` is called whenever prompts are compared with another step.
  constructor(timeline, sizesOf, changed) {
    Object.assign(this, { timeline, sizesOf, changed, base: null });
    this.element = el("section", { class: "prompt-diff", "aria-label": "Prompt diff", hidden: true });
    timeline.on("choice", () => !this.element.hidden && this.show());
    timeline.on("growth", () => !this.element.hidden && this.show());
  }

  // Remembers the selected step; prompts are compared with it.
  mark() {
    this.base = { ...this.timeline.chosen };
    if (!this.element.hidden) this.show();
  }

  toggle() {
    this.element.hidden = !this.element.hidden;
    if (this.element.hidden) {
      this.timeline.base = null;
      this.changed();
      return;
    }
    this.show();
    this.element.scrollIntoView({ block: "nearest" });
  }

  // The step to compare with: the marked one, the same step of the other run, or the last prompt of the frame.
  get other() {
    const { runs, chosen, run } = this.timeline;
    if (this.base) return this.base;
    const place = runs.length > 1 ? (chosen.run + 1) % runs.length : chosen.run;
    if (place !== chosen.run) return { run: place, step: Math.min(runs[place].count, chosen.step) };
    const frame = run.rows[chosen.step - 1][0];
    const last = run.rows.slice(0, chosen.step - 1).findLastIndex((each) => each[0] === frame);
    return { run: place, step: last >= 0 ? last + 1 : Math.max(1, chosen.step - 1) };
  }

  show() {
    const { run, runs, chosen } = this.timeline;
    const other = this.other;
    if (!run.count || !runs[other.run].count) return this.element.replaceChildren(el("p", { class: "faint", text: "There is no prompt to compare." }));
    this.timeline.base = other;
    this.changed();
    const names = [nameOf(runs[other.run], other.step), nameOf(run, chosen.step)];
    const found = changes([run], runs[other.run].promptParts(other.step), run.promptParts(chosen.step));
    keepPlace(this.element, () => this.element.replaceChildren(this.head(names, other), el("p", { class: "difference", role: "status", text: sentence(this.sizesOf(run), found, names) }), ...rows(run, found)));
    return undefined;
  }

  head([base, now], other) {
    const { runs } = this.timeline;
    const step = el("input", { type: "number", min: "1", max: String(runs[other.run].count), value: String(other.step), "aria-label": "Step to compare with" });
    step.addEventListener("change", () => this.choose(other.run, Number(step.value)));
    const which = runs.length > 1 ? el("select", { "aria-label": "Run to compare with", onchange: () => this.choose(Number(which.value), other.step) }, ...runs.map((run, at) => el("option", { value: String(at), selected: at === other.run, text: `run ${run.letter}` }))) : "";
    return el(
      "header",
      {},
      el("h3", { text: `Prompt of ${now} compared with ${base}` }),
      el("label", {}, "compare with step ", step),
      which,
      el("button", { type: "button", class: "more", onclick: () => this.mark(), text: "compare with the step shown now (m)" }),
      this.base ? el("button", { type: "button", class: "more", onclick: () => ((this.base = null), this.show()), text: "with the last prompt" }) : "",
      el("button", { type: "button", class: "close", "aria-label": "Close the prompt diff", onclick: () => this.toggle(), text: "×" }),
    );
  }

  choose(run, step) {
    const most = this.timeline.runs[run].count;
    this.base = { run, step: Math.min(most, Math.max(1, Math.round(step) || 1)) };
    this.show();
  }
}

const nameOf = (run, step) => `${run.letter ? `${run.letter} ` : ""}step ${count(step)}`;

function sentence(sizes, found, [base, now]) {
  const size = (numbers) => numbers.reduce((sum, number) => sum + sizes.chars(number), 0);
  const same = found.filter((op) => op.one === op.other);
  const added = found.filter((op) => op.one < 0).map((op) => op.other);
  const gone = found.filter((op) => op.other < 0).map((op) => op.one);
  const changed = found.filter((op) => op.one >= 0 && op.other >= 0 && op.one !== op.other);
  if (same.length === found.length) return `Both prompts are equal: ${plural(same.length, "part")}.`;
  const first = found.findIndex((op) => op.one !== op.other);
  const parts = [
    `${plural(same.length, "part")} in both (${count(size(same.map((op) => op.one)))} characters)`,
    added.length ? `${count(added.length)} only in ${now} (${count(size(added))})` : "",
    gone.length ? `${count(gone.length)} only in ${base} (${count(size(gone))})` : "",
    changed.length ? `${count(changed.length)} changed` : "",
  ];
  return `${parts.filter(Boolean).join(", ")}. The first ${plural(first, "part")} are equal.`.replace("The first 1 part are", "The first part is").replace("The first 0 parts are equal", "They differ from the first part on");
}

function rows(run, found) {
  const near = nearby(found.map((op) => op.one !== op.other));
  const list = el("div", { class: "parts" });
  let skipped = 0;
  const skip = () => {
    if (skipped) list.append(el("p", { class: "faint same", text: `${plural(skipped, "equal part")}` }));
    skipped = 0;
  };
  let shown = 0;
  for (const [at, op] of found.entries()) {
    if (!near[at]) {
      skipped += 1;
      continue;
    }
    skip();
    if ((shown += 1) > ROWS) break;
    list.append(partRow(run, op));
  }
  skip();
  if (shown > ROWS) list.append(el("p", { class: "faint", text: `Only the first ${ROWS} rows are shown.` }));
  return [list];
}

function partRow(run, { one, other }) {
  const told = describe(run, other < 0 ? one : other);
  if (one >= 0 && other >= 0 && one !== other) told.body = () => [lineDiff(textOf(run, one), textOf(run, other))];
  const state = one === other ? "same" : one < 0 ? "added" : other < 0 ? "removed" : "changed";
  const node = row(told);
  node.classList.add(`diff-${state}`);
  node.firstChild.prepend(el("span", { class: "state", text: { same: "in both", added: "+ added", removed: "− removed", changed: "± changed" }[state] }));
  return node;
}
