// Assembles the page, and handles the keyboard and the address.

import { el, plain, count } from "./text.js";
import { load } from "./store.js";
import { DARK, forgetColours, switchTheme, isDark } from "./theme.js";
import { hueOf } from "./colors.js";
import { Timeline, ruler, GUTTER, MARGIN } from "./timeline.js";
import { Flame, OUTCOMES } from "./flame.js";
import { HeapLanes } from "./lanes.js";
import { ContextChart, CacheChart } from "./charts.js";
import { Inspector } from "./inspector.js";
import { failureStep } from "./answer.js";
import { Memory } from "./memory.js";
import { spentCard } from "./spent.js";
import { Heads } from "./heads.js";
import { Search } from "./search.js";

const LATER_MILLIS = 60; // until what takes time is measured

class Tooltip {
  constructor() {
    this.element = el("div", { class: "tooltip", hidden: true, "aria-hidden": "true" });
  }

  follow(event, lines) {
    if (!lines.length || event.pointerType === "touch") return this.hide();
    this.element.replaceChildren(...lines);
    this.element.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const left = event.clientX + 16 + width > innerWidth ? event.clientX - width - 12 : event.clientX + 16;
    const top = Math.min(event.clientY + 14, innerHeight - height - 8);
    this.element.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
    return undefined;
  }

  hide() {
    this.element.hidden = true;
  }
}

const key = (colourName, told, shape = "") =>
  el("span", { class: "key" }, el("i", { class: `swatch ${colourName} ${shape}` }), told);

function lane(run, title, keys, ...bodies) {
  return el(
    "section",
    { class: "lane", "aria-label": run.letter ? `${title} of ${run.letter}` : title },
    el("div", { class: "lane-head" }, el("h2", { text: title }), el("div", { class: "keys" }, ...keys)),
    ...bodies,
  );
}

// The lanes of one run, one below the other, with a line at the selected step.
class Board {
  constructor(timeline, run, tooltip) {
    Object.assign(this, { timeline, run, tooltip, parts: [] });
    this.head = el("div", { class: "playhead" });
    this.parting = el("div", { class: "parting", hidden: true }, el("span", { text: this.parted() }));
    this.element = el("div", { class: "board" });
    this.build();
    timeline.on("growth", () => this.build());
    timeline.on("full", () => this.onFull());
    timeline.on("view", () => {
      for (const part of this.parts) part.paint();
      this.mark();
    });
    timeline.on("choice", () => this.mark());
    new ResizeObserver(() => {
      this.width = this.element.clientWidth; // asking for it at every step would lay out the page again
      this.mark();
    }).observe(this.element);
  }

  build() {
    const { timeline, run, tooltip } = this;
    for (const part of this.parts) part.remove?.();
    const scale = ruler(timeline);
    const flame = new Flame(timeline, run, tooltip);
    const context = new ContextChart(timeline, run, tooltip);
    const heap = run.lanes.length ? new HeapLanes(timeline, run, tooltip) : null;
    const cache = run.estimated && !run.simulated ? null : run.count ? new CacheChart(timeline, run, tooltip) : null;
    const used = new Set(run.frames.map((frame) => frame.outcome));
    const outcomes = OUTCOMES.filter(([name]) => used.has(name)).map(([name, told]) => key(name, told));
    if (flame.refused.length) outcomes.push(key("failed", "a call was refused", "refused"));
    const more = run.fullPeak > 0 && run.peak > 0 ? `, at most ${(run.fullPeak / run.peak).toFixed(1)}× this run's peak` : "";
    const fullSwitch = el("button", { type: "button", class: "key switch", "aria-pressed": timeline.showsFull, onclick: () => timeline.showFull(!timeline.showsFull) }, el("i", { class: "swatch full dashed" }), `with full history${more}`);
    this.onFull = () => {
      fullSwitch.setAttribute("aria-pressed", timeline.showsFull);
      context.showFull();
    };
    this.parts = [scale, flame.surface, context, heap?.surface, cache].filter(Boolean);
    this.element.replaceChildren(
      run.letter ? el("h2", { class: "board-name" }, el("b", { text: run.letter }), el("i", { class: `strategy-mark hue-${hueOf(run.strategy)}` }), el("span", { text: `${run.strategy} · ${run.model}` })) : "",
      scale.element,
      lane(run, "Frames", outcomes, flame.surface.element),
      lane(run, "Context", [key("context", "tokens sent"), fullSwitch], context.element),
      heap
        ? lane(
            run,
            "Heap",
            [key("chunk", "chunk"), key("read-mark", "read", "dot"), key("stale", "stale", "hatched")],
            el("div", { class: "scroll", tabindex: run.lanes.length > 9 ? "0" : null }, heap.surface.element),
          )
        : lane(run, "Heap", [el("span", { class: "faint", text: "no chunks were stored" })]),
      cache
        ? lane(run, "Cache", [key("read", "read"), key("written", "written"), key("uncached", "uncached"), key("failed", "a prefix broke", "broke"), run.simulated ? el("span", { text: `simulated for a model that keeps prefixes of ${count(run.simulated)} tokens: this one reports none` }) : ""], cache.element)
        : lane(run, "Cache", [el("span", { class: "faint", text: "not reported by this model" })]),
      this.head,
      this.parting,
    );
  }

