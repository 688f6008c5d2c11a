// The inspector of the selected step: its prompt, reply, events, and the state after it.

import { el, keepPlace, block, linkTo, plain, preview, showText, cost, count, duration, plural } from "./text.js";
import { REGISTERS, registerOf } from "./life.js";
import { describe, row, argumentsOf, callPreview, laidOut } from "./parts.js";

const PARTS_AT_ONCE = 30;
const FACTS_AT_ONCE = 200;
const FRAME_MILLIS = 30;
const STATE = "## Current State\n**Payload:**\n```json\n"; // precedes the payload of a decision agent at the end of its prompts

export class Inspector {
  constructor(timeline) {
    Object.assign(this, { timeline, then: [], shown: "" });
    this.top = el("div", {});
    this.body = el("div", {});
    this.element = el("section", { class: "card inspector", "aria-label": "Selected step" }, this.top, this.body);
    timeline.on("choice", () => this.show());
    timeline.whenShown = (then) => this.whenShown(then);
  }

  // The head follows immediately; the rest follows after the next frame, so that a held key is not slowed down.
  // Unfolded parts stay unfolded while the step is the same.
  show() {
    const { run, chosen } = this.timeline;
    keepPlace(this.top, () => this.top.replaceChildren(run.count ? this.head(run, run.step(chosen.step), chosen.step) : ""));
    if (this.waiting) return undefined;
    this.waiting = true;
    if (!this.shown) return this.fill();
    this.body.setAttribute("aria-busy", "true");
    return void setTimeout(() => this.fill(), FRAME_MILLIS);
  }

  fill() {
    const shown = `${this.timeline.chosen.run}/${this.timeline.chosen.step}`;
    this.waiting = false;
    keepPlace(this.body, () => this.build(), shown === this.shown);
    this.shown = shown;
    this.body.removeAttribute("aria-busy");
    for (const then of this.then.splice(0)) then();
  }

  // Calls a function once the selected step is shown completely.
  whenShown(then) {
    if (this.waiting) this.then.push(then);
    else then();
  }

  build() {
    const { run, chosen } = this.timeline;
    if (!run.count) {
      this.body.replaceChildren(el("p", { class: "faint", text: "This run has no steps." }), ...factNodes(run, run.before));
      return;
    }
    const step = run.step(chosen.step);
    const main = el("div", { class: "main" });
    main.append(this.reply(run, step), this.cameOf(run, step), this.files(run, step), this.prompt(run, step, chosen.step));
    const side = el("div", { class: "side" }, this.payload(run, chosen.step), this.registers(run, step), this.heap(run, chosen.step));
    this.body.replaceChildren(el("div", { class: "columns" }, main, side));
  }

  head(run, step, number) {
    const { timeline } = this;
    const move = (by, name, sign) =>
      el("button", { type: "button", class: "move", "aria-label": name, onclick: () => timeline.choose(number + by), text: sign });
    const crumbs = run.stackOf(step.frame).map((at) =>
      el("button", {
        type: "button",
        class: "crumb",
        title: plain(run.text(run.frames[at].intent)),
        onclick: () => timeline.zoomTo(run, run.frames[at].first, run.lastOf(at)),
        text: run.frames[at].name,
      }),
    );
    const unit = run.estimated ? " (estimated)" : "";
    const cached = run.estimated ? "" : ` · ${count(step.read)} read, ${count(step.written)} written`;
    const facts = [
      ["context", `${count(step.prompt)} tokens${unit}${cached}`],
      ["reply", `${count(step.output)} tokens`],
      ["cost", cost(step.usd, step.prompt)],
      ["at", duration(step.at)],
    ];
    return el(
      "header",
      {},
      el(
        "div",
        { class: "where" },
        move(-1, "Previous step", "‹"),
        el("h2", { text: `${run.letter ? `${run.letter} · ` : ""}Step ${count(number)}` }),
        el("span", { class: "faint", text: `of ${count(run.count)}` }),
        move(1, "Next step", "›"),
        el("nav", { class: "crumbs", "aria-label": "Frames from the root to this step" }, ...crumbs),
      ),
      el("dl", { class: "measures" }, ...facts.map(([name, told]) => el("div", {}, el("dt", { text: name }), el("dd", { text: told })))),
      step.broke ? el("p", { class: "warn", text: `Cache: ${step.broke}` }) : null,
    );
  }

