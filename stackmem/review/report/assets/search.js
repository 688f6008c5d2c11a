// Searches steps by their replies, results, frames and chunks.

import { el, plain, count, plural } from "./text.js";
import { stepLine } from "./inspector.js";

const MOST = 100;
// Positions of the texts in each kind of event.
const REFS = { result: [1], verify: [1], rejected: [1], notice: [1], compacted: [1], checks: [1], failed: [2], said: [1], answer: [1, 2], tool: [1, 3], halted: [1] };

export class Search {
  constructor(timeline) {
    this.timeline = timeline;
    this.field = el("input", {
      type: "search",
      placeholder: "Search   /",
      "aria-label": "Search replies, results, frames and chunks",
      "aria-controls": "found",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.list = el("ol", { id: "found", class: "found", hidden: true });
    this.status = el("span", { class: "visually-hidden", role: "status" });
    this.element = el("div", { class: "search", role: "search" }, this.field, this.status, this.list);
    let waiting;
    this.field.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => this.look(), 120);
    });
    this.field.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => this.element.contains(event.target) || this.close());
  }

  key(event) {
    event.stopPropagation();
    if (event.key === "Escape") {
      this.close();
      this.field.blur();
    }
    if (event.key === "Enter") {
      event.preventDefault();
      this.look();
      this.list.querySelector("button")?.click();
    }
    if (event.key === "ArrowDown") {
      event.preventDefault();
      this.list.querySelector("button")?.focus();
    }
  }

  close() {
    this.list.hidden = true;
  }

  look() {
    const wanted = this.field.value.trim().toLowerCase();
    this.list.replaceChildren();
    this.list.hidden = !wanted;
    this.status.textContent = "";
    if (!wanted) return;
    let hits = 0;
    for (const run of this.timeline.runs) {
      const holds = this.textsWith(run, wanted);
      for (let number = 1; number <= run.count; number += 1) {
        const where = this.hit(run, number, wanted, holds);
        if (where === null) continue;
        hits += 1;
        if (hits <= MOST) this.list.append(this.entry(run, number, where, wanted));
      }
    }
    const told = hits > MOST ? `${count(hits)} steps; showing the first ${MOST}` : plural(hits, "step");
    this.status.textContent = told;
    this.list.append(el("li", { class: "faint", text: told }));
  }

  // Returns the texts that contain the query; each is searched once, however many prompts show it.
  textsWith(run, wanted) {
    if (this.looked?.wanted === wanted) return this.looked.holds;
    const holds = run.texts.map((text) => text.toLowerCase().includes(wanted));
    this.looked = { wanted, holds };
    return holds;
  }

  // Returns the step's text that contains the query; empty if only a name does; null if nothing does.
  hit(run, number, wanted, holds) {
    const row = run.rows[number - 1];
    for (const part of row[10]) {
      const found = this.inValue(run, run.parts[part], wanted, holds);
      if (found !== null) return found;
    }
    for (const fact of row[11]) {
      for (const place of REFS[fact[0]] ?? []) {
        const ref = fact[place];
        const found = this.inRef(run, ref, holds);
        if (found !== null) return found;
      }
      if (fact[0] === "pushed" && run.frames[fact[1]]?.name.toLowerCase().includes(wanted)) return "";
    }
    return null;
  }

  inRef(run, ref, holds) {
    const pieces = typeof ref === "number" ? [ref] : ref.map((piece) => (typeof piece === "number" ? piece : piece[0]));
    const found = pieces.find((piece) => holds[piece]);
    return found === undefined ? null : run.texts[found];
  }

  inValue(run, value, wanted, holds) {
    if (typeof value === "string") return value.toLowerCase().includes(wanted) ? value : null;
    if (typeof value === "number") return null;
    if (value === null || typeof value !== "object") return null;
    if (!Array.isArray(value)) {
      if ("t" in value) return this.inRef(run, value.t, holds);
      return "o" in value ? this.inValue(run, value.o, wanted, holds) : null;
    }
    if ((value[0] === "t" || value[0] === "k") && value.length < 4) return this.inRef(run, value.at(-1), holds);
    if (value[0] === "m" && value.length === 4 && this.inRef(run, value[2], holds) !== null) return run.text(value[2]);
    for (const inner of value) {
      const found = this.inValue(run, inner, wanted, holds);
      if (found !== null) return found;
    }
    return null;
  }

  entry(run, number, text, wanted) {
    return el(
      "li",
      {},
      el(
        "button",
        {
          type: "button",
          onclick: () => {
            this.timeline.choose(number, run.place);
            this.close();
          },
        },
        el("strong", { text: (run.letter ? `${run.letter} ` : "") + stepLine(run, number) }),
        text ? excerpt(text, wanted) : "",
      ),
    );
  }
}

// Shows the text around the first match, which is marked.
function excerpt(text, wanted) {
  const at = Math.max(0, text.toLowerCase().indexOf(wanted));
  const from = Math.max(0, at - 30);
  const line = (piece) => plain(piece.replace(/\s+/g, " "));
  const end = at + wanted.length;
  const after = line(text.slice(end, end + 110));
  return el("span", {}, (from ? "…" : "") + line(text.slice(from, at)), el("mark", {}, line(text.slice(at, end))), after);
}
