// Charts of context and cache per step, drawn by uPlot on the scale of the other lanes.

import { el, compact, count } from "./text.js";
import { colour, SANS } from "./theme.js";
import { GUTTER, MARGIN } from "./timeline.js";

const AXIS = {
  size: GUTTER,
  gap: 6,
  space: 26,
  font: SANS,
  stroke: () => colour("muted"),
  grid: { stroke: () => colour("grid"), width: 1 },
  ticks: { show: false },
  values: (_, ticks) => ticks.map((tick) => (tick ? compact(tick) : "")),
};

class Chart {
  constructor(timeline, run, tooltip, height, series, columns, name) {
    Object.assign(this, { timeline, run, height, columns });
    this.element = el("div", { class: "chart clickable", role: "img", "aria-label": name });
    this.plot = new uPlot(
      {
        width: 600,
        height,
        padding: [6, MARGIN, 6, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { time: false, auto: false, range: () => timeline.domain },
          y: { range: (_, __, most) => [0, Math.max(10, (this.highest() ?? most) * 1.08)] },
        },
        axes: [{ show: false }, AXIS],
        series: [{}, ...series],
        hooks: { draw: [(plot) => this.over(plot)] },
      },
      this.held(),
      this.element,
    );
    new ResizeObserver(() => this.resize()).observe(this.element);
    this.element.addEventListener("click", (event) => timeline.choose(this.stepOf(event), run.place));
    this.element.addEventListener("pointermove", (event) => tooltip.follow(event, this.lines(this.stepOf(event))));
    this.element.addEventListener("pointerleave", () => tooltip.hide());
  }

  // A value extends from the start of its step to the start of the next one. If several steps share a pixel, it shows
  // their maximum (for the context) or their mean (for the cache).
  held() {
    const { run, timeline } = this;
    const bounds = run.bounds[timeline.mode];
    const first = timeline.stepAt(run, timeline.domain[0]) - 1;
    const last = Math.min(run.count, timeline.stepAt(run, timeline.domain[1]));
    const each = Math.max(1, Math.ceil((last - first) / Math.max(200, this.plot?.width ?? 600)));
    const starts = [];
    for (let at = first; at < last; at += each) starts.push(at);
    const told = this.columns.map((values) => {
      const found = starts.map((at) => this.several(values, at, Math.min(last, at + each)));
      return [...found, found.at(-1) ?? 0];
    });
    return [[...starts.map((at) => bounds[at]), bounds[last]], ...told];
  }

  several(values, from, to) {
    let most = 0;
    for (let at = from; at < to; at += 1) most = Math.max(most, values[at]);
    return most;
  }

  // Compared runs share one height.
  highest() {
    const { runs } = this.timeline;
    return runs.length > 1 ? Math.max(...runs.map((run) => this.mostOf(run))) : null;
  }

  resize() {
    const width = this.element.clientWidth;
    if (!width || width === this.plot.width) return;
    this.plot.setSize({ width, height: this.height });
    this.paint();
  }

  paint() {
    this.plot.setData(this.held(), false);
    this.plot.setScale("x", { min: this.timeline.domain[0], max: this.timeline.domain[1] });
  }

  repaint() {
    this.plot.redraw(false, true);
  }

  remove() {
    this.plot.destroy();
  }

  stepOf(event) {
    const box = this.element.getBoundingClientRect();
    return this.timeline.stepAt(this.run, this.timeline.valueAt(event.clientX - box.left, box.width));
  }

  over() {}
}

const line = (stroke, fill, more = {}) => ({
  stroke: () => (stroke ? colour(stroke) : "transparent"),
  fill: fill ? () => colour(fill) : undefined,
  width: stroke ? 1.6 : 0,
  paths: uPlot.paths.stepped({ align: 1 }),
  points: { show: false },
  pxAlign: 0,
  ...more,
});

export class ContextChart extends Chart {
  constructor(timeline, run, tooltip) {
    super(
      timeline,
      run,
      tooltip,
      96,
      [line("full", null, { dash: [5, 4], width: 1.4, show: timeline.showsFull }), line("context", "context-wash")],
      [run.column("full"), run.column("prompt")],
      `Context of each step: at most ${count(run.peak)} tokens; with the full history it would be ${count(run.fullPeak)}`,
    );
  }

  mostOf(run) {
    return this.timeline.showsFull ? Math.max(run.peak, run.fullPeak) : run.peak;
  }

  showFull() {
    this.plot.setSeries(1, { show: this.timeline.showsFull });
    this.paint();
  }

  lines(step) {
    if (!this.run.count) return [];
    const { prompt, full } = this.run.step(step);
    return [
      el("strong", { text: `step ${step}` }),
      el("span", { text: `context ${count(prompt)} tokens` }),
      el("span", { text: `with full history ${count(full)}${prompt ? ` (${(full / prompt).toFixed(1)}×)` : ""}` }),
    ];
  }
}

export class CacheChart extends Chart {
  constructor(timeline, run, tooltip) {
    const [prompt, read, written] = [run.column("prompt"), run.column("read"), run.column("written")];
    const broken = run.column("broke").filter(Boolean).length;
    const total = (values) => values.reduce((sum, value) => sum + value, 0);
    super(
      timeline,
      run,
      tooltip,
      80,
      [line(null, "uncached"), line(null, "written"), line(null, "read")],
      [prompt, read.map((tokens, at) => tokens + written[at]), read],
      `Cache: ${count(total(read))} tokens read, ${count(total(written))} written; ` +
        (broken === 1 ? "1 prefix broke" : `${count(broken)} prefixes broke`),
    );
  }

  mostOf(run) {
    return run.peak;
  }

  several(values, from, to) {
    let sum = 0;
    for (let at = from; at < to; at += 1) sum += values[at];
    return to > from ? sum / (to - from) : 0;
  }

  // Marks the steps where a prefix broke.
  over(plot) {
    const { ctx: context, bbox } = plot;
    const scale = devicePixelRatio || 1;
    context.save();
    context.fillStyle = colour("failed");
    this.run.column("broke").forEach((why, at) => {
      if (!why) return;
      const bounds = this.run.bounds[this.timeline.mode];
      const x = plot.valToPos((bounds[at] + bounds[at + 1]) / 2, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) return;
      context.beginPath();
      context.moveTo(x - 5 * scale, bbox.top - 4 * scale);
      context.lineTo(x + 5 * scale, bbox.top - 4 * scale);
      context.lineTo(x, bbox.top + 5 * scale);
      context.fill();
    });
    context.restore();
  }

  lines(step) {
    const { prompt, read, written, broke } = this.run.step(step);
    return [
      el("strong", { text: `step ${step}` }),
      el("span", { text: `read ${count(read)} · written ${count(written)} · uncached ${count(prompt - read - written)}` }),
      broke ? el("span", { class: "warn", text: broke }) : null,
    ].filter(Boolean);
  }
}
