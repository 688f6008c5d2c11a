// The same run under another strategy: its prompts as a second film strip, and the difference in a sentence.

import { el, compact, count, plural } from "./text.js";
import { hueOf } from "./colors.js";
import { Estimate, SUMMARY_TOKENS } from "./estimate.js";
import { Film } from "./film.js";

const RATES = [0.1, 1.25, 5]; // of most models

const STRATEGIES = [
  ["full", "everything in one conversation"],
  ["mask", "results older than 10 steps are cut to one line"],
  ["summary", "a summary replaces the conversation whenever it is long"],
  ["adaptive", "one conversation until frames pay, then frames with a heap"],
];
const PAUSES = [["recorded", "as recorded"], ["none", "none"], ["50", "every 50 steps"], ["20", "every 20 steps"], ["10", "every 10 steps"], ["5", "every 5 steps"], ["2", "every 2 steps"], ["1", "at every step"]];

export class OtherStrategy {
  // `sizesOf` returns the sizes of a run; `changed` is called whenever the strips need another scale.
  constructor(timeline, sizesOf, tooltip, changed) {
    Object.assign(this, { timeline, sizesOf, tooltip, changed, name: "", film: null });
    this.buttons = ["", ...STRATEGIES.map(([name]) => name)].map((name) =>
      el("button", { type: "button", "aria-pressed": name === "", title: STRATEGIES.find((one) => one[0] === name)?.[1] ?? null, onclick: () => this.choose(name), text: name || "nothing" }),
    );
    this.sentence = el("p", { class: "difference", role: "status" });
    this.strip = el("div", { class: "strip" });
    this.sliders = el("div", { class: "controls sliders" }, ...this.controls());
    this.note = el("p", { class: "faint" });
    this.body = el("div", { class: "other-body", hidden: true }, this.strip, this.sentence, this.sliders, this.note);
    this.element = el("section", { class: "other", "aria-label": "Another strategy" }, el("div", { class: "modes", role: "group", "aria-label": "Compare with" }, el("span", { class: "faint", text: "compare its cost with" }), ...this.buttons), this.body);
    timeline.on("choice", () => this.follow());
    timeline.on("growth", () => this.name && this.show());
  }

  controls() {
    const [read, write] = this.timeline.run.rates.length ? this.timeline.run.rates : RATES;
    const slider = (label, most, value, step) => {
      const told = el("output", { class: "faint" });
      const field = el("input", { type: "range", min: "0", max: String(most), step: String(step), value: String(value), "aria-label": label, oninput: () => this.show() });
      return { field, told, node: el("label", {}, `${label} `, field, told) };
    };
    this.read = slider("price of a cached token", 1, read, 0.01);
    this.write = slider("price of a token written to the cache", 2, write, 0.05);
    this.pauses = slider("pauses that outlast the cache", PAUSES.length - 1, 0, 1);
    this.limit = slider("summary at tokens", 200_000, SUMMARY_TOKENS, 1_000);
    this.limit.field.min = "4000";
    return [this.read, this.write, this.pauses, this.limit].map((one) => one.node);
  }

  choose(name) {
    this.name = name;
    for (const [at, button] of this.buttons.entries()) button.setAttribute("aria-pressed", String(name === (STRATEGIES[at - 1]?.[0] ?? "")));
    this.body.hidden = !name;
    this.limit.node.hidden = name !== "summary";
    this.show();
  }

  // Adds to each button what the run would cost under its strategy, relative to the recorded cost.
  rate() {
    const { run } = this.timeline;
    this.rated = run;
    if (!run.count) return;
    const rates = this.rates();
    const own = new Estimate(run, this.sizesOf(run), "recorded", { rates, pauses: "recorded" }).cost;
    STRATEGIES.forEach(([name, told], at) => setTimeout(() => this.rated === run && this.rateOne(run, name, told, own, rates, this.buttons[at + 1])));
  }

  rateOne(run, name, told, own, rates, button) {
    const other = new Estimate(run, this.sizesOf(run), name, { rates, pauses: "recorded", tokens: SUMMARY_TOKENS });
    const ratio = (other.cost / Math.max(1, own)).toFixed(2);
    button.replaceChildren(el("i", { class: `strategy-mark hue-${hueOf(name)}` }), name, el("small", { text: ` ${ratio}×` }));
    button.title = `${told}; it would cost ${ratio} times as much, estimated`;
  }

  rates() {
    const [read, write] = [Number(this.read.field.value), Number(this.write.field.value)];
    return { read, write, output: this.timeline.run.rates[2] ?? RATES[2] };
  }

  // The strip follows the run that is selected.
  follow() {
    if (this.rated && this.rated !== this.timeline.run) this.rate();
    if (this.name && this.shown !== this.timeline.run) this.show();
    else this.film?.mark();
  }

  show() {
    const { run } = this.timeline;
    this.shown = run;
    if (!this.name || !run.count) {
      this.timeline.compared = this.film = null;
      this.strip.replaceChildren();
      this.changed();
      return;
    }
    const rates = this.rates();
    const pauses = PAUSES[Number(this.pauses.field.value)];
    const settings = { rates, pauses: pauses[0], tokens: Number(this.limit.field.value) };
    const [own, other] = ["recorded", this.name].map((name) => new Estimate(run, this.sizesOf(run), name, settings));
    this.read.told.textContent = ` ${rates.read.toFixed(2)} of an input token`;
    this.write.told.textContent = ` ${rates.write.toFixed(2)}`;
    this.pauses.told.textContent = ` ${pauses[1]}`;
    this.limit.told.textContent = ` ${count(settings.tokens)}`;
    this.pauses.field.setAttribute("aria-valuetext", pauses[1]);
    this.sentence.textContent = this.difference(run, own, other);
    this.note.textContent = this.assumptions(run, pauses[0]);
    this.draw(run, other);
  }

  draw(run, other) {
    this.timeline.compared = other;
    if (!this.film || this.film.run !== run) {
      this.film = new Film(this.timeline, run, other, this.tooltip, this.name);
      this.strip.replaceChildren(this.film.element);
    }
    this.film.prompts = other;
    this.film.label = this.name;
    this.changed();
    this.film.paint();
  }

  difference(run, own, other) {
    const ratio = other.cost / Math.max(1, own.cost);
    const cost = ratio >= 1.005 ? (ratio >= 1.1 ? `${ratio.toFixed(1)} times the cost` : `${Math.round(100 * (ratio - 1))} % more cost`) : ratio <= 0.995 ? `${Math.round(100 * (1 - ratio))} % less cost` : "the same cost";
    const more = other.more.length ? `, with ${plural(other.more.length, "more request")}` : "";
    return `With ${this.name}, the same ${count(run.count)} steps would send ${compact(other.sent)} tokens instead of ${compact(own.sent)}${more}, in prompts of at most ${compact(other.peak)} instead of ${compact(own.peak)}, at ${cost}.`;
  }

  assumptions(run, pauses) {
    const own = pauses === "recorded" ? (run.simulated ? "simulated, because the model reports no cache" : run.estimated ? "estimated from characters" : "recorded") : "recorded, its cache simulated with these pauses";
    const frames = this.film?.prompts?.built?.frames;
    const cut = this.name === "adaptive" && run.frames.length < 2 ? (frames ? " It is cut into frames of the advised number of steps." : " Frames would not pay in this run.") : "";
    return `This run: ${own}. With ${this.name}: simulated in this page from the lengths of the replies and results, as if the model did the same and looked nothing up again.${cut} stackmem whatif ${run.id} renders the real prompts.`;
  }
}
