// Draws the heap over steps: each chunk from its allocation until it was freed.

import { el, plain, plural, count } from "./text.js";
import { colour } from "./theme.js";
import { Surface, GUTTER, MARGIN } from "./timeline.js";
import { Layer } from "./layer.js";

const ROW = 26;
const OWN_ROWS = 24;
const NAME_PIXELS = 60; // shorter names are not useful

// Gives each chunk a row if there are few; otherwise chunks that do not overlap share rows.
function rowsOf(run) {
  const lives = run.lanes.map((lane, at) => ({
    lane,
    first: lane.versions[0]?.start ?? 0,
    last: lane.versions.at(-1)?.end ?? Infinity,
    row: at,
  }));
  if (lives.length <= OWN_ROWS) return lives;
  const ends = [];
  for (const life of lives) {
    let row = ends.findIndex((end) => end < life.first);
    if (row < 0) row = ends.length;
    ends[row] = life.last;
    life.row = row;
  }
  return lives;
}

const READ_PIXELS = 6;

// Returns the widest gap between two reads, where a name hides none, as its left offset and width.
function freeOf(marks, left, right) {
  const ends = [left - READ_PIXELS, ...marks.filter((x) => x > left && x < right), right + READ_PIXELS];
  const gaps = ends.slice(1).map((end, at) => [ends[at] + READ_PIXELS - left, end - ends[at] - 2 * READ_PIXELS]);
  return gaps[0][1] >= NAME_PIXELS ? gaps[0] : gaps.reduce((best, gap) => (gap[1] > best[1] ? gap : best));
}

export class HeapLanes {
  constructor(timeline, run, tooltip) {
    this.timeline = timeline;
    this.run = run;
    this.lives = rowsOf(run);
    const rows = Math.max(0, ...this.lives.map((life) => life.row + 1));
    const name = `Heap over the steps of the run: ${plural(run.lanes.length, "chunk")}`;
    this.surface = new Surface(timeline, name, (context, width) => this.draw(context, width));
    this.surface.height = Math.max(1, rows) * ROW + 4;
    this.layer = new Layer("Chunks", (at) => this.told(run.lanes[at]), (at, event) => this.enter(at, event));
    const { element, canvas } = this.surface;
    element.append(this.layer.element);
    element.addEventListener("click", (event) => event.target === canvas && timeline.choose(this.at(event).step, run.place));
    element.addEventListener("pointermove", (event) => tooltip.follow(event, this.lines(this.at(event))));
    element.addEventListener("pointerleave", () => tooltip.hide());
  }

  told(lane) {
    const [first, last] = [lane.versions[0]?.start ?? 0, lane.versions.at(-1)?.end ?? null];
    return `${plain(lane.name.slice(0, 200))}: stored at step ${first}, ${last === null ? "still stored" : `freed at step ${last}`}, ${plural(lane.reads.length, "read")}${lane.stale.length ? ", was stale" : ""}`;
  }

  // A click selects the step under it; a key selects the step that stored the chunk and zooms to its lifetime.
  enter(at, event) {
    const { timeline, run } = this;
    const { versions } = run.lanes[at];
    const first = Math.max(1, versions[0]?.start ?? 1);
    if (!event.detail) timeline.zoomTo(run, first, versions.at(-1)?.end ?? run.count);
    timeline.choose(event.detail ? this.at(event).step : first, run.place);
  }

  // Returns the pixels of a span that starts within step `from` and ends within step `to`.
  stretch(from, to, width) {
    const { timeline, run } = this;
    const middle = (step) => {
      const bounds = run.bounds[timeline.mode];
      if (step < 1) return 0;
      return step > run.count ? bounds[run.count] : (bounds[step - 1] + bounds[step]) / 2;
    };
    return [timeline.pixel(middle(from), width), timeline.pixel(middle(to ?? run.count + 1), width)];
  }

  draw(context, width) {
    context.beginPath();
    context.rect(GUTTER, 0, width - GUTTER - MARGIN, this.surface.height);
    context.clip();
    const boxes = [];
    this.lives.forEach((life, key) => {
      const box = this.lane(context, width, life);
      if (box) boxes.push({ key, name: life.lane.name, tone: "chunk", ...box });
    });
    this.layer.place(boxes);
  }

