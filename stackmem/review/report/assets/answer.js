// The first lines of a run's page: what happened, with its size, and how sure that is.

import { plain, preview, count, plural, usd, duration } from "./text.js";
import { GOOD, reason } from "./headline.js";
import { stepLine } from "./inspector.js";

const BAD = { result: (fact) => fact[2], verify: (fact) => fact[2] !== "exit 0", rejected: () => true, failed: () => true, halted: () => true, popped: (fact) => fact[2] !== "" };

export const isOver = (run) => !["running", "reading"].includes(run.outcome);

// Returns the step at which a run failed: the last one with a failure; 0 for runs that did not fail.
export function failureStep(run) {
  if (!isOver(run) || GOOD.includes(run.outcome) || !run.count) return 0;
  const at = run.rows.findLastIndex((row) => row[11].some((fact) => BAD[fact[0]]?.(fact)));
  const changed = run.rows.findLastIndex((row) => row[12].length > 0);
  return at >= 0 && at >= changed ? at + 1 : run.count;
}

// Returns what a run is called: its program, or its task.
export function titleOf(run) {
  if (isImported(run)) return taskLine(run, 70) || run.task_name;
  const program = run.before.find((fact) => fact[0] === "program");
  if (program && (!run.task_name || run.task_name === "main")) return program[2].split("/").at(-1);
  return run.task_name || run.id;
}

// Returns the first line of the task, without the mark of a heading; empty if it is the title.
export function subtitleOf(run) {
  if (isImported(run)) return run.task_name;
  const line = taskLine(run, 110);
  return line === titleOf(run) ? "" : line;
}

