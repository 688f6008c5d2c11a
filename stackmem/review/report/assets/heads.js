// The first lines of the page, for each run: the answer, how sure it is, figures, and what happened.

import { el, keepPlace, linkTo, plain, preview, compact, cost, count, usd } from "./text.js";
import { hueOf } from "./colors.js";
import { addLosses, tone, whatHappened } from "./headline.js";
import { answer, certainty, difference, distinctions, subtitleOf, titleOf, took } from "./answer.js";
import { lossesOf, MOST_STEPS } from "./losses.js";
import { mostOf } from "./spent.js";

const AGAIN_MILLIS = 3_000; // between two measurements of a growing run

const tile = (name, told, title = "") => el("div", { class: "tile", title, "data-name": name }, el("dt", { text: name }), el("dd", { text: told }), el("dd", { class: "most" }));

// Marks commands in a sentence, so that the name of a run does not read as a word of it.
function coded(text) {
  return text.split(/(stackmem resume .*?)(?=\.(?:\s|$))/).map((piece, at) => (at % 2 ? el("code", { text: piece }) : piece));
}

function summary(timeline, run) {
  const tokens = run.bounds.tokens[run.count];
  const started = new Date(run.started * 1000);
  const strategy = run.strategy.startsWith("imported:") ? `recorded by ${run.strategy.slice("imported:".length)}` : run.strategy && `strategy ${run.strategy}`;
  const words = [run.model, strategy, run.isolation === "unknown" ? "" : run.isolation, Number.isNaN(started.getTime()) || run.started <= 0 ? "" : started.toISOString().slice(0, 16).replace("T", " ")];
  return el(
    "div",
    { class: "summary" },
    el(
      "div",
      { class: "name" },
      el("h1", {}, run.letter ? el("b", { class: "letter", text: run.letter }) : "", el("span", { text: titleOf(run) }), ...distinguished(timeline.runs, run), run.letter ? "" : el("span", { class: "subtitle faint", text: subtitleOf(run) })),
      el("p", { class: "verdict" }, el("span", { class: `pill ${tone(run.outcome)}`, text: plain(run.outcome) }), el("strong", { text: answer(run) })),
      el("p", { class: "certainty" }, ...coded(certainty(run))),
      related(run),
      el("p", { class: "faint words-of", text: words.filter(Boolean).join("  ·  ") }),
    ),
    el(
      "dl",
      { class: "tiles" },
      tile("steps", count(run.count)),
      tile("frames", count(run.frames.length - 1), "pushed frames, without the root"),
      tile("peak context", compact(run.peak), `${count(run.peak)} tokens; with the full history ${count(run.fullPeak)}`),
      tile("tokens", compact(tokens), `${count(tokens)} in prompts and replies, including cached tokens`),
      run.usd === null && (run.stated_usd ?? null) !== null ? tile("cost", usd(run.stated_usd), "stated by the recording") : tile("cost", cost(run.usd, tokens)),
      tile("time", took(run) || "unknown"),
    ),
    whatHappened(timeline, run),
    result(run),
  );
}

const MOST_FRAMES = 12;

// Names the parallel frames of a run, or the run that a parallel frame belongs to, with links to their pages.
function related(run) {
  if (run.frame) {
    const [parent, rest] = run.forked.split(" at ");
    return el("p", { class: "related" }, `Parallel ${run.frame} of `, linkTo(run, parent, parent), ` at ${rest}.`);
  }
  const frames = run.parallel;
  if (!frames.length) return "";
  const nodes = frames.slice(0, MOST_FRAMES).flatMap((one, at) => [at ? ", " : "", linkTo(run, one.run, one.name), one.ending === "popped" ? "" : ` (${one.ending || "has not returned"})`]);
  const more = frames.length - MOST_FRAMES;
  return el("p", { class: "related" }, "Parallel frames: ", ...nodes.filter(Boolean), more > 0 ? ` and ${count(more)} more, at their steps` : "");
}

// The part of a title that distinguishes the run from the others on the page.
function distinguished(runs, run) {
  const words = distinctions(runs)[runs.indexOf(run)];
  return words.map(([field, text]) => el("span", { class: "differs" }, " · ", field === "strategy" ? el("i", { class: `strategy-mark hue-${hueOf(text)}` }) : "", el("span", { text })));
}

function result(run) {
  const [task, said] = [run.text(run.task), run.text(run.result)];
  const fold = (name, text) =>
    text ? el("details", { class: "words" }, el("summary", {}, name, el("span", { class: "faint", text: ` ${preview(text.replace(/^#+\s*/, ""), 100)}` })), el("p", { dir: "auto", text })) : "";
  return el("div", { class: "told" }, fold("Task", task), fold("Result", said));
}

// What takes time in a long run is measured after the page is ready, and again some time after the run has grown.
export class Heads {
  constructor(timeline, parted, memory) {
    Object.assign(this, { timeline, parted, memory, measured: new Map(), waiting: false });
    this.element = el("section", { class: `card heads heads-${timeline.runs.length}`, "aria-label": "The run" });
    this.fill();
    timeline.on("growth", () => {
      this.fill();
      this.measureLater(AGAIN_MILLIS);
    });
  }

  fill() {
    const { runs } = this.timeline;
    this.summaries = runs.map((run) => summary(this.timeline, run));
    this.element.replaceChildren(runs.length === 2 ? el("p", { class: "parted", text: difference(runs, this.parted) }) : "", ...this.summaries);
    runs.forEach((run, at) => this.complete(run, this.summaries[at]));
  }

  // Adds what was measured: which kind of content had most tokens, which cost most, and the facts that were lost.
  complete(run, node) {
    const { most, losses } = this.measured.get(run) ?? {};
    for (const name of most ? ["tokens", "cost"] : []) node.querySelector(`[data-name="${name}"] .most`).textContent = most[name];
    if (losses) addLosses(node.querySelector(".happened"), this.timeline, run, losses);
  }

  measureLater(millis) {
    if (this.waiting) return;
    this.waiting = true;
    setTimeout(() => this.measure(), millis);
  }

  measure() {
    this.waiting = false;
    this.timeline.runs.forEach((run, at) => {
      if (!run.count || run.outcome === "reading") return;
      const losses = run.outcome !== "running" && run.count <= MOST_STEPS ? lossesOf(run) : null;
      const first = !this.measured.has(run);
      this.measured.set(run, { most: mostOf(run, this.memory.sizesOf(run)), losses });
      if (first) this.complete(run, this.summaries[at]);
      else keepPlace(this.element, () => this.fill());
    });
    if (this.timeline.run.outcome !== "reading") this.memory.other.rate();
  }
}