  // Returns the average width of a step.
  mean() {
    const bounds = this.run.bounds[this.timeline.mode];
    return bounds[this.run.count] / Math.max(1, this.run.count);
  }

  lane(context, width, { lane, row }) {
    const { timeline } = this;
    const tight = (timeline.domain[1] - timeline.domain[0]) / (width - GUTTER - MARGIN) > 0.2 * this.mean();
    const top = row * ROW + 3;
    const seen = lane.versions.map((version) => [version, ...this.stretch(version.start, version.end, width)]);
    const inView = seen.filter(([, left, right]) => right >= GUTTER && left <= width);
    if (!inView.length) return null;
    for (const [version, left, right] of inView) this.bar(context, left, right, top, version.again);
    for (const [from, to] of lane.stale) {
      const [left, right] = this.stretch(from, to, width);
      this.hatch(context, Math.max(left, GUTTER), Math.min(right, width - MARGIN), top);
    }
    const [left, right] = [Math.max(inView[0][1], GUTTER), Math.min(inView.at(-1)[2], width - MARGIN)];
    const marks = lane.reads.map((step) => this.stretch(step, null, width)[0]).filter((x) => x >= GUTTER && x <= width);
    for (const x of marks) {
      if (tight) {
        context.fillStyle = colour("read-mark");
        context.globalAlpha = 0.6;
        context.fillRect(x - 0.5, top + 1, 1, ROW - 7);
        context.globalAlpha = 1;
        continue;
      }
      context.beginPath();
      context.arc(x, top + ROW / 2 - 3, 3.6, 0, 7);
      context.fillStyle = colour("read-mark");
      context.fill();
      context.strokeStyle = colour("card");
      context.lineWidth = 1.5;
      context.stroke();
    }
    return { left, top: row * ROW + 1, width: right - left, height: ROW - 2, free: tight ? null : freeOf(marks, left, right) };
  }

  bar(context, left, right, top, again) {
    const room = Math.max(2, right - left);
    context.fillStyle = colour("chunk");
    context.beginPath();
    context.roundRect(left, top, room, ROW - 5, Math.min(4, room / 2));
    context.fill();
    if (again) {
      context.fillStyle = colour("chunk-ink");
      context.fillRect(left, top, 2, ROW - 5);
    }
  }

  hatch(context, left, right, top) {
    if (right - left < 1) return;
    context.save();
    context.beginPath();
    context.roundRect(left, top, right - left, ROW - 5, 3);
    context.clip();
    context.fillStyle = colour("stale-wash");
    context.fillRect(left, top, right - left, ROW - 5);
    context.strokeStyle = colour("stale");
    context.lineWidth = 1.6;
    context.beginPath();
    for (let x = left - ROW; x < right + ROW; x += 6) {
      context.moveTo(x, top + ROW);
      context.lineTo(x + ROW, top);
    }
    context.stroke();
    context.restore();
  }

  at(event) {
    const { timeline, run } = this;
    const box = this.surface.canvas.getBoundingClientRect();
    const step = timeline.stepAt(run, timeline.valueAt(event.clientX - box.left, box.width));
    const row = Math.floor((event.clientY - box.top - 2) / ROW);
    const life = this.lives.find((one) => one.row === row && one.first <= step && step <= one.last);
    return { step, lane: life?.lane };
  }

  lines({ step, lane }) {
    if (!lane) return [];
    const version = lane.versions.findLast((one) => one.start <= step) ?? lane.versions[0];
    const stale = lane.stale.some(([from, to]) => from <= step && (to === null || to >= step));
    const last = lane.versions.at(-1).end;
    return [
      el("strong", { text: lane.name }),
      el("span", { text: plain(this.run.text(version.description)) || "no description" }),
      el("span", {
        text: `${count(version.chars)} characters · stored at step ${lane.versions[0].start}${
          last === null ? "" : `, freed at step ${last}`
        } · ${plural(lane.reads.length, "read")}`,
      }),
      stale ? el("span", { class: "warn", text: `stale: ${version.source} has changed since` }) : null,
    ].filter(Boolean);
  }
}
