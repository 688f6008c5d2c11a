// The memory picture: at one step the stack, the prompt and the heap, and below them every prompt of the run.

import { el, keepPlace, plain, preview, count, plural, block } from "./text.js";
import { forgetColours } from "./theme.js";
import { Sizes, KINDS } from "./sizes.js";
import { Field } from "./field.js";
import { Film, SentPrompts, share } from "./film.js";
import { OtherStrategy } from "./other.js";
import { PromptDiff } from "./promptdiff.js";
import { describe } from "./parts.js";
import { stepLine } from "./inspector.js";
import { isOver } from "./answer.js";
import { lifeOfPart, lifeOfText, lifeOfChunk, lifeOfFrame, lifeOfFile, lifeOfRegister, registerOf, pathOf, textOf } from "./life.js";

const CHUNKS = 120; // drawn at once
const TALLEST = 220; // pixels of a chunk that fills the heap
const EVENTS = 40;
const SHORTEST = 20; // characters of a text that is followed beyond its part
const FASTEST = 30; // steps per second
const PLAY_SECONDS = 12;

export class Memory {
  constructor(timeline, tooltip) {
    Object.assign(this, { timeline, sizes: new Map(), selected: null, playing: 0 });
    this.field = new Field(timeline, (run) => this.sizesOf(run), tooltip, (part) => this.selectPart(part));
    this.films = timeline.runs.map((run) => new Film(timeline, run, new SentPrompts(run, this.sizesOf(run)), tooltip));
    this.other = new OtherStrategy(timeline, (run) => this.sizesOf(run), tooltip, () => this.paintFilms());
    this.diff = new PromptDiff(timeline, (run) => this.sizesOf(run), () => this.films.forEach((film) => film.mark()));
    this.stack = el("div", { class: "boxes" });
    this.heap = el("div", { class: "blocks" });
    this.heapHead = el("span", { class: "faint" });
    this.promptHead = el("span", {});
    this.title = el("h2", {});
    this.line = el("p", { class: "now" });
    this.keys = el("div", { class: "keys legend" });
    this.since = el("p", { class: "since faint" });
    this.detail = el("div", { class: "selection", hidden: true });
    this.element = el(
      "section",
      { class: "card memory", "aria-label": "Memory" },
      el("header", {}, this.move(-1, "Step back", "‹"), this.title, this.move(1, "Step forward", "›"), this.line),
      el(
        "div",
        { class: "memory-columns" },
        el("section", { "aria-label": "Frames on the stack" }, el("h3", { text: "Stack" }), this.stack),
        el("section", { "aria-label": "Prompt of this step" }, el("h3", {}, "Prompt ", this.promptHead), this.field.element, this.keys, this.since),
        el("section", { "aria-label": "Heap at this step" }, el("h3", {}, "Heap ", this.heapHead), this.heap),
      ),
      this.controls(),
      ...this.films.map((film) => film.element),
      this.other.element,
      this.diff.element,
      this.detail,
    );
    this.legend();
    timeline.on("choice", () => this.show());
    timeline.on("growth", () => this.grow());
    timeline.on("follow", () => this.selectFollowed(timeline.followed));
    addEventListener("beforeprint", () => this.paint());
    addEventListener("afterprint", () => this.paint());
  }

  sizesOf(run) {
    if (!this.sizes.has(run)) this.sizes.set(run, new Sizes(run));
    return this.sizes.get(run);
  }

  move(by, name, sign) {
    return el("button", { type: "button", class: "move", "aria-label": name, onclick: () => this.timeline.choose(this.timeline.chosen.step + by), text: sign });
  }

  // Names the kinds that occur in the run.
  legend() {
    const used = new Set(this.timeline.runs.flatMap((run) => [...this.sizesOf(run).kinds()]));
    const keys = KINDS.filter((_, kind) => used.has(kind)).map(([name, told]) => el("span", { class: "key" }, el("i", { class: `swatch kind-${name}` }), told));
    const states = [["", "from the cache"], ["paid", "paid in full"], ["gone", "only in the last prompt"]];
    this.keys.replaceChildren(...keys, ...states.map(([name, told]) => el("span", { class: "key" }, el("i", { class: `swatch cell ${name}` }), told)));
  }