  reply(run, step) {
    const section = el("section", { "aria-label": "Reply" }, el("h3", { text: "Reply" }));
    if (step.stop !== "call" && step.stop !== "end") section.append(el("p", { class: "warn", text: `The reply was ${step.stop}.` }));
    if (!step.reply.length) section.append(el("p", { class: "faint", text: "An empty reply." }));
    for (const number of step.reply) {
      const part = run.parts[number];
      if (part[0] === "c") {
        const value = run.value(part[2]);
        section.append(
          el("div", { class: "call" }, el("div", { class: "call-name" }, el("code", { text: part[1] })), argumentsOf(value)),
        );
      } else if (part[0] === "k") {
        section.append(row(describe(run, number)));
      } else {
        const told = describe(run, number);
        const laid = part[0] === "t" ? laidOut(run.text(part[2])) : null;
        const body = laid ? [block(laid)] : told.body();
        section.append(part[0] === "t" ? el("div", { class: "said" }, ...body) : row(told, { open: true }));
      }
    }
    return section;
  }

  cameOf(run, step) {
    const section = el("section", { "aria-label": "Events" }, el("h3", { text: "Events" }));
    if (!step.facts.length) section.append(el("p", { class: "faint", text: "No events were recorded." }));
    const more = el("button", { type: "button", class: "more" });
    let next = 0;
    const grow = () => {
      more.before(...factNodes(run, step.facts.slice(next, next + FACTS_AT_ONCE), (text) => this.timeline.follow("text", text)));
      next += FACTS_AT_ONCE;
      const left = step.facts.length - next;
      if (left > 0) more.textContent = `show ${count(Math.min(left, FACTS_AT_ONCE))} more of ${count(left)}`;
      else more.remove();
    };
    more.addEventListener("click", grow);
    section.append(more);
    grow();
    return section;
  }

