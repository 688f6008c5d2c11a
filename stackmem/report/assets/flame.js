// Frames over steps: the root at the top, each child below the frame that pushed it.

import { el, plain, plural, compact, usd } from "./text.js";
import { colour, SANS } from "./theme.js";
import { Surface, fitText, GUTTER, MARGIN } from "./timeline.js";

const ROW = 24;

export const OUTCOMES = [
  ["ok", "done"],
  ["failed", "failed its check"],
  ["forced", "popped by force"],
  ["open", "not ended"],
];

export class Flame {
  constructor(timeline, run, tooltip) {
    this.timeline = timeline;
    this.run = run;
    const name = `Frames of the run over its steps: ${plural(run.frames.length, "frame")}, deepest at depth ${run.depth}`;
    this.surface = new Surface(timeline, name, (context, width) => this.draw(context, width));
    this.surface.height = Math.min(40, run.depth + 1) * ROW + 4;
    this.rejected = run.rows.map((row) => row[11].some((fact) => fact[0] === "rejected"));
    const { canvas } = this.surface;
    canvas.classList.add("clickable");
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener("pointermove", (event) => tooltip.follow(event, this.lines(this.at(event))));
    canvas.addEventListener("pointerleave", () => tooltip.hide());
  }

  draw(context, width) {
    const { timeline, run } = this;
    context.beginPath();
    context.rect(GUTTER, 0, width - GUTTER - MARGIN, this.surface.height);
    context.clip();
    context.font = SANS;
    context.textBaseline = "middle";
    const ends = [];
    run.frames.forEach((frame, at) => {
      if (frame.depth >= 40) return;
      const [from, to] = timeline.span(run, frame.first, run.lastOf(at));
      const left = timeline.pixel(from, width);
      const right = timeline.pixel(to, width);
      if (right < GUTTER || left > width) return;
      if (right - left < 0.5 && ends[frame.depth] > right - 0.5) return;
      ends[frame.depth] = right;
      this.box(context, frame, Math.max(left, GUTTER - 4), Math.min(right, width + 4));
    });
    this.marks(context, width);
  }

  box(context, frame, left, right) {
    const top = frame.depth * ROW + 2;
    const room = Math.max(1, right - left - 1);
    context.fillStyle = colour(frame.outcome);
    context.globalAlpha = frame.depth % 2 ? 0.78 : 0.92;
    context.beginPath();
    context.roundRect(left, top, room, ROW - 3, Math.min(4, room / 2));
    context.fill();
    context.globalAlpha = 1;
    context.fillStyle = colour("on-colour");
    const start = Math.max(left, GUTTER) + 7;
    fitText(context, frame.name, start, top + ROW / 2 - 1, right - start - 6);
  }

  // A tick where a call was refused.
  marks(context, width) {
    const { timeline, run } = this;
    context.fillStyle = colour("failed");
    let last = -1;
    this.rejected.forEach((refused, at) => {
      if (!refused) return;
      const x = timeline.pixel((run.bounds[timeline.mode][at] + run.bounds[timeline.mode][at + 1]) / 2, width);
      if (x < GUTTER || x > width || x - last < 2) return;
      last = x;
      const frame = run.frames[run.rows[at][0]];
      const bottom = (Math.min(39, frame.depth) + 1) * ROW - 2;
      context.beginPath();
      context.moveTo(x - 4, bottom + 1);
      context.lineTo(x + 4, bottom + 1);
      context.lineTo(x, bottom - 6);
      context.fill();
      context.strokeStyle = colour("card");
      context.stroke();
    });
  }

  // The frame and step below the pointer; the frame is -1 where there is none.
  at(event) {
    const { timeline, run } = this;
    const box = this.surface.canvas.getBoundingClientRect();
    const step = timeline.stepAt(run, timeline.valueAt(event.clientX - box.left, box.width));
    const depth = Math.floor((event.clientY - box.top - 2) / ROW);
    const found = run.frames.findIndex((one, at) => one.depth === depth && one.first <= step && step <= run.lastOf(at));
    return { step, frame: found };
  }

  click(event) {
    const { timeline, run } = this;
    const { step, frame } = this.at(event);
    if (frame >= 0) {
      if (frame === 0) timeline.reset();
      else timeline.zoomTo(run, run.frames[frame].first, run.lastOf(frame));
    }
    timeline.choose(step, run.place);
  }

  lines({ step, frame }) {
    if (frame < 0) return [];
    const { run } = this;
    const one = run.frames[frame];
    const [first, last] = [one.first, run.lastOf(frame)];
    const rows = run.rows.slice(first - 1, last);
    const tokens = rows.reduce((sum, row) => sum + row[2] + row[5], 0);
    const cost = run.priced ? ` · ${usd(rows.reduce((sum, row) => sum + row[7], 0))}` : "";
    const verdict = one.forced ? `popped by force (${one.forced})` : OUTCOMES.find(([name]) => name === one.outcome)[1];
    return [
      el("strong", { text: one.name }),
      el("span", { text: `${verdict}${one.verified ? ` · verify: ${one.verified}` : ""}` }),
      el("span", { text: `steps ${first} to ${last} · ${compact(tokens)} tokens${cost}` }),
      el("span", { class: "faint", text: plain(run.text(one.intent)).slice(0, 200) }),
      el("span", { class: "faint", text: `step ${step}` }),
    ];
  }
}