  controls() {
    this.slider = el("input", { type: "range", min: "1", "aria-label": "Step", oninput: () => this.timeline.choose(Number(this.slider.value)) });
    this.back = el("button", { type: "button", onclick: () => this.play(-1), text: "◀ back" });
    this.forth = el("button", { type: "button", onclick: () => this.play(1), text: "▶ play" });
    this.previous = el("button", { type: "button", title: "The previous step at which the selection changed", onclick: () => this.jump(-1), text: "⇤ previous change" });
    this.next = el("button", { type: "button", title: "The next step at which the selection changes", onclick: () => this.jump(1), text: "next change ⇥" });
    const compare = el("button", { type: "button", title: "What this prompt has and another does not", onclick: () => this.diff.toggle(), text: "prompt diff" });
    return el("div", { class: "controls" }, this.back, this.forth, this.slider, this.previous, this.next, compare);
  }

  show() {
    const { run, chosen } = this.timeline;
    this.title.textContent = run.count ? `${run.letter ? `${run.letter} · ` : ""}Memory at step ${count(chosen.step)} of ${count(run.count)}` : "Memory";
    this.slider.max = String(Math.max(1, run.count));
    this.slider.value = String(chosen.step);
    this.said = run.count ? this.sentence() : ""; // for screen readers
    this.slider.setAttribute("aria-valuetext", this.said || "no steps");
    this.line.textContent = run.count ? plain(stepLine(run, chosen.step)) : "This run has no steps yet.";
    keepPlace(this.element, () => {
      this.stack.replaceChildren(...(run.count ? this.frames(run, chosen.step) : []));
      this.heap.replaceChildren(...this.chunks(run, chosen.step));
    });
    this.prompt(run, chosen.step);
    this.field.show();
    for (const film of this.films) film.mark();
    this.nowSelected();
  }

  prompt(run, step) {
    if (!run.count) return;
    const row = run.rows[step - 1];
    const unit = run.estimated ? " (estimated)" : "";
    const cached = run.estimated && !run.simulated ? "cache not reported" : `${share(row)} from the cache${run.simulated ? " (simulated)" : ""}`;
    this.promptHead.replaceChildren(el("strong", { text: count(row[2]) }), ` tokens${unit} · ${cached}`);
    const dropped = this.sizesOf(run).dropped(step);
    const known = run.unrendered ? ` ${run.unrendered}.` : "";
    const since = step > 1 && row[9].length ? `Since the last prompt: ${plural(this.sizesOf(run).added(step), "new part")}, ${plural(dropped.length, "part")} dropped.` : "";
    const broke = row[13] ? ` Cache: ${row[13]}.` : "";
    this.since.textContent = `One cell is ${plural(this.field.size, "token")}. ${since}${broke}${known}`;
  }

  // Describes the step's memory in one sentence.
  sentence() {
    const { run, chosen } = this.timeline;
    const row = run.rows[chosen.step - 1];
    const chunks = run.heapAt(chosen.step).filter((one) => !one.freed);
    const stale = chunks.filter((one) => one.stale).length;
    const stack = run.stackOf(row[0]).map((at) => run.frames[at].name).join(", ");
    return plain(`${stepLine(run, chosen.step)}. Prompt of ${count(row[2])} tokens, ${share(row)} from the cache. Stack: ${stack}. Heap: ${plural(chunks.length, "chunk")}${stale ? `, ${stale} STALE` : ""}.`);
  }

