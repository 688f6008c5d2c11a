// Draws the prompt of a step as a field of cells, each with the color of its kind.

import { el, count, plain, preview } from "./text.js";
import { colour } from "./theme.js";
import { Surface } from "./timeline.js";
import { KINDS, cellSize, partLine } from "./sizes.js";
import { describe } from "./parts.js";

const PITCH = 17;
const CELL = 15;
const MANY = 280; // cells of the largest prompt

export class Field {
  // `sizesOf` returns the sizes of a run; `pick` is called with the number of a part.
  constructor(timeline, sizesOf, tooltip, pick) {
    Object.assign(this, { timeline, sizesOf, pick, cells: [], gone: [], parts: [], at: -1, picked: new Set() });
    this.surface = new Surface(timeline, "", (context, width) => this.draw(context, width));
    const { canvas, element } = this.surface;
    canvas.removeAttribute("role");
    canvas.removeAttribute("aria-label");
    canvas.setAttribute("aria-hidden", "true");
    this.element = element;
    element.classList.add("field");
    for (const [name, value] of [["role", "slider"], ["tabindex", "0"], ["aria-label", "Parts of the prompt"], ["aria-valuemin", "1"]]) element.setAttribute(name, value);
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("blur", () => this.focus(-1));
    element.addEventListener("click", (event) => {
      const cell = this.under(event);
      if (cell && cell.part >= 0) pick(cell.part);
    });
    element.addEventListener("pointermove", (event) => tooltip.follow(event, this.lines(this.under(event))));
    element.addEventListener("pointerleave", () => tooltip.hide());
    this.scale();
    new ResizeObserver(() => this.fit()).observe(element);
  }

  get columns() {
    return Math.max(1, Math.floor((this.surface.width + PITCH - CELL) / PITCH));
  }

  // The size of a cell is the same for all steps of all runs of the page.
  scale() {
    this.peak = Math.max(1, ...this.timeline.runs.map((run) => run.peak));
    this.size = cellSize(this.peak, MANY);
  }

  fit() {
    const most = Math.ceil(this.peak / this.size);
    const height = (Math.ceil(most / this.columns) + 1) * PITCH;
    if (height === this.surface.height) return;
    this.surface.height = height;
    this.surface.paint();
  }

  show() {
    const { run, chosen } = this.timeline;
    this.cells = run.count ? this.sizesOf(run).cells(chosen.step, this.size) : [];
    this.gone = run.count ? this.goneCells(run, chosen.step) : [];
    this.parts = [...new Set(this.cells.map((cell) => cell.part).filter((part) => part >= 0))];
    this.at = Math.min(this.at, this.parts.length - 1);
    this.fit();
    this.surface.paint();
    this.tell();
  }

  // Returns the cells of what the previous prompt had and this one does not.
  goneCells(run, step) {
    const sizes = this.sizesOf(run);
    const dropped = sizes.dropped(step);
    if (!dropped.length) return [];
    const rate = run.rows[step - 2][2] / Math.max(1, sizes.total(sizes.ranges(step - 1))) / this.size;
    const cells = [];
    let end = 0;
    for (const part of dropped) {
      for (const [kind, chars] of sizes.segments(part)) {
        end += chars * rate;
        while (cells.length < Math.round(end)) cells.push({ kind, part, gone: true });
      }
    }
    return cells;
  }

  highlight(parts) {
    this.picked = parts;
    this.surface.paint();
  }

  draw(context) {
    const { columns } = this;
    const room = columns * Math.floor(this.surface.height / PITCH);
    const current = this.parts[this.at];
    context.lineWidth = 1;
    const colours = KINDS.map(([name]) => colour(`kind-${name}`));
    for (const [at, cell] of [...this.cells, ...this.gone].slice(0, room).entries()) {
      const [x, y] = [(at % columns) * PITCH, Math.floor(at / columns) * PITCH];
      this.cell(context, x, y, colours[cell.kind], cell);
      if (!this.picked.has(cell.part) && cell.part !== current) continue;
      context.setLineDash([]);
      context.strokeStyle = colour("ink");
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, CELL, CELL);
      context.lineWidth = 1;
    }
  }

  cell(context, x, y, tone, { gone, paid }) {
    context.fillStyle = context.strokeStyle = tone;
    if (!gone) {
      context.globalAlpha = paid ? 0.3 : 1;
      context.beginPath();
      context.roundRect(x, y, CELL, CELL, 2.5);
      context.fill();
    }
    context.globalAlpha = gone ? 0.75 : 1;
    if (gone || paid) {
      context.setLineDash(gone ? [2, 2] : []);
      context.strokeRect(x + 0.5, y + 0.5, CELL - 1, CELL - 1);
    }
    context.globalAlpha = 1;
  }

  under(event) {
    const box = this.surface.canvas.getBoundingClientRect();
    const [column, row] = [Math.floor((event.clientX - box.left) / PITCH), Math.floor((event.clientY - box.top) / PITCH)];
    if (column < 0 || column >= this.columns || row < 0) return undefined;
    return [...this.cells, ...this.gone][row * this.columns + column];
  }

  lines(cell) {
    if (!cell) return [];
    const state = cell.gone ? "in the last prompt, not in this one" : cell.paid ? "paid in full" : "from the cache";
    const told = cell.part >= 0 ? describe(this.timeline.run, cell.part) : null;
    return [
      el("strong", { text: told ? told.title : "prompt" }),
      el("span", { text: `${KINDS[cell.kind][1]} · ${state}${told ? ` · ${count(told.chars)} characters` : ""}` }),
      told ? el("span", { class: "faint", text: plain(preview(told.preview, 200)) }) : null,
    ].filter(Boolean);
  }

  // The arrow keys move between the parts of the prompt, Enter selects one.
  key(event) {
    const most = this.parts.length - 1;
    const to = { ArrowRight: this.at + 1, ArrowDown: this.at + 1, ArrowLeft: this.at - 1, ArrowUp: this.at - 1, Home: 0, End: most }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.key === "Enter" && this.at >= 0) this.pick(this.parts[this.at]);
    else if (to === undefined) return;
    else this.focus(Math.min(most, Math.max(0, to)));
    event.preventDefault();
    event.stopPropagation();
  }

  focus(at) {
    if (at === this.at) return;
    this.at = at;
    this.surface.paint();
    this.tell();
  }

  tell() {
    const { element, parts, at } = this;
    element.setAttribute("aria-valuemax", String(Math.max(1, parts.length)));
    element.setAttribute("aria-valuenow", String(Math.max(1, at + 1)));
    const text = at < 0 ? `${count(parts.length)} parts; arrow keys move between them` : plain(partLine(describe(this.timeline.run, parts[at])));
    element.setAttribute("aria-valuetext", text);
  }
}
