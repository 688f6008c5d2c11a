// Commands that can be run from a page: a form, a preview of the command, and its output.

import { el, showText } from "./text.js";

export const ask = async (path, body) => {
  const answer = await fetch(path, body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
};

const FORMATS = ["atif", "chrome", "csv", "inspect", "mini", "otel", "sft", "swebench"];

// Each action: its button, a description, and its fields as [flag, label, hint, choices].
export const ACTIONS = {
  resume: ["Resume", "Continues the run from where it stopped.", [["say", "Say", "an answer, or the next request"], ["max-steps", "Steps", "+20 adds to the limit"], ["max-usd", "USD", "+0.50 adds to the limit"]]],
  fork: ["Fork", "Starts a new run from a step of this run.", [["at", "After step", "0 is the start"], ["strategy", "Strategy", "as it was"], ["model", "Model", "as it was"], ["max-steps", "Steps", "the limit it had"]]],
  export: ["Export", "Writes the run in another tool's format.", [["format", "Format", "", FORMATS], ["out", "File", "where the server was started"]]],
  rm: ["Remove", "Removes the run with its workspace. This cannot be undone.", []],
  prune: ["Prune", "Removes old runs with their workspaces. This cannot be undone.", [["older-than", "Older than", "30d"], ["keep-last", "Keep the newest", "0"]]],
};

// Opens the dialog of an action; `given` contains initial values of its fields.
export function openCommand(action, run, given = {}) {
  const [name, says, fields] = ACTIONS[action];
  const inputs = fields.map(([flag, label, hint, choices]) => {
    const input = choices
      ? el("select", { name: flag }, ...choices.map((one) => el("option", { value: one, text: one })))
      : el("input", { name: flag, placeholder: hint, autocomplete: "off", spellcheck: "false" });
    if (given[flag] !== undefined) input.value = given[flag];
    return [flag, input, el("label", {}, el("span", { text: label }), input)];
  });
  const dry = action === "prune" ? el("input", { type: "checkbox", checked: true }) : null;
  const line = el("code", { class: "command" });
  const wrong = el("p", { class: "warn", role: "alert" });
  const output = el("pre", { class: "block output", tabindex: "0", hidden: true, "aria-label": "Output" });
  const start = el("button", { type: "submit", class: "primary", text: name });
  const copy = el("button", { type: "button", text: "Copy command", onclick: () => navigator.clipboard.writeText(line.textContent) });
  const close = el("button", { type: "button", text: "Close", onclick: () => dialog.close() });
  const form = el("form", { method: "dialog" }, el("h2", { text: name }), el("p", { class: "faint", text: says }), el("div", { class: "fields" }, ...inputs.map(([, , label]) => label)), dry ? el("label", { class: "check" }, dry, "Only say what would go") : "", line, wrong, el("div", { class: "buttons" }, start, copy, close), output);
  const dialog = el("dialog", { class: "card do", "aria-label": name }, form);
  const wanted = (begin) => ({
    action,
    run,
    values: Object.fromEntries(inputs.map(([flag, input]) => [flag, input.value.trim()]).filter(([, value]) => value)),
    dry_run: dry?.checked ?? false,
    start: begin,
  });
  let asked = 0;
  const spell = async () => {
    const mine = ++asked; // answers may arrive out of order; only the last request counts
    let command = "", fault = "";
    try {
      command = (await ask("command", wanted(false))).command;
    } catch (error) {
      fault = error.message;
    }
    if (mine !== asked) return;
    line.textContent = command;
    wrong.textContent = fault;
    start.disabled = !command;
  };
  form.addEventListener("input", spell);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    start.disabled = true;
    try {
      const { job } = await ask("command", wanted(true));
      output.hidden = false;
      await follow(job, output);
    } catch (error) {
      wrong.textContent = error.message;
    }
    start.disabled = false;
  });
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  document.body.append(dialog);
  dialog.showModal();
  return spell();
}

// Shows the output of a command until it ends.
async function follow(job, output) {
  for (;;) {
    const { exit_code: code, lines } = await ask(`jobs/${job}`);
    output.replaceChildren();
    showText(output, lines.join("\n"));
    if (code !== null) {
      output.append(el("strong", { class: code ? "warn" : "", text: `\n[exit ${code}]` }));
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 400));
  }
}
