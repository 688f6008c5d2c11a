// What became of a run, in the first lines of its page: its outcome, why, and what happened, each with the step to look at.

import { el, plain, preview, cost, count, plural, usd } from "./text.js";

const ENDINGS = {
  popped: "",
  "limit:steps": "The limit of steps was reached.",
  "limit:usd": "The limit of costs was reached.",
  "limit:tokens": "The limit of tokens was reached.",
  "limit:seconds": "The limit of time was reached.",
  stalled: "The model went on without a usable call.",
  model_error: "The provider failed.",
  workspace_error: "The workspace or its sandbox failed.",
  input_needed: "The program asked a question and nobody answered.",
  halted: "The program halted with a fault.",
  interrupted: "It was interrupted. It can be resumed.",
};

export const GOOD = ["solved", "finished"];
export const tone = (outcome) => (GOOD.includes(outcome) ? "ok" : ["running", "reading"].includes(outcome) ? "open" : "failed");

// Why a run came to what it did, in one sentence; empty where its outcome says all.
export function reason(run) {
  if (run.outcome === "running") return "It is running.";
  if (run.outcome === "reading") return run.reading;
  if (run.outcome === "interrupted") return "Its process is gone, and it has no end. It can be resumed.";
  const facts = run.count ? run.rows.at(-1)[11] : run.before;
  const said = (kind, place) => {
    const fact = facts.findLast((one) => one[0] === kind);
    return fact ? preview(run.text(fact[place]), 220) : "";
  };
  if (run.outcome === "unsolved") return `Its checks failed. ${said("checks", 1)}`;
  if (run.ending === "model_error") return `The provider failed. ${said("failed", 2)}`;
  if (run.ending === "halted") return `The program halted. ${said("halted", 1)}`;
  return ENDINGS[run.ending] ?? `It ended with ${run.ending}.`;
}

// Steps by what happened in them.
function events(run) {
  const found = { refused: [], failed: [], summed: [], provider: [], forced: [], checked: [], broke: [], files: [] };
  run.rows.forEach((row, at) => {
    const step = at + 1;
    for (const fact of row[11]) {
      if (fact[0] === "rejected") found.refused.push(step);
      else if (fact[0] === "result" && fact[2]) found.failed.push(step);
      else if (fact[0] === "compacted") found.summed.push(step);
      else if (fact[0] === "failed") found.provider.push(step);
      else if (fact[0] === "popped" && fact[2]) found.forced.push(step);
      else if (fact[0] === "popped" && fact[3] && fact[3] !== "exit 0") found.checked.push(step);
    }
    if (row[12].length) found.files.push(step);
    if (row[13]) found.broke.push(step);
  });
  return found;
}

const largest = (values) => values.reduce((best, value, at) => (value > values[best] ? at : best), 0) + 1;

// What happened, as [text, steps]: the first of the steps is where to look.
function happened(run) {
  if (!run.count) return [];
  const found = events(run);
  const rows = [
    [plural(found.refused.length, "call") + " refused", found.refused],
    [plural(found.failed.length, "result") + " with a failure", found.failed],
    [plural(found.provider.length, "failure") + " of the provider", found.provider],
    [plural(found.forced.length, "frame") + " popped by force", found.forced],
    [plural(found.checked.length, "frame") + " that failed its check", found.checked],
    [found.summed.length === 1 ? "1 summary" : `${count(found.summed.length)} summaries`, found.summed],
    [found.broke.length === 1 ? "1 broken prefix of the cache" : `${count(found.broke.length)} broken prefixes of the cache`, found.broke],
    [plural(found.files.length, "step") + " that changed files", found.files],
  ].filter(([, steps]) => steps.length);
  rows.push(["largest context", [largest(run.column("prompt"))]]);
  if (run.priced && run.usd > 0) rows.push(["most expensive step", [largest(run.column("usd"))]]);
  return rows;
}

// The list of it; each item leads to its first step, and on to the next one with each further press.
export function whatHappened(timeline, run) {
  const items = happened(run).map(([text, steps]) => {
    let next = 0;
    const go = () => {
      timeline.choose(steps[next % steps.length], run.place);
      next += 1;
    };
    const where = steps.length > 3 ? `steps ${steps.slice(0, 3).map(count).join(", ")}, …` : `step${steps.length > 1 ? "s" : ""} ${steps.map(count).join(", ")}`;
    return el("li", {}, el("button", { type: "button", onclick: go }, el("b", { text }), ` ${where}`));
  });
  return items.length ? el("ul", { class: "happened", "aria-label": "What happened" }, ...items) : "";
}

// Outcome, cost and the sentence on why.
export function verdict(run) {
  const why = reason(run);
  const stated = run.stated_usd ?? null;
  const unpriced = stated === null ? "cost unknown" : `${usd(stated)}, stated by the recording`;
  const shown = run.usd === null ? unpriced : cost(run.usd, run.count) + (run.outcome === "reading" ? " so far" : "");
  return el("p", { class: "verdict" }, el("span", { class: `pill ${tone(run.outcome)}`, text: plain(run.outcome) }), el("strong", { text: shown }), el("span", { text: why }));
}
