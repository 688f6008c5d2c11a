// The same run under another strategy, computed from the sizes of its replies and results.

import { el, compact, count } from "./text.js";
import { colour } from "./theme.js";
import { Surface } from "./timeline.js";

const HEIGHT = 72;
const MASKED_AFTER = 10; // steps
const PLACE_CHARS = 60; // of the line that replaces a masked result
const SUMMARY_CHARS = 2_500;
const RESULTS = { result: 1, verify: 1, tool: 1 };
const WRITE = 1.25; // price of a token written to the cache, relative to an input token
const OUTPUT = 5;

export const STRATEGIES = [
  ["full", "full: everything in one conversation"],
  ["mask", "mask: results older than 10 steps are cut to one line"],
  ["summary", "summary: at 60 % of the largest prompt, a summary replaces the conversation"],
];

// Returns the characters of each step's reply and results.
function turnsOf(run) {
  return run.rows.map((row) => {
    const reply = row[5] / Math.max(1e-9, run.tokens_per_char);
    const results = row[11].reduce((sum, fact) => sum + (RESULTS[fact[0]] ? run.text(fact[RESULTS[fact[0]]]).length : 0), 0);
    return { reply, results };
  });
}

// Returns the prompts [tokens, read] of each step under a strategy with one conversation; each prefix that stays is read.
export function promptsUnder(run, strategy) {
  const rate = run.tokens_per_char;
  const first = run.count ? run.rows[0][2] : 0;
  const turns = turnsOf(run);
  const most = 0.6 * run.fullPeak;
  let [size, before, masked] = [first, 0, first];
  return turns.map((_, at) => {
    let read = before;
    if (at) size += (turns[at - 1].reply + turns[at - 1].results) * rate;
    const old = turns[at - MASKED_AFTER - 1];
    if (strategy === "mask" && old) {
      masked += old.reply * rate;
      if (old.results > PLACE_CHARS) {
        size -= (old.results - PLACE_CHARS) * rate;
        read = Math.min(read, masked);
      }
      masked += Math.min(old.results, PLACE_CHARS) * rate;
    }
    if (strategy === "summary" && size > most) {
      size = first + SUMMARY_CHARS * rate;
      read = Math.min(read, first);
    }
    before = size;
    return [Math.round(size), Math.round(Math.min(read, size))];
  });
}

// Returns the cost in input tokens at a price of cached reads. A prompt is [tokens, read, written]; without `written`, all
// that is not read is written.
function costOf(run, prompts, readPrice) {
  return prompts.reduce((sum, [tokens, read, written = tokens - read], at) => sum + read * readPrice + written * WRITE + (tokens - read - written) + run.rows[at][5] * OUTPUT, 0);
}

const totalOf = (prompts) => prompts.reduce((sum, [tokens]) => sum + tokens, 0);

// A folded card with the run's prompts above those of another strategy, on one scale, and the difference in a sentence.
export class OtherStrategy {
  constructor(timeline) {
    this.timeline = timeline;
    this.choice = el("select", { "aria-label": "Other strategy", onchange: () => this.show() }, ...STRATEGIES.map(([name, told]) => el("option", { value: name, text: told })));
    this.price = el("input", { type: "range", min: "0", max: "1", step: "0.05", value: "0.1", "aria-label": "Price of a cached token, relative to an input token", oninput: () => this.show() });
    this.priced = el("span", { class: "faint" });
    this.sentence = el("p", { class: "difference", role: "status" });
    this.surface = new Surface(timeline, "Prompts of the run, and under the other strategy", (context, width) => this.draw(context, width));
    this.surface.height = 2 * HEIGHT + 6;
    this.element = el(
      "details",
      { class: "card spent", ontoggle: () => this.element.open && this.show() },
      el("summary", {}, el("h2", { text: "The same run under another strategy" }), el("span", { class: "faint", text: " estimated from its replies and results" })),
      el("div", { class: "controls" }, this.choice, el("label", {}, "cached reads ", this.price, this.priced)),
      this.sentence,
      this.surface.element,
      el("p", { class: "faint", text: "Above: this run. Below: the other strategy. Full color: read from the cache, pale: paid in full. It assumes the same steps and no pauses; stackmem whatif uses the real prompts of a strategy." }),
    );
    timeline.on("growth", () => this.element.open && this.show());
  }

  show() {
    const { run } = this.timeline;
    if (!run.count) return;
    const price = Number(this.price.value);
    this.own = run.rows.map((row) => [row[2], row[3], row[4]]);
    this.other = promptsUnder(run, this.choice.value);
    this.priced.textContent = ` at ${price.toFixed(2)} of an input token`;
    const ratio = costOf(run, this.other, price) / Math.max(1, costOf(run, this.own, price));
    const cost = ratio >= 1 ? `${ratio.toFixed(1)} times the cost` : `${Math.round(100 * (1 - ratio))} % less cost`;
    this.sentence.textContent = `With ${this.choice.value}, the same ${count(run.count)} steps would send ${compact(totalOf(this.other))} tokens instead of ${compact(totalOf(this.own))}, at ${cost}.`;
    this.surface.paint();
  }

  draw(context, width) {
    if (!this.own) return;
    const most = Math.max(1, ...[...this.own, ...this.other].map(([tokens]) => tokens));
    [this.own, this.other].forEach((prompts, row) => this.bars(context, width, prompts, most, row * (HEIGHT + 6), row ? "full" : "context"));
  }

  bars(context, width, prompts, most, top, name) {
    const each = Math.max(1, Math.ceil((2 * prompts.length) / Math.max(1, width)));
    context.fillStyle = colour(name);
    for (let at = 0; at < prompts.length; at += each) {
      const [tokens, read] = prompts.slice(at, at + each).reduce((best, one) => (one[0] > best[0] ? one : best));
      const [left, right] = [(at / prompts.length) * width, (Math.min(prompts.length, at + each) / prompts.length) * width];
      const room = Math.max(0.5, right - left - (right - left > 4 ? 1 : 0));
      for (const [share, alpha] of [[tokens, 0.3], [read, 1]]) {
        const height = (share / most) * HEIGHT;
        context.globalAlpha = alpha;
        context.fillRect(left, top + HEIGHT - height, room, height);
      }
    }
    context.globalAlpha = 1;
  }
}