  // Shows the payload of a decision agent; empty for other agents.
  payload(run, number) {
    const part = run.parts[run.promptParts(number).at(-1)];
    const text = part?.[0] === "t" ? run.text(part[2]) : "";
    const at = text.lastIndexOf(STATE);
    if (at < 0) return "";
    const title = el("h3", {}, "Payload", el("span", { class: "faint", text: " before this step" }));
    return el("section", { "aria-label": "Payload" }, title, block(text.slice(at + STATE.length).replace(/\n```$/, "")));
  }

  files(run, step) {
    const section = el("section", { "aria-label": "Files changed" }, el("h3", { text: "Files changed" }));
    if (step.files.length) section.append(...step.files.map((change) => diff(change, () => this.timeline.follow("file", change.heading))));
    else section.append(el("p", { class: "faint", text: run.files_missing || "None." }));
    return section;
  }

  prompt(run, step, number) {
    const numbers = run.promptParts(number);
    const shared = run.sharedParts(number);
    const section = el("section", { "aria-label": "Prompt as sent" });
    const title = el("h3", {}, "Prompt as sent");
    section.append(title);
    if (run.unrendered) section.append(el("p", { class: "warn", text: run.unrendered }));
    if (!numbers.length) return section;
    const list = el("div", { class: "parts" });
    const tools = numbers.findIndex((one) => run.parts[one][0] !== "s" && run.parts[one][0] !== "d");
    const standing = numbers.slice(0, Math.max(0, tools));
    const rest = numbers.slice(standing.length);
    for (const one of standing.filter((each) => run.parts[each][0] === "s" && run.text(run.parts[each][1]))) list.append(row(describe(run, one)));
    const offered = standing.filter((each) => run.parts[each][0] === "d");
    if (offered.length) list.append(toolRow(run, offered));
    const withTools = offered.length ? ` and ${plural(offered.length, "tool")}` : "";
    title.append(el("span", { class: "faint", text: ` ${plural(numbers.length - offered.length, "part")}${withTools}${shared ? `, ${count(numbers.length - shared)} of them new` : ""}` }));
    let from = Math.max(0, rest.length - PARTS_AT_ONCE);
    const rows = (start, end) =>
      rest.slice(start, end).map((one, at) => row(describe(run, one), { fresh: shared > 0 && standing.length + start + at >= shared }));
    const more = el("button", { type: "button", class: "more" });
    const label = () => (more.textContent = `show ${plural(Math.min(from, 200), "earlier part")} of ${count(from)}`);
    more.addEventListener("click", () => {
      const start = Math.max(0, from - 200);
      more.after(...rows(start, from));
      from = start;
      if (from) label();
      else more.remove();
    });
    if (from) {
      label();
      list.append(more);
    }
    list.append(...rows(from, rest.length));
    section.append(list);
    return section;
  }

  registers(run, step) {
    const frame = run.frames[step.frame];
    const list = el("dl", { class: "registers" });
    for (const name of Object.keys(REGISTERS)) {
      const told = registerOf(run, frame, name);
      const follow = el("button", { type: "button", class: "crumb", title: `Follow the register ${name}`, onclick: () => this.timeline.follow("register", name), text: name });
      if (told) list.append(el("dt", {}, follow), el("dd", { dir: "auto", text: told }));
    }
    return el("section", { "aria-label": "Registers" }, el("h3", { text: "Registers" }), list);
  }

  heap(run, number) {
    const found = run.heapAt(number);
    const used = found.reduce((sum, one) => sum + (one.freed ? 0 : one.version.chars), 0);
    const section = el("section", { "aria-label": "Heap after this step" }, el("h3", {}, "Heap"));
    section.firstChild.append(el("span", { class: "faint", text: ` after this step, ${count(used)} of ${count(run.heap_chars)} chars` }));
    const meter = el("div", { class: "meter", role: "presentation" }, el("i"));
    meter.firstChild.style.width = `${Math.min(100, (100 * used) / Math.max(1, run.heap_chars))}%`;
    section.append(meter);
    if (!found.length) section.append(el("p", { class: "faint", text: "No chunks." }));
    for (const one of found) section.append(chunk(run, one));
    return section;
  }
}

function toolRow(run, offered) {
  const told = {
    who: "system",
    title: "tools",
    preview: offered.map((one) => run.parts[one][1]).join(", "),
    chars: offered.reduce((sum, one) => sum + describe(run, one).chars, 0),
    body: () => offered.map((one) => row(describe(run, one))),
  };
  return row(told);
}

function chunk(run, { lane, version, freed, stale, read, fresh }) {
  const marks = [];
  if (fresh) marks.push(el("span", { class: "mark new", text: version.again ? "rewritten" : "stored" }));
  if (read) marks.push(el("span", { class: "mark read", text: "read" }));
  if (freed) marks.push(el("span", { class: "mark freed", text: "freed" }));
  if (stale) marks.push(el("span", { class: "mark stale", text: "stale" }));
  const details = el(
    "details",
    { class: `stored${freed ? " gone" : ""}` },
    el("summary", {}, el("code", { text: lane.name }), ...marks, el("span", { class: "size", text: count(version.chars) })),
  );
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return;
    const source = version.source ? el("p", { class: "faint", text: `source ${version.source}` }) : null;
    const says = run.text(version.description);
    details.append(el("div", { class: "body" }, says ? el("p", { text: says }) : "", source ?? "", block(run.text(version.content))));
  });
  return details;
}

// Returns one node for each event after a reply; `follow` is called with the text of a result.
export function factNodes(run, facts, follow = null) {
  return facts.map((fact) => withFollow(factNode(run, fact), run, fact, follow)).filter(Boolean);
}

function withFollow(node, run, fact, follow) {
  const text = node && follow && fact[0] === "result" ? run.text(fact[1]) : "";
  if (text) node.firstChild.append(el("button", { type: "button", class: "follow-fact", onclick: () => follow(text), text: "follow this result" }));
  return node;
}

function factNode(run, fact) {
  const [kind] = fact;
  const say = (name, title, ref) =>
    el("div", { class: `fact ${name}` }, el("div", { class: "fact-title", text: title }), ref === undefined ? "" : block(run.text(ref)));
  const frame = (at) => run.frames[at]?.name ?? "?";
  switch (kind) {
    case "result":
      return say(fact[2] ? "bad" : "good", `result${fact[3] === null ? (fact[2] ? " · failed" : "") : ` · exit ${fact[3]}`}`, fact[1]);
    case "verify":
      return say(fact[2] === "exit 0" ? "good" : "bad", `verify · ${fact[2]}`, fact[1]);
    case "rejected":
      return say("bad", `refused · ${fact[2]}`, fact[1]);
    case "notice":
      return say("note", `message from stackmem · ${fact[2]}`, fact[1]);
    case "compacted":
      return say("note", `conversation up to step ${fact[2]} replaced by a summary`, fact[1]);
    case "frames":
      return withTitle(say("note", "frames start in parallel: ", fact[2]), ...between(run.parallel.filter((one) => fact[1].some(([id]) => id === one.frame)).map((one) => linkTo(run, one.run, one.name))));
    case "joined":
      return withTitle(say(fact[4] === "popped" ? "good" : "bad", "parallel frame ", fact[3]), linkTo(run, fact[2], run.parallel.find((one) => one.frame === fact[1])?.name ?? fact[1]), ` returns · ${fact[4]}`);
    case "pushed":
      return say("note", `frame ${frame(fact[1])} starts`, run.frames[fact[1]]?.intent);
    case "popped":
      return say(fact[2] ? "bad" : "good", `frame ${frame(fact[1])} ends${fact[2] ? ` by force (${fact[2]})` : ""}${fact[3] ? ` · verify ${fact[3]}` : ""}`, run.frames[fact[1]]?.result ?? undefined);
    case "heap":
      return say("heap", `heap · ${fact[2]} ${{ allocated: "stored", read: "read", written: "rewritten", freed: "freed" }[fact[1]] ?? fact[1]}, ${count(fact[3])} characters`, fact[4] ?? undefined);
    case "failed":
      return say("bad", `the provider failed · ${fact[1]}`, fact[2]);
    case "checks":
      return say("note", "the task's checks", fact[1]);
    case "resumed":
      return say("note", `the run was resumed by stackmem ${fact[1]}`);
    case "forked":
      return say("note", `the run was forked from ${fact[1]} at record ${fact[2]}`);
    case "ended":
      return say("note", `the run ended · ${fact[1]}`);
    default:
      return programNode(fact, say, run);
  }
}

// The same for events of a program.
function programNode(fact, say, run) {
  switch (fact[0]) {
    case "step":
      return say("note", fact[2] ? `${fact[1]} · ${fact[2]}` : fact[1]);
    case "left":
      return say("note", `${fact[1]} ends · ${fact[2]} of ${count(fact[3])}`);
    case "failed":
      return say("bad", `${fact[1]} failed`, fact[2]);
    case "set":
      return say("heap", `${fact[1]} is set · ${fact[2]} of ${count(fact[3])}`);
    case "said":
      return say("good", "message to the user", fact[1]);
    case "answer":
      return withBefore(say("good", "the user answered", fact[1]), run.text(fact[2]));
    case "tool":
      return withBefore(say(fact[4] ? "bad" : "good", [fact[2], fact[5] || fact[4]].filter(Boolean).join(" · "), run.text(fact[1]) ? fact[1] : undefined), run.text(fact[3]));
    case "waited":
      return say("note", `waited ${duration(fact[1])}`);
    case "source":
      return say(fact[3] ? "bad" : "note", `${fact[1]} · ${fact[3] || `${count(fact[2])} characters read`}`);
    case "program":
      return say("note", `the program ${fact[2]} starts`);
    case "halted":
      return say("bad", `the program halted · ${fact[2]}`, fact[1]);
    case "returned":
      return say("good", `the program returned · ${fact[1]} of ${count(fact[2])}`);
    default:
      return null;
  }
}

function withTitle(node, ...more) {
  node.firstChild.append(...more);
  return node;
}

const between = (nodes) => nodes.flatMap((node, at) => (at ? [", ", node] : [node]));

// Inserts the request before its answer.
function withBefore(node, asked) {
  if (asked && asked !== "{}") node.firstChild.after(el("div", { class: "asked" }, block(asked)));
  return node;
}

// One file's changes, with a button that follows the file.
function diff(change, follow) {
  const details = el(
    "details",
    { class: "diff" },
    el(
      "summary",
      {},
      el("code", { text: change.heading }),
      el("span", { class: "added", text: `+${count(change.added)}` }),
      el("span", { class: "removed", text: `−${count(change.removed)}` }),
    ),
  );
  const fill = () => {
    const pre = el("pre", { class: "block", tabindex: "0" });
    for (const line of change.patch.split("\n")) {
      const name = line.startsWith("@@") ? "hunk" : line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "";
      pre.append(showText(el("span", { class: `line ${name}` }), `${line}\n`));
    }
    details.append(pre, el("button", { type: "button", class: "more", onclick: follow, text: "follow this file" }));
  };
  details.addEventListener("toggle", () => details.open && details.childElementCount === 1 && fill());
  if (change.patch.length < 4000) {
    fill();
    details.open = true;
  }
  return details;
}

// Describes a step in one line, for screen readers and the search.
export function stepLine(run, number) {
  const step = run.step(number);
  const said = step.reply.map((one) => run.parts[one]).find((part) => part[0] === "c");
  const decided = step.facts.find((fact) => fact[0] === "step");
  const told = said ? `${said[1]} ${callPreview(run.value(said[2]))}` : decided ? decided[2] || decided[1] : "no call";
  return `step ${number}, frame ${run.frames[step.frame].name}: ${plain(preview(told, 80))}`;
}
