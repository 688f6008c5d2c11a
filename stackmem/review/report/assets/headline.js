// The head of a run's page: outcome, reason, and notable events with links to their steps.

import { el, preview, count, plural } from "./text.js";

const ENDINGS = {
  popped: "",
  "limit:steps": "The step limit was reached.",
  "limit:usd": "The cost limit was reached.",
  "limit:tokens": "The token limit was reached.",
  "limit:seconds": "The time limit was reached.",
  stalled: "The model kept replying without a usable call.",
  model_error: "The provider failed.",
  workspace_error: "The workspace or its sandbox failed.",
  input_needed: "The program asked a question that was not answered.",
  halted: "The program halted with a fault.",
  interrupted: "The run was interrupted. It can be resumed.",
};

export const GOOD = ["solved", "finished"];
export const tone = (outcome) => (GOOD.includes(outcome) ? "ok" : ["running", "reading"].includes(outcome) ? "open" : "failed");

// Returns the reason for the outcome in one sentence; empty if the outcome says everything.
export function reason(run) {
  if (run.outcome === "running") return "The run is in progress.";
  if (run.outcome === "reading") return run.reading;
  const imported = run.unrendered.startsWith("imported from");
  if (imported && (run.outcome === "interrupted" || run.ending === "interrupted")) return "The recording ends here.";
  if (run.outcome === "interrupted") return "The run's process is gone. The run can be resumed.";
  const facts = run.count ? run.rows.at(-1)[11] : run.before;
  const said = (kind, place) => {
    const fact = facts.findLast((one) => one[0] === kind);
    return fact ? preview(run.text(fact[place]), 220) : "";
  };
  if (run.outcome === "unsolved") return `The checks failed. ${said("checks", 1)}`;
  const scripted = facts.some((fact) => fact[0] === "failed" && fact[1] === "script");
  if (run.ending === "model_error") return `${scripted ? "The script does not fit this run." : "The provider failed."} ${said("failed", 2)}`;
  if (run.ending === "halted") return `The program halted. ${said("halted", 1)}`;
  return ENDINGS[run.ending] ?? `The run ended with ${run.ending}.`;
}

// Groups steps by the events in them.
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

// Returns notable events as [text, steps, the part of the step that shows them].
function happened(run) {
  if (!run.count) return [];
  const found = events(run);
  const rows = [
    [plural(found.refused.length, "call") + " refused", found.refused, "Events"],
    [plural(found.failed.length, "result") + " failed", found.failed, "Events"],
    [plural(found.provider.length, "provider failure"), found.provider, "Events"],
    [plural(found.forced.length, "frame") + " popped by force", found.forced, "Events"],
    [plural(found.checked.length, "frame") + " that failed its check", found.checked, "Events"],
    [found.summed.length === 1 ? "1 summary" : `${count(found.summed.length)} summaries`, found.summed],
    [found.broke.length === 1 ? "1 broken cache prefix" : `${count(found.broke.length)} broken cache prefixes`, found.broke],
    [plural(found.files.length, "step") + " that changed files", found.files, "Files changed"],
  ].filter(([, steps]) => steps.length);
  rows.push(["largest context", [largest(run.column("prompt"))]]);
  if (run.priced && run.usd > 0) rows.push(["most expensive step", [largest(run.column("usd"))]]);
  return rows;
}

// Adds the facts that were lost to the list; each press selects the next one, and follows its text.
export function addLosses(list, timeline, run, losses) {
  const gone = losses.filter((loss) => loss.gone !== null);
  if (!list) return;
  if (!gone.length) {
    list.append(el("li", { class: "faint", text: "no fact was lost before its last use" }));
    return;
  }
  let next = 0;
  const go = () => {
    const { fact, gone: step } = gone[next % gone.length];
    next += 1;
    timeline.choose(step, run.place);
    timeline.follow("text", fact);
  };
  const told = gone.slice(0, 2).map((loss) => `${preview(loss.fact, 40)} at step ${count(loss.gone)}`).join(", ");
  list.prepend(el("li", {}, el("button", { type: "button", onclick: go }, el("b", { text: `${plural(gone.length, "fact")} lost` }), ` ${told}${gone.length > 2 ? ", …" : ""}`)));
}

// Lists notable events; each press on an item selects the next of its steps.
export function whatHappened(timeline, run) {
  const items = happened(run).map(([text, steps, region]) => {
    let next = 0;
    const go = () => {
      timeline.choose(steps[next % steps.length], run.place);
      next += 1;
      if (region) timeline.whenShown(() => document.querySelector(`.inspector [aria-label="${region}"]`)?.scrollIntoView({ block: "nearest" }));
    };
    const where = steps.length > 3 ? `steps ${steps.slice(0, 3).map(count).join(", ")}, …` : `step${steps.length > 1 ? "s" : ""} ${steps.map(count).join(", ")}`;
    return el("li", {}, el("button", { type: "button", onclick: go }, el("b", { text }), ` ${where}`));
  });
  return items.length ? el("ul", { class: "happened", "aria-label": "What happened" }, ...items) : "";
}