  mark() {
    const { timeline, run } = this;
    const width = (this.width ??= this.element.clientWidth);
    const [from, to] = timeline.span(run, timeline.chosen.step, timeline.chosen.step);
    const left = Math.max(GUTTER, timeline.pixel(from, width));
    const right = Math.min(width - MARGIN, timeline.pixel(to, width));
    this.head.hidden = !run.count || timeline.chosen.run !== run.place || right < GUTTER || left > width - MARGIN;
    this.head.style.left = `${left}px`;
    this.head.style.width = `${Math.max(2, right - left)}px`;
    if (timeline.parted === null || timeline.parted.steps === null) return;
    const at = timeline.pixel(run.bounds[timeline.mode][Math.min(run.count, timeline.parted.steps)], width);
    this.parting.hidden = at < GUTTER - 1 || at > width - MARGIN + 1;
    this.parting.style.left = `${at}px`;
    this.parting.classList.toggle("late", at > width / 2);
  }

  parted() {
    const { parted } = this.timeline;
    if (parted === null || parted.steps === null) return "";
    if (parted.forked) return `forked after step ${count(parted.steps)}`;
    return parted.steps ? `the runs diverge after step ${count(parted.steps)}` : "the runs diverge at the start";
  }

  repaint() {
    for (const part of this.parts) (part.repaint ?? part.paint).call(part);
  }
}

const leftOut = (parted) =>
  parted?.differs_only_in ? el("p", { class: "left-out faint", text: `differences that were not compared: ${parted.differs_only_in.join(", ")}` }) : "";

function modes(timeline) {
  const names = timeline.runs.every((run) => run.priced) ? ["steps", "tokens", "cost"] : ["steps", "tokens"];
  const buttons = names.map((name) =>
    el("button", { type: "button", "aria-pressed": name === "steps", onclick: () => timeline.setMode(name), text: name }),
  );
  timeline.on("view", () => buttons.forEach((one, at) => one.setAttribute("aria-pressed", names[at] === timeline.mode)));
  return el("div", { class: "modes", role: "group", "aria-label": "Meaning of a step's width" }, el("span", { class: "faint", text: "width" }), ...buttons);
}

function keyboard(timeline, search, memory) {
  const moves = {
    ArrowRight: () => timeline.choose(timeline.chosen.step + 1),
    ArrowLeft: () => timeline.choose(timeline.chosen.step - 1),
    Home: () => timeline.choose(1),
    End: () => timeline.choose(timeline.run.count),
    Escape: () => timeline.reset(),
    "+": () => timeline.zoomBy(0.5),
    "=": () => timeline.zoomBy(0.5),
    "-": () => timeline.zoomBy(2),
    b: () => timeline.runs.length > 1 && timeline.choose(timeline.chosen.step, (timeline.chosen.run + 1) % timeline.runs.length),
    "/": () => search.field.focus(),
    d: () => memory.diff.toggle(),
    m: () => memory.diff.mark(),
    f: () => memory.followMarked(),
    c: () => memory.lastChange(),
    "[": () => memory.jump(-1),
    "]": () => memory.jump(1),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const sideways = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const move = event.shiftKey && sideways ? () => byFrame(timeline, sideways) : moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  });
}

