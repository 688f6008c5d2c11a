// Draws every prompt of a run as one stacked bar, all on one scale, with a marker at the selected step.

import { el, count, compact } from "./text.js";
import { colour } from "./theme.js";
import { Surface } from "./timeline.js";
import { KINDS } from "./sizes.js";
import { spansOf, SEEN, STORED } from "./life.js";
import { stepLine } from "./inspector.js";

const HEIGHT = 96;
const BAND = 12;
const SAMPLES = 5; // per pixel
const [NARROWEST, WIDEST] = [2, 60]; // pixels of a bar

// The prompts of a run as they were sent.
export class SentPrompts {
  constructor(run, sizes) {
    Object.assign(this, { run, sizes });
  }

  get peak() {
    return this.run.peak;
  }

  tokens(step) {
    return this.run.rows[step - 1][2];
  }

  read(step) {
    return this.run.rows[step - 1][3];
  }

  sample(step, places) {
    return this.sizes.sample(step, places);
  }
}

export class Film {
  // `prompts` has the tokens of each prompt, those read from the cache, and the kinds in it; `label` names a strategy.
  constructor(timeline, run, prompts, tooltip, label = "") {
    Object.assign(this, { timeline, run, prompts, label, life: null });
    this.surface = new Surface(timeline, this.name(), (context, width) => this.draw(context, width));
    this.surface.height = HEIGHT;
    this.band = new Surface(timeline, "", (context, width) => this.drawBand(context, width));
    this.band.canvas.removeAttribute("role");
    this.band.canvas.removeAttribute("aria-label");
    this.band.height = BAND;
    this.band.element.hidden = true;
    this.head = el("div", { class: "frame-mark" });
    this.base = el("div", { class: "frame-mark base-mark", hidden: true });
    const bars = el("div", { class: "bars clickable" }, this.surface.element, this.base, this.head);
    const letter = run.letter ? el("b", { class: "letter", text: run.letter }) : "";
    this.element = el("div", { class: "film" }, letter, el("div", {}, bars, this.band.element));
    const choose = (event) => timeline.choose(this.stepAt(event), run.place);
    bars.addEventListener("pointerdown", (event) => {
      choose(event);
      bars.setPointerCapture(event.pointerId);
    });
    bars.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) choose(event);
      tooltip.follow(event, this.lines(this.stepAt(event)));
    });
    bars.addEventListener("pointerleave", () => tooltip.hide());
    new ResizeObserver(() => this.mark()).observe(bars);
  }

  name() {
    const { run, label, prompts } = this;
    const whose = label ? `The prompts under ${label} as bars` : "Every prompt of the run as a bar";
    return `${whose}: ${count(run.count)} steps, the largest with ${count(prompts.peak)} tokens`;
  }

  // The highest prompt of all strips on the page.
  get most() {
    return Math.max(1, this.timeline.compared?.peak ?? 0, ...this.timeline.runs.map((run) => run.peak));
  }

  // Returns the bars as [first, last, shown] steps; several steps share a bar if there are many.
  bars(width) {
    const each = Math.max(1, Math.ceil(this.run.count / Math.max(1, Math.floor(width / NARROWEST))));
    const found = [];
    for (let first = 1; first <= this.run.count; first += each) {
      const last = Math.min(this.run.count, first + each - 1);
      let shown = first;
      for (let step = first; step <= last; step += 1) if (this.prompts.tokens(step) > this.prompts.tokens(shown)) shown = step;
      found.push([first, last, shown]);
    }
    return found;
  }

  pixel(step, width) {
    return ((step - 1) / Math.max(1, this.run.count)) * width;
  }

  draw(context, width) {
    const colours = KINDS.map(([name]) => colour(`kind-${name}`));
    const card = colour("card");
    this.highest = this.most;
    for (const [first, last, shown] of this.bars(width)) {
      const left = this.pixel(first, width);
      const room = this.pixel(last + 1, width) - left;
      this.bar(context, left, room > 5 ? Math.min(room - 1, WIDEST) : room, shown, colours, card);
    }
  }

  bar(context, left, width, step, colours, card) {
    const { prompts } = this;
    const tokens = prompts.tokens(step);
    const height = Math.max(1, (tokens / this.highest) * (HEIGHT - 2));
    const kinds = mostFrequent(prompts.sample(step, SAMPLES * Math.max(1, Math.round(height))));
    const cached = (prompts.read(step) / Math.max(1, tokens)) * kinds.length;
    const unit = height / kinds.length;
    for (let from = 0; from < kinds.length; ) {
      let to = from + 1;
      while (to < kinds.length && kinds[to] === kinds[from] && (to < cached) === (from < cached)) to += 1;
      const place = [left, HEIGHT - to * unit, width, (to - from) * unit];
      context.fillStyle = colours[kinds[from]];
      context.fillRect(...place);
      if (from >= cached) {
        context.globalAlpha = 0.66;
        context.fillStyle = card;
        context.fillRect(...place);
        context.globalAlpha = 1;
      }
      from = to;
    }
  }

  // Shows when the selection is in the prompt or on the heap; null shows nothing.
  follow(life) {
    this.life = life;
    this.band.element.hidden = life === null;
    this.band.paint();
  }

  drawBand(context, width) {
    if (!this.life) return;
    for (const [state, first, last] of spansOf(this.life.states)) {
      if (!state) continue;
      context.fillStyle = colour(state === SEEN ? "accent" : "chunk");
      const left = this.pixel(first, width);
      const height = state === STORED ? 4 : 6;
      context.fillRect(left, 1, Math.max(1, this.pixel(last + 1, width) - left), height);
    }
    context.fillStyle = colour("ink");
    let before = -9;
    for (const { step } of this.life.events) {
      const x = this.pixel(Math.max(1, step) + 0.5, width);
      if (x - before < 2) continue;
      before = x;
      context.fillRect(x - 1, 0, 2, BAND - 2);
    }
  }

  stepAt(event) {
    const box = this.surface.canvas.getBoundingClientRect();
    return Math.min(this.run.count, Math.max(1, Math.floor(((event.clientX - box.left) / Math.max(1, box.width)) * this.run.count) + 1));
  }

  lines(step) {
    const { run, prompts, label } = this;
    if (!run.count) return [];
    const [tokens, read] = [prompts.tokens(step), prompts.read(step)];
    return [el("strong", { text: `step ${count(step)}${label ? ` under ${label}` : ""}` }), el("span", { text: `${compact(tokens)} tokens, ${percent(read, tokens)} from the cache` }), el("span", { class: "faint", text: stepLine(run, step) })];
  }

  mark() {
    const { timeline, run } = this;
    const width = this.surface.width;
    for (const [node, place] of [[this.head, timeline.chosen], [this.base, timeline.base]]) {
      node.hidden = !run.count || place?.run !== run.place;
      if (node.hidden) continue;
      const left = this.pixel(place.step, width);
      node.style.left = `${left - 1}px`;
      node.style.width = `${Math.max(3, Math.min(WIDEST + 1, this.pixel(place.step + 1, width) - left) + 1)}px`;
    }
  }

  paint() {
    this.surface.canvas.setAttribute("aria-label", this.name());
    this.surface.paint();
    this.band.paint();
    this.mark();
  }
}

const percent = (part, whole) => `${Math.round((100 * part) / Math.max(1, whole))} %`;
export const share = (row) => percent(row[3], row[2]);

// Returns the most frequent kind of each pixel.
function mostFrequent(kinds) {
  const found = new Uint8Array(kinds.length / SAMPLES);
  const counts = new Uint8Array(KINDS.length);
  for (let at = 0; at < found.length; at += 1) {
    counts.fill(0);
    let best = kinds[at * SAMPLES];
    for (let place = at * SAMPLES; place < (at + 1) * SAMPLES; place += 1) {
      counts[kinds[place]] += 1;
      if (counts[kinds[place]] > counts[best]) best = kinds[place];
    }
    found[at] = best;
  }
  return found;
}
