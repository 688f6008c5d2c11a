// The top of the list: runs that wait for the user, runs in progress, and a first step for an empty folder.

import { el, keepPlace, plain, preview, plural, count, duration } from "./text.js";
import { ask, openCommand } from "./commands.js";

const WAITS = {
  input_needed: ["has a question", "Answer"],
  halted: ["halted", "Resume"],
  interrupted: ["was interrupted and can be resumed", "Resume"],
};
const FIRST_STEPS = [
  ["stackmem solve calculator", "solves a small built-in task; without a key, it plays a recorded model"],
  ["stackmem chat", "talks with the agent about the folder that you are in"],
  ["stackmem import FILE", "reads a session of another agent, such as Claude Code or Codex"],
];

const link = (row) => el("a", { href: `run?id=${encodeURIComponent(row.id)}`, title: plain(row.run), "data-key": row.id, text: row.task || row.run });

function waiting(row) {
  const [says, does] = WAITS[row.outcome];
  const act = el("button", { type: "button", "data-key": `act ${row.id}`, "aria-label": `${does} ${plain(row.task || row.run)}`, text: does, onclick: () => openCommand("resume", row.id) });
  return el("li", {}, link(row), el("span", { class: "faint", text: says }), row.message ? el("span", { class: "message", text: preview(row.message, 200) }) : "", act);
}

function running(row) {
  const size = `${plural(row.steps, "step")} in ${duration(row.seconds)}`;
  const silent = row.silent_seconds > 10 ? `, for ${duration(row.silent_seconds)}` : "";
  return el("li", {}, link(row), el("span", { text: `${row.doing}${silent}` }), el("span", { class: "faint", text: [size, row.strategy, row.model].filter(Boolean).join(" · ") }));
}

function section(name, title) {
  const node = el("section", { class: "card home", "aria-label": name, hidden: true });
  const fill = (rows, total, line) => {
    node.hidden = !rows.length;
    const more = total > rows.length ? el("p", { class: "faint", text: `and ${count(total - rows.length)} more in the list below` }) : "";
    keepPlace(node, () => node.replaceChildren(el("h2", { text: title(total) }), el("ul", {}, ...rows.map(line)), more));
  };
  return [node, fill];
}

const [needed, fillNeeded] = section("Needs you", (many) => `Needs you: ${plural(many, "run")}`);
const [active, fillActive] = section("Running", (many) => `Running: ${plural(many, "run")}`);
const first = el(
  "section",
  { class: "card home", "aria-label": "First step", hidden: true },
  el("h2", { text: "No runs yet. Type one of these in a terminal; the run appears here." }),
  el("ul", {}, ...FIRST_STEPS.map(([command, says]) => el("li", {}, el("code", { text: command }), el("button", { type: "button", "aria-label": `Copy ${command}`, text: "Copy", onclick: () => navigator.clipboard.writeText(command) }), el("span", { class: "faint", text: says })))),
);

export const homeParts = [needed, active, first];
export const showFirstStep = (wanted) => (first.hidden = !wanted);

export async function lookAtHome() {
  const found = await ask("home");
  fillNeeded(found.waiting, found.waiting_count, waiting);
  fillActive(found.running, found.running_count, running);
}