// Returns the next step at which the running frame changes, or the start of the previous span.
function byFrame(timeline, way) {
  const { run, chosen } = timeline;
  const frame = (step) => run.rows[step - 1]?.[0];
  let step = chosen.step;
  if (way > 0) {
    while (step < run.count && frame(step + 1) === frame(chosen.step)) step += 1;
    step += 1;
  } else {
    step -= 1;
    while (step > 1 && frame(step - 1) === frame(step)) step -= 1;
  }
  timeline.choose(step);
}

// The step at which the page opens: the failure of a failed run, the last step of a running one.
const startOf = ({ run, chosen }) => failureStep(run) || (run.outcome === "running" ? run.count : chosen.step);

function address(timeline) {
  let seen = location.hash;
  const follow = () => {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const run = Number(wanted.get("run") ?? 1) - 1;
    timeline.choose(Number(wanted.get("step") ?? startOf(timeline)), timeline.runs[run] ? run : 0);
  };
  addEventListener("hashchange", () => {
    seen = location.hash;
    if (location.hash !== hashOf(timeline)) follow();
  });
  let waiting;
  timeline.on("choice", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (location.hash !== seen) return; // a link was followed, and its event has not arrived yet
      history.replaceState(null, "", hashOf(timeline));
      seen = location.hash;
    }, 80);
  });
  follow();
}

const hashOf = ({ chosen, runs }) => `#step=${chosen.step}${runs.length > 1 ? `&run=${chosen.run + 1}` : ""}`;

// Shows the page's content and returns the timeline; `more` contains elements that a live page adds.
async function show(more) {
  const { runs, parted, links } = await load();
  for (const run of runs) run.link = (id) => more.link?.(run, id) ?? links[id] ?? "";
  const timeline = new Timeline(runs, parted);
  const tooltip = new Tooltip();
  const boards = runs.map((run) => new Board(timeline, run, tooltip));
  const memory = new Memory(timeline, tooltip);
  const search = new Search(timeline);
  const inspector = new Inspector(timeline);
  const spoken = el("p", { class: "visually-hidden", role: "status", "aria-live": "polite", id: "spoken" });
  const repaint = () => {
    forgetColours();
    for (const board of boards) board.repaint();
    memory.paint();
  };
  const theme = el("button", { type: "button", class: "icon", "aria-label": "Switch between light and dark", text: "◐", onclick: () => (switchTheme(), repaint()) });
  DARK.addEventListener("change", repaint);
  const out = el("button", { type: "button", class: "reset", onclick: () => timeline.reset(), text: "whole run" });
  timeline.on("view", () => (out.disabled = !timeline.zoomed));
  out.disabled = true;
  timeline.on("choice", () => (spoken.textContent = memory.said));
  document.title = `${runs.map((run) => plain(run.task_name || run.id)).join(" and ")} · stackmem`;
  const heads = new Heads(timeline, parted, memory);
  document.body.prepend(
    el("header", { class: "top" }, more.home ?? el("span", { class: "brand", text: "stackmem" }), search.element, theme),
    el(
      "main",
      {},
      heads.element,
      more.actions?.(timeline) ?? "",
      memory.element,
      spentCard(timeline, (run) => memory.sizesOf(run)),
      el(
        "div",
        { class: "work" },
        el(
          "section",
          { class: "card timeline", "aria-label": "Over the steps" },
          el("div", { class: "tools" }, modes(timeline), out),
          ...boards.map((board) => board.element),
          leftOut(parted),
        ),
        inspector.element,
      ),
      el("p", { class: "hints faint" }, "← → step · shift ← → frame · / search · d prompt diff · m compare with this step · f follow the marked text · [ ] its events · c its last change · + − zoom · esc whole run", runs.length > 1 ? " · b other run" : ""),
    ),
    tooltip.element,
    spoken,
  );
  keyboard(timeline, search, memory);
  address(timeline);
  heads.measureLater(LATER_MILLIS);
  performance.mark("ready");
  document.documentElement.dataset.ready = isDark() ? "dark" : "light";
  return { timeline, inspector };
}

export const open = (more = {}) =>
  show(more).catch((error) => {
    document.body.prepend(el("p", { class: "broken", text: `This page cannot be shown: ${error.message}` }));
    throw error;
  });
