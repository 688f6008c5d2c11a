// Draws frames over steps: the root at the top, each child below the frame that pushed it.

import { el, plain, plural, compact, usd } from "./text.js";
import { colour } from "./theme.js";
import { Surface, GUTTER, MARGIN } from "./timeline.js";
import { Layer, wideEnough } from "./layer.js";

const ROW = 27;
const DEEPEST = 40;
const TICKS = 12;

export const OUTCOMES = [
  ["ok", "done"],
  ["failed", "failed its check"],
  ["forced", "popped by force"],
  ["open", "still open"],
];

export class Flame {
  constructor(timeline, run, tooltip) {
    this.timeline = timeline;
    this.run = run;
    const name = `Frames of the run over its steps: ${plural(run.frames.length, "frame")}, deepest at depth ${run.depth}`;
    this.refused = [];
    run.rows.forEach((row, at) => row[11].some((fact) => fact[0] === "rejected") && this.refused.push(at));
    this.surface = new Surface(timeline, name, (context, width) => this.draw(context, width));
    this.surface.height = Math.min(DEEPEST, run.depth + 1) * ROW + (this.refused.length ? TICKS : 2);
    this.layer = new Layer("Frames", (at) => this.told(at), (at, event) => this.enter(at, event));
    const { element } = this.surface;
    element.append(this.layer.element);
    element.addEventListener("click", (event) => event.target === this.surface.canvas && timeline.choose(this.at(event).step, run.place));
    element.addEventListener("pointermove", (event) => tooltip.follow(event, this.lines(this.at(event))));
    element.addEventListener("pointerleave", () => tooltip.hide());
  }

  draw(context, width) {
    const { timeline, run } = this;
    context.beginPath();
    context.rect(GUTTER, 0, width - GUTTER - MARGIN, this.surface.height);
    context.clip();
    const ends = [];
    const boxes = [];
    run.frames.forEach((frame, key) => {
      if (frame.depth >= DEEPEST) return;
      const [from, to] = timeline.span(run, frame.first, run.lastOf(key));
      const [start, end] = [timeline.pixel(from, width), timeline.pixel(to, width)];
      if (end < GUTTER || start > width - MARGIN) return;
      if (end - start < 0.5 && ends[frame.depth] > end - 0.5) return;
      ends[frame.depth] = end;
      const [left, right] = [Math.max(start, GUTTER), Math.min(end, width - MARGIN)];
      const box = { key, name: frame.name, left, top: frame.depth * ROW + 1, width: Math.max(1, right - left - 1), height: ROW - 3, tone: frame.outcome };
      if (wideEnough(box)) boxes.push(box);
      context.fillStyle = colour(frame.outcome);
      context.fillRect(box.left, box.top, box.width, box.height);
    });
    this.layer.place(boxes);
    this.ticks(context, width);
  }

  // Draws a tick below the frames for each refused call.
  ticks(context, width) {
    const { timeline, run } = this;
    const bounds = run.bounds[timeline.mode];
    const bottom = this.surface.height;
    context.fillStyle = colour("failed");
    let last = -9;
    for (const at of this.refused) {
      const x = timeline.pixel((bounds[at] + bounds[at + 1]) / 2, width);
      if (x < GUTTER || x > width || x - last < 2) continue;
      last = x;
      context.beginPath();
      context.moveTo(x - 5, bottom - 1);
      context.lineTo(x + 5, bottom - 1);
      context.lineTo(x, bottom - 10);
      context.fill();
    }
  }

  // Returns the frame and step under the pointer; the frame is -1 if there is none.
  at(event) {
    const { timeline, run } = this;
    const box = this.surface.canvas.getBoundingClientRect();
    const step = timeline.stepAt(run, timeline.valueAt(event.clientX - box.left, box.width));
    const depth = Math.floor((event.clientY - box.top - 1) / ROW);
    const found = run.frames.findIndex((one, at) => one.depth === depth && one.first <= step && step <= run.lastOf(at));
    return { step, frame: found };
  }

  // A click selects the step under it, a key the first step of the frame.
  enter(at, event) {
    const { timeline, run } = this;
    const step = event.detail ? this.at(event).step : run.frames[at].first;
    if (at === 0) timeline.reset();
    else timeline.zoomTo(run, run.frames[at].first, run.lastOf(at));
    timeline.choose(step, run.place);
  }

  told(at) {
    const frame = this.run.frames[at];
    return `${plain(frame.name.slice(0, 200))}: ${this.verdict(frame)}, steps ${frame.first} to ${this.run.lastOf(at)}`;
  }

  verdict(frame) {
    return frame.forced ? `popped by force (${frame.forced})` : OUTCOMES.find(([name]) => name === frame.outcome)[1];
  }

  lines({ step, frame }) {
    if (frame < 0) return [];
    const { run } = this;
    const one = run.frames[frame];
    const [first, last] = [one.first, run.lastOf(frame)];
    const rows = run.rows.slice(first - 1, last);
    const tokens = rows.reduce((sum, row) => sum + row[2] + row[5], 0);
    const cost = run.priced ? ` · ${usd(rows.reduce((sum, row) => sum + row[7], 0))}` : "";
    return [
      el("strong", { text: one.name }),
      el("span", { text: `${this.verdict(one)}${one.verified ? ` · verify: ${one.verified}` : ""}` }),
      el("span", { text: `steps ${first} to ${last} · ${compact(tokens)} tokens${cost}` }),
      el("span", { class: "faint", text: plain(run.text(one.intent)).slice(0, 200) }),
      el("span", { class: "faint", text: `step ${step}` }),
    ];
  }
}
