// Named buttons over a drawing, so that keyboards and screen readers can reach what is drawn.

import { el, plain } from "./text.js";
import { SANS } from "./theme.js";

const MOST = 400;
const MIN_PIXELS = 24;

let measure = null;

// Cuts the middle of a long name, because names that start alike differ at their ends.
export function fitName(name, room) {
  const told = plain(name.slice(0, 200));
  measure ??= document.createElement("canvas").getContext("2d");
  measure.font = SANS;
  const width = measure.measureText(told).width;
  if (width <= room) return told;
  const many = Math.floor((room / width) * told.length) - 1;
  if (many < 2) return "";
  return `${told.slice(0, Math.ceil(many / 2))}…${told.slice(told.length - Math.floor(many / 2))}`;
}

export const wideEnough = (box) => box.width >= MIN_PIXELS;

export class Layer {
  // `tell` returns the readable name of a key; `enter` is called when its button is pressed.
  constructor(name, tell, enter) {
    Object.assign(this, { tell, enter, known: new Map() });
    this.element = el("div", { class: "layer", role: "group", "aria-label": name, onkeydown: (event) => this.move(event) });
  }

  // Places a button on each box: { key, name, left, top, width, height, tone }; `free` is the space for its name, if given.
  place(boxes) {
    const shown = boxes.filter(wideEnough).slice(0, MOST);
    const keys = new Set(shown.map(({ key }) => key));
    for (const [key, node] of this.known) {
      if (keys.has(key)) continue;
      node.remove();
      this.known.delete(key);
    }
    for (const box of shown) this.put(box);
    const stops = [...this.known.values()];
    if (stops.length && !stops.some((node) => node.tabIndex === 0)) stops[0].tabIndex = 0;
  }

  put({ key, name, left, top, width, height, tone, free }) {
    let node = this.known.get(key);
    if (!node) {
      node = el("button", { type: "button", tabindex: "-1", onclick: (event) => this.enter(key, event), onfocus: () => this.stopAt(node) }, el("span", { "aria-hidden": "true" }));
      this.known.set(key, node);
      this.element.append(node);
    }
    node.className = `box ${tone}`;
    node.setAttribute("aria-label", this.tell(key));
    Object.assign(node.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
    const [inset, room] = free ?? [0, width];
    node.firstChild.style.marginLeft = `${inset}px`;
    node.firstChild.dataset.name = fitName(name, room - 14); // displayed by the style sheet; the button's accessible name is complete
  }

  // Only one button is a tab stop; the arrow keys reach the others.
  stopAt(node) {
    for (const one of this.known.values()) one.tabIndex = one === node ? 0 : -1;
  }

  move(event) {
    const way = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const keys = [...this.known.keys()].sort((one, other) => one - other);
    const at = keys.findIndex((key) => this.known.get(key) === document.activeElement);
    this.known.get(keys[Math.min(keys.length - 1, Math.max(0, at + way))])?.focus();
  }
}