const isImported = (run) => run.unrendered.startsWith("imported from");
const taskLine = (run, most) => preview((run.text(run.task).trim().split("\n")[0] ?? "").replace(/^#+\s*/, ""), most);

// Returns how long a run took; empty if a recording does not say.
export const took = (run) => (isImported(run) && !run.wall_seconds ? "" : duration(run.wall_seconds));

const spent = (run) => {
  const amount = run.usd ?? run.stated_usd ?? null;
  if (amount === null || (amount === 0 && !run.count)) return "";
  return amount === 0 ? ", free on this machine" : ` for ${usd(amount)}`;
};

// Returns the result of the run's checks in a few words; empty if they do not count tests.
function tests(run) {
  const said = run.rows.at(-1)?.[11].findLast((fact) => fact[0] === "checks");
  const found = said && /(\d[\d,]*) passed/.exec(run.text(said[1]));
  return found ? `; ${found[1]} tests pass` : "";
}

// Names the cause of a failure at a step, and the last change of files before it.
function cause(run, step) {
  const fact = run.rows[step - 1][11].findLast((one) => BAD[one[0]]?.(one));
  const changed = run.rows.slice(0, step).findLastIndex((row) => row[12].length > 0) + 1;
  const after = changed && fact ? ` after the edit of step ${count(changed)}` : "";
  const call = run.rows[step - 1][10].map((one) => run.parts[one]).find((part) => part[0] === "c");
  const made = call ? calledWith(run, call) : "";
  if (fact?.[0] === "result") return `${made}${fact[3] === null ? " fails" : ` exits ${fact[3]}`}${after}`;
  if (fact?.[0] === "verify") return `the verify command ends with ${fact[2]}${after}`;
  if (fact?.[0] === "rejected") return `${made} was refused (${fact[2]})`;
  return "";
}

const calledWith = (run, call) => {
  const value = run.value(call[2]);
  const said = value instanceof Map ? (value.get("command") ?? value.get("path") ?? value.get("name")) : null;
  return `${call[1]}${said === null || said === undefined ? "" : ` ${preview(String(said), 50)}`}`;
};

// The first line: the outcome with its size. `idle`: seconds since the last event of a running run, if known.
export function answer(run, idle = 0) {
  const size = `${plural(run.count, "step")}${spent(run)}`;
  if (run.outcome === "reading") return run.reading;
  if (run.outcome === "running") return doing(run, idle);
  if (GOOD.includes(run.outcome)) return `${run.outcome === "solved" ? "Solved" : "Finished"} in ${size}${took(run) ? ` and ${took(run)}` : ""}${tests(run)}.`;
  const step = failureStep(run);
  if (!step) return `No step was made. ${reason(run)}`;
  const why = cause(run, step);
  const where = run.outcome === "interrupted" ? "Stopped" : "Failed";
  return plain(`${where} at step ${count(step)} of ${size}${why ? `: ${why}` : ""}. ${reason(run)}`.trim());
}

// Says what a running run does.
function doing(run, idle) {
  const since = idle >= 1 ? ` for ${duration(idle)}` : "";
  if (!run.count) return `Running: the first request is under way${since}.`;
  const row = run.rows.at(-1);
  const call = row[10].map((one) => run.parts[one]).find((part) => part[0] === "c");
  const waits = row[11].length ? "the next request is under way" : call ? `${calledWith(run, call)} is under way` : "its reply is processed";
  return plain(`Running for ${duration(run.wall_seconds + idle)}: after step ${count(run.count)}${spent(run)}, ${waits}${since}.`);
}

const LIMITS = { "limit:steps": "--max-steps +50", "limit:usd": "--max-usd +1", "limit:tokens": "--max-tokens +100000", "limit:seconds": "--max-seconds +600" };

// Says what the reader can do next; for a finished run, what would make the answer surer.
function nextStep(run) {
  if (!isOver(run)) return "";
  if (LIMITS[run.ending]) return `Next: stackmem resume ${run.id} ${LIMITS[run.ending]}.`;
  if (run.ending === "input_needed") return `Next: stackmem resume ${run.id} --say ANSWER.`;
  if (run.outcome === "interrupted" || run.ending === "interrupted" || run.ending === "model_error") return `Next: stackmem resume ${run.id}.`;
  return "It is one run; stackmem bench repeats it and shows the spread.";
}

// The second line: how sure the first is, and what would make it surer.
export function certainty(run) {
  const last = run.rows.at(-1)?.[11] ?? run.before;
  const checked = last.some((fact) => fact[0] === "checks");
  const imported = isImported(run);
  const judged = {
    solved: "The task's own checks decided this.",
    unsolved: "The task's own checks decided this.",
    finished: imported ? "The recording does not say whether the work is right." : "No check judged the result; --check COMMAND lets one decide.",
  };
  const amount = run.usd ?? run.stated_usd ?? null;
  const sentences = [
    judged[run.outcome] ?? (checked ? judged.solved : ""),
    imported ? "" : nextStep(run),
    run.estimated ? `Tokens are estimated${run.simulated ? ", and the cache is simulated" : ""}: ${imported ? "the recording states none" : "the model reports none"}.` : "",
    run.usd === null && (run.stated_usd ?? null) !== null ? "The recording states the cost." : "",
    amount === null && run.count ? "The model has no known price; --price sets one." : "",
    run.forked && !run.frame ? `Forked from ${run.forked}.${run.letter ? "" : ` stackmem view ${run.forked.split(" ", 1)[0]} ${run.id} shows both.`}` : "",
    run.torn_bytes ? `The trace's last ${count(run.torn_bytes)} bytes are incomplete and were ignored.` : "",
  ];
  return sentences.filter(Boolean).join(" ");
}

const COMPARED = ["strategy", "model", "isolation", "id"];

// Returns what distinguishes the runs of a page: for each run its strategy, model and isolation, as far as they differ.
export function distinctions(runs) {
  if (runs.length < 2) return runs.map(() => []);
  const differing = COMPARED.filter((field) => new Set(runs.map((run) => run[field])).size > 1);
  const fields = differing.length > 1 ? differing.filter((field) => field !== "id") : differing;
  return runs.map((run) => fields.filter((field) => run[field]).map((field) => [field, run[field]]));
}

// The first line of a page with two runs: where they part, and which of them sends fewer tokens.
export function difference(runs, parted) {
  if (runs.length !== 2) return "";
  const [one, other] = runs;
  const [less, more] = one.bounds.tokens[one.count] <= other.bounds.tokens[other.count] ? [one, other] : [other, one];
  const ratio = more.bounds.tokens[more.count] / Math.max(1, less.bounds.tokens[less.count]);
  const size = ratio > 1.005 ? `${more.letter} needs ${ratio.toFixed(ratio < 10 ? 2 : 0)} times the tokens of ${less.letter}.` : "Both need the same tokens.";
  if (parted === null || parted.steps === null) return `A and B do not differ in their steps. ${size}`;
  const lines = runs.map((run) => `${run.letter} ${parted.steps < run.count ? stepLine(run, parted.steps + 1).replace(/^step \d+, /, "") : "has ended"}`);
  return `A and B part at step ${count(parted.steps + 1)}: ${lines.join("; ")}. ${size}`;
}