  frames(run, step) {
    const stack = run.stackOf(run.rows[step - 1][0]).reverse();
    return stack.map((number, at) => {
      const frame = run.frames[number];
      const ended = isOver(run) && step === run.count;
      const state = at === 0 ? (ended ? "ran last" : "running") : `waits for ${run.frames[stack[at - 1]].name}`;
      return el(
        "button",
        { type: "button", class: `frame-box${at ? "" : " running"}`, "aria-pressed": this.isSelected("frame", number), "data-key": `frame ${number}`, onclick: () => this.select(run, "frame", number, () => lifeOfFrame(run, number)) },
        el("strong", { text: frame.name }),
        el("span", { class: "waits", text: state }),
        el("span", { class: "asked", text: preview(run.text(frame.intent).replace(/^#+\s*/, ""), 150) }),
      );
    });
  }

  chunks(run, step) {
    const found = run.heapAt(step);
    const used = found.reduce((sum, one) => sum + (one.freed ? 0 : one.version.chars), 0);
    this.heapHead.textContent = `${count(used)} of ${count(run.heap_chars)} characters`;
    if (!found.length) return [el("p", { class: "faint", text: "No chunks." })];
    const whole = Math.max(run.heap_chars, used, 1);
    const blocks = found.slice(-CHUNKS).map((one) => this.chunk(run, one, whole));
    if (found.length > CHUNKS) blocks.unshift(el("p", { class: "faint", text: `${count(found.length - CHUNKS)} older chunks are not drawn.` }));
    return blocks;
  }

  chunk(run, { lane, version, freed, stale, read, fresh }, whole) {
    const marks = [fresh && (version.again ? "rewritten" : "stored"), read && "read", stale && "STALE", freed && "freed"].filter(Boolean);
    const names = [fresh && "fresh", read && "read", stale && "stale", freed && "freed"].filter(Boolean).join(" ");
    const block = el(
      "button",
      { type: "button", class: `chunk-block ${names}`, "aria-pressed": this.isSelected("chunk", lane.name), "data-key": `chunk ${lane.name}`, onclick: () => this.select(run, "chunk", lane.name, () => lifeOfChunk(run, lane)) },
      el("code", { text: lane.name }),
      el("span", { text: count(version.chars) }),
      ...marks.map((mark) => el("em", { text: mark })),
    );
    block.style.minHeight = `${24 + Math.round((TALLEST * version.chars) / whole)}px`;
    return block;
  }

  isSelected(kind, key) {
    return this.selected?.kind === kind && this.selected.key === key && this.selected.run === this.timeline.run;
  }

  selectPart(number) {
    const { run } = this.timeline;
    const text = textOf(run, number);
    this.select(run, "part", number, () => (text.length < SHORTEST ? lifeOfPart(run, number) : lifeOfText(run, text)));
  }

  selectText(text) {
    const { run } = this.timeline;
    this.select(run, "text", text, () => lifeOfText(run, text));
  }

  selectFollowed({ kind, key }) {
    const { run } = this.timeline;
    if (kind === "text") this.selectText(key);
    else if (kind === "register") this.select(run, kind, key, () => lifeOfRegister(run, key));
    else this.select(run, kind, pathOf(key), () => lifeOfFile(run, pathOf(key)));
  }

  // Follows the text that the reader has marked anywhere on the page.
  followMarked() {
    const marked = String(getSelection()).trim();
    if (marked) this.selectText(marked);
  }

  // `live` computes the life of the selection, again whenever the run has grown.
  select(run, kind, key, live) {
    if (this.isSelected(kind, key)) return this.clear();
    this.selected = { run, kind, key, live, life: live() };
    this.follow();
    this.detail.scrollIntoView({ block: "nearest" });
    return undefined;
  }

  clear() {
    this.selected = null;
    this.follow();
  }

  follow() {
    const life = this.selected?.life ?? null;
    this.field.highlight(life?.parts ?? new Set());
    for (const film of this.films) film.follow(this.selected?.run === film.run ? life : null);
    this.detail.hidden = life === null;
    if (life) this.detail.replaceChildren(...this.selection());
    this.show();
  }

  selection() {
    const { run, kind, key, life } = this.selected;
    const events = life.events.slice(0, EVENTS).map(({ step, text }) =>
      el("li", {}, el("button", { type: "button", "data-step": String(step), onclick: () => this.timeline.choose(step, run.place) }, el("strong", { text: `step ${count(step)}` }), ` ${text}`)),
    );
    if (life.events.length > EVENTS) events.push(el("li", { class: "faint", text: `and ${count(life.events.length - EVENTS)} more` }));
    const [name, text] = this.named(run, kind, key);
    this.body = el("div", {}, block(text));
    this.bodyText = text;
    this.runBack = el("button", { type: "button", class: "more", title: "The step that last changed it (c)", onclick: () => this.lastChange(), text: "run back to its last change" });
    return [
      el("header", {}, el("h3", { text: name }), el("span", { class: "faint", text: life.events.length ? plural(life.events.length, "event") : "It never changes." }), this.runBack, el("button", { type: "button", class: "close", "aria-label": "Close the selection", onclick: () => this.clear(), text: "×" })),
      el("ol", { class: "life", "aria-label": "Its life" }, ...events),
      this.followable(this.body),
    ];
  }

  // Adds a button that follows the text which the reader has marked.
  followable(node) {
    const button = el("button", { type: "button", class: "more", disabled: true, text: "follow the marked text" });
    const marked = () => String(getSelection()).trim();
    node.addEventListener("mouseup", () => (button.disabled = !marked()));
    button.addEventListener("mousedown", (event) => event.preventDefault()); // keeps the text marked
    button.addEventListener("click", () => marked() && this.selectText(marked()));
    const field = el("input", { type: "search", "aria-label": "Follow a text", placeholder: "or type a text to follow" });
    field.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter" && field.value.trim()) this.selectText(field.value.trim());
    });
    return el("div", { class: "followed" }, node, el("div", { class: "follow" }, button, field));
  }

  named(run, kind, key) {
    if (kind === "frame") return [`Frame ${run.frames[key].name}`, run.text(run.frames[key].intent)];
    if (kind === "chunk") {
      const version = run.laneOf.get(key).versions.findLast((one) => one.start <= this.timeline.chosen.step) ?? run.laneOf.get(key).versions[0];
      return [`Chunk ${key}`, run.text(version.content)];
    }
    if (kind === "file") return [`File ${key}`, this.patchOf(run, key)];
    if (kind === "register") return [`Register ${key}`, registerOf(run, run.frames[run.rows[this.timeline.chosen.step - 1][0]], key) || "(no value)"];
    if (kind === "text") return [`Text “${preview(key, 60)}”`, key];
    return [describe(run, key).title, textOf(run, key)];
  }

  // Returns the last change of a file up to the selected step.
  patchOf(run, path) {
    const changes = run.rows.slice(0, this.timeline.chosen.step).flatMap((row) => row[12]);
    const last = changes.findLast((one) => pathOf(one[0]) === path);
    return last ? last[1] || `${path}: no lines changed` : `${path} has not changed up to this step.`;
  }

  nowSelected() {
    const own = this.selected?.run === this.timeline.run;
    const text = own && this.body ? this.named(this.selected.run, this.selected.kind, this.selected.key)[1] : this.bodyText;
    if (text !== this.bodyText) this.body.replaceChildren(block(text));
    this.bodyText = text;
    if (this.runBack) this.runBack.disabled = this.lastChanged() === undefined;
    const events = this.selected?.run === this.timeline.run ? this.selected.life.events : [];
    const { step } = this.timeline.chosen;
    this.previous.disabled = !events.some((one) => one.step < step && one.step > 0);
    this.next.disabled = !events.some((one) => one.step > step);
    for (const node of this.detail.querySelectorAll("[data-step]")) node.toggleAttribute("aria-current", Number(node.dataset.step) === step);
  }

  // Returns the last step before the selected one at which the selection changed.
  lastChanged() {
    const { step } = this.timeline.chosen;
    const events = this.selected?.run === this.timeline.run ? this.selected.life.events : [];
    return events.findLast((one) => one.change && one.step > 0 && one.step < step)?.step;
  }

  lastChange() {
    const step = this.lastChanged();
    if (step !== undefined) this.timeline.choose(step);
  }

  // Goes to the previous or next event of the selection.
  jump(way) {
    if (!this.selected) return;
    const { step } = this.timeline.chosen;
    const steps = this.selected.life.events.map((one) => one.step).filter((one) => one > 0);
    const to = way > 0 ? steps.find((one) => one > step) : steps.findLast((one) => one < step);
    if (to !== undefined) this.timeline.choose(to);
  }

  // Plays the run forward or backward; a second press stops.
  play(way) {
    const stop = this.playing === way;
    clearInterval(this.timer);
    this.playing = stop ? 0 : way;
    const { run } = this.timeline;
    if (!stop) {
      const wanted = run.count / PLAY_SECONDS;
      const each = Math.max(1, Math.round(wanted / FASTEST));
      this.timer = setInterval(() => this.tick(each * way), 1000 / Math.min(FASTEST, Math.max(3, wanted / each)));
      if (way > 0 && this.timeline.chosen.step === run.count) this.timeline.choose(1);
    }
    this.back.textContent = this.playing < 0 ? "❚❚ pause" : "◀ back";
    this.forth.textContent = this.playing > 0 ? "❚❚ pause" : "▶ play";
  }

  tick(by) {
    const before = this.timeline.chosen.step;
    this.timeline.choose(before + by);
    if (this.timeline.chosen.step === before) this.play(this.playing);
  }

  grow() {
    this.field.scale();
    this.legend();
    this.paintFilms();
    if (this.selected) this.selected.life = this.selected.live();
    if (this.selected) this.follow();
    else this.show();
  }

  paint() {
    forgetColours();
    this.field.surface.paint();
    this.paintFilms();
    this.other.film?.paint();
  }

  paintFilms() {
    for (const film of this.films) film.paint();
  }
}
