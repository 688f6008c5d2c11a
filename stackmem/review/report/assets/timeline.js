// State shared by all lanes: the width of steps, the visible part of the run, and the selected step.

import { el, count, compact, usd } from "./text.js";
import { colour, SANS } from "./theme.js";

export const GUTTER = 54;
export const MARGIN = 14;

export class Timeline {
  constructor(runs, parted) {
    this.runs = runs;
    this.parted = parted;
    this.mode = "steps";
    this.chosen = { run: 0, step: Math.min(1, runs[0].count) };
    this.listeners = { view: [], choice: [], growth: [], full: [], follow: [] };
    this.showsFull = false;
    this.domain = this.whole();
  }

  on(what, listener) {
    this.listeners[what].push(listener);
  }

  tell(what) {
    for (const listener of this.listeners[what]) listener();
  }

  whole() {
    return [0, Math.max(1e-9, ...this.runs.map((run) => run.bounds[this.mode][run.count]))];
  }

  get run() {
    return this.runs[this.chosen.run];
  }

  get zoomed() {
    const [from, to] = this.whole();
    return this.domain[0] > from || this.domain[1] < to;
  }

  setMode(mode) {
    const middle = this.run.bounds[this.mode];
    const inView = [this.stepAt(this.run, this.domain[0]), this.stepAt(this.run, this.domain[1] - 1e-9)];
    const zoomed = this.zoomed && middle.length > 1;
    this.mode = mode;
    this.domain = this.whole();
    if (zoomed) this.zoomTo(this.run, inView[0], inView[1]);
    else this.tell("view");
  }

  // Returns the step at a position in the run, from 1.
  stepAt(run, value) {
    const bounds = run.bounds[this.mode];
    let low = 0;
    let high = run.count;
    while (low < high - 1) {
      const middle = (low + high) >> 1;
      if (bounds[middle] <= value) low = middle;
      else high = middle;
    }
    return Math.min(run.count, low + 1);
  }

  span(run, first, last) {
    const bounds = run.bounds[this.mode];
    return [bounds[Math.min(first, run.count + 1) - 1] ?? bounds[run.count], bounds[Math.min(last, run.count)]];
  }

  zoomTo(run, first, last) {
    const [from, to] = this.span(run, first, last);
    const [start, end] = this.whole();
    const least = (end - start) / 1e5;
    this.domain = to - from > least ? [from, to] : [Math.max(start, from - least), from + least];
    this.tell("view");
  }

  zoomBy(factor) {
    const [start, end] = this.whole();
    const [from, to] = this.span(this.run, this.chosen.step, this.chosen.step);
    const middle = (from + to) / 2;
    const width = Math.min(end - start, Math.max((end - start) / 1e5, (this.domain[1] - this.domain[0]) * factor));
    const left = Math.min(Math.max(start, middle - width / 2), end - width);
    this.domain = [left, left + width];
    this.tell("view");
  }

  // Whether the context is drawn together with the size it would have with the full history.
  showFull(wanted) {
    this.showsFull = wanted;
    this.tell("full");
  }

  reset() {
    this.domain = this.whole();
    this.tell("view");
  }

  // Selects a file, a register or a text, so that its life can be followed.
  follow(kind, key) {
    this.followed = { kind, key };
    this.tell("follow");
  }

  // After the runs have grown, a view of everything still shows everything.
  grow(grown) {
    const { zoomed } = this;
    grown();
    if (!zoomed) this.domain = this.whole();
    this.tell("growth");
    this.tell("view");
  }

  choose(step, place = this.chosen.run) {
    const run = this.runs[place];
    if (!run) return;
    this.chosen = { run: place, step: Math.min(run.count, Math.max(1, Math.round(step) || 1)) };
    if (!run.count) {
      this.tell("choice");
      return;
    }
    const [from, to] = this.span(run, this.chosen.step, this.chosen.step);
    const width = this.domain[1] - this.domain[0];
    if (to <= this.domain[0] || from >= this.domain[1]) {
      const [start, end] = this.whole();
      const left = Math.min(Math.max(start, (from + to) / 2 - width / 2), Math.max(start, end - width));
      this.domain = [left, left + width];
      this.tell("view");
    }
    this.tell("choice");
  }

  // Returns the distance in pixels from the left edge of a lane of this width.
  pixel(value, width) {
    return GUTTER + ((value - this.domain[0]) / (this.domain[1] - this.domain[0])) * (width - GUTTER - MARGIN);
  }

  valueAt(pixel, width) {
    const share = (pixel - GUTTER) / (width - GUTTER - MARGIN);
    return this.domain[0] + Math.min(1, Math.max(0, share)) * (this.domain[1] - this.domain[0]);
  }

  label(value) {
    if (this.mode === "steps") return count(value);
    return this.mode === "tokens" ? compact(value) : usd(value);
  }
}

// A canvas as wide as its container, redrawn whenever its width or the view changes.
export class Surface {
  constructor(timeline, name, draw) {
    this.canvas = el("canvas", { role: "img", "aria-label": name });
    this.element = el("div", { class: "surface" }, this.canvas);
    this.draw = draw;
    this.height = 20;
    new ResizeObserver(() => {
      this.known = this.element.clientWidth;
      this.paint();
    }).observe(this.element);
  }

  // The width at the last change of size; asking the element would lay out the page again.
  get width() {
    return this.known ?? this.element.clientWidth;
  }

  paint() {
    const width = this.width;
    if (!width) return;
    const scale = devicePixelRatio || 1;
    const most = Math.min(this.height, 16_000);
    const [across, down] = [Math.round(width * scale), Math.round(most * scale)];
    if (this.canvas.width !== across || this.canvas.height !== down) {
      this.canvas.width = across;
      this.canvas.height = down;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${most}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, most);
    context.save();
    this.draw(context, width, most);
    context.restore();
  }
}

// Draws the ruler above the lanes.
export function ruler(timeline) {
  const surface = new Surface(timeline, "Scale of the lanes below", (context, width, height) => {
    const [from, to] = timeline.domain;
    const rough = (to - from) / Math.max(2, (width - GUTTER) / 64);
    const power = 10 ** Math.floor(Math.log10(rough));
    let tick = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
    if (timeline.mode !== "cost") tick = Math.max(1, tick);
    context.font = SANS;
    context.textAlign = "center";
    const shift = timeline.mode === "steps" ? 0.5 : 0; // a step's number is centered
    for (let value = Math.ceil((from + shift) / tick) * tick; value - shift <= to * (1 + 1e-9); value += tick) {
      if (value === 0 && shift) continue;
      const x = Math.round(timeline.pixel(value - shift, width)) + 0.5;
      context.strokeStyle = colour("line");
      context.beginPath();
      context.moveTo(x, height - 5);
      context.lineTo(x, height);
      context.stroke();
      context.fillStyle = colour("muted");
      const room = context.measureText(timeline.label(value)).width / 2;
      if (x + room < width) context.fillText(timeline.label(value), x, 11);
    }
  });
  surface.height = 20;
  surface.element.classList.add("ruler");
  return surface;
}
