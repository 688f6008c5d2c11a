// The runs of the page, decoded once, and lookups in them.

const STEP = ["frame", "at", "prompt", "read", "written", "output", "turns", "usd", "stop", "ranges", "reply", "facts", "files", "broke"];
const VERSION = ["start", "end", "chars", "content", "description", "source", "again"];
const CHANGE = ["heading", "patch", "added", "removed"];

const named = (names, values) => Object.fromEntries(names.map((name, place) => [name, values[place]]));

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const told = atob(base64);
  const bytes = new Uint8Array(told.length);
  for (let at = 0; at < told.length; at += 1) bytes[at] = told.charCodeAt(at);
  return bytes;
}

async function decoded(base64) {
  const packed = bytesOf(base64);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

export class Run {
  constructor(held, told, place) {
    Object.assign(this, told);
    this.place = place;
    this.texts = held.texts;
    this.parts = held.parts;
    this.letter = held.runs.length > 1 ? "ABCDEF"[place] : "";
    this.rows = told.steps;
    this.lanes = told.lanes.map((lane) => ({ ...lane, versions: lane.versions.map((one) => named(VERSION, one)) }));
    this.laneOf = new Map(this.lanes.map((lane) => [lane.name, lane]));
    this.derive();
  }

  // Computes derived values from the rows.
  derive() {
    this.heap = null;
    this.count = this.rows.length;
    this.priced = this.count > 0 && this.rows.every((row) => row[7] !== null);
    this.depth = this.frames.reduce((most, frame) => Math.max(most, frame.depth), 0);
    this.bounds = this.widths();
    const first = this.count ? this.rows[0][2] : 0;
    this.full = this.rows.map((row) => Math.round(first + row[6] * this.tokens_per_char));
  }

  // Lists the parallel frames in push order, each with its run: { frame, name, run, ending, step }.
  get parallel() {
    const found = new Map();
    const before = this.frame ? this.forked.split(" at record ")[0] : this.id;
    const see = (fact, step) => {
      if (fact[0] === "frames") for (const [frame, name] of fact[1]) found.set(frame, { frame, name, run: `${before}.${frame}`, ending: "", step });
      if (fact[0] === "joined") Object.assign(found.get(fact[1]) ?? {}, { run: fact[2], ending: fact[4] });
    };
    for (const fact of this.before) see(fact, 1);
    this.rows.forEach((row, at) => row[11].forEach((fact) => see(fact, at + 1)));
    return [...found.values()];
  }

  // Adds new data: texts, parts and steps at the end, and additions to the last step and to lanes.
  merge(change) {
    for (const name of ["texts", "parts", "before"]) for (const one of change[name]) this[name].push(one);
    Object.assign(this, change.run);
    const last = this.rows.at(-1);
    if (change.last && last) {
      last[7] = change.last.usd;
      last[11].push(...change.last.facts);
      last[12].push(...change.last.files);
    }
    for (const row of change.steps) this.rows.push(row);
    for (const [at, frame] of change.frames) this.frames[at] = frame;
    for (const [at, numbers] of change.sequences) this.sequences[at] = (this.sequences[at] ?? []).concat(numbers);
    for (const told of change.lanes) this.mergeLane(told);
    this.derive();
  }

  mergeLane({ name, at, versions, reads, stale }) {
    if (!this.laneOf.has(name)) {
      this.laneOf.set(name, { name, versions: [], reads: [], stale: [] });
      this.lanes.push(this.laneOf.get(name));
    }
    const lane = this.laneOf.get(name);
    lane.versions.splice(at[0], Infinity, ...versions.map((one) => named(VERSION, one)));
    lane.reads.splice(at[1], Infinity, ...reads);
    lane.stale.splice(at[2], Infinity, ...stale);
  }

  // Returns where each step starts and ends, according to the meaning of its width.
  widths() {
    const sum = (of) => {
      const bounds = new Float64Array(this.count + 1);
      this.rows.forEach((row, at) => (bounds[at + 1] = bounds[at] + of(row)));
      return bounds;
    };
    return { steps: sum(() => 1), tokens: sum((row) => row[2] + row[5]), cost: sum((row) => row[7] ?? 0) };
  }

  // Returns a step by its number, from 1.
  step(number) {
    const row = { ...named(STEP, this.rows[number - 1]), full: this.full[number - 1] };
    row.files = row.files.map((one) => named(CHANGE, one));
    return row;
  }

  column(name) {
    if (name === "full") return this.full;
    const place = STEP.indexOf(name);
    return this.rows.map((row) => row[place]);
  }

  text(ref) {
    if (typeof ref === "number") return this.texts[ref];
    return ref.map((piece) => (typeof piece === "number" ? this.texts[piece] : this.texts[piece[0]].slice(piece[1], piece[2]))).join("");
  }

  // Decodes a JSON value with its texts; objects become Maps, so that hostile names have no effect.
  value(held) {
    if (Array.isArray(held)) return held.map((inner) => this.value(inner));
    if (held === null || typeof held !== "object") return held;
    if ("t" in held) return this.text(held.t);
    if ("n" in held) return held.n;
    return new Map(held.o.map(([name, inner]) => [this.value(name), this.value(inner)]));
  }

  // Returns the numbers of the parts of a step's prompt, in order.
  promptParts(number) {
    const found = [];
    const ranges = this.rows[number - 1][9];
    for (let at = 0; at < ranges.length; at += 3) {
      const sequence = this.sequences[ranges[at]];
      for (let place = ranges[at + 1]; place < ranges[at + 2]; place += 1) found.push(sequence[place]);
    }
    return found;
  }

  // Counts the parts that the prompt shares with the start of the frame's previous prompt.
  sharedParts(number) {
    const frame = this.rows[number - 1][0];
    let before = number - 1;
    while (before > 0 && this.rows[before - 1][0] !== frame) before -= 1;
    if (before === 0) return 0;
    const now = this.promptParts(number);
    const then = this.promptParts(before);
    let same = 0;
    while (same < then.length && now[same] === then[same]) same += 1;
    return same;
  }

  // Returns the indexes of the frame and its ancestors, root first.
  stackOf(frame) {
    const found = [];
    for (let at = frame; at >= 0; at = this.frames[at].parent) found.unshift(at);
    return found;
  }

  lastOf(frame) {
    return this.frames[frame].last ?? Math.max(this.count, this.frames[frame].first);
  }

  // Returns the heap after a step: its chunks, and those that the step freed.
  heapAt(number) {
    if (this.heap?.number !== number) this.heap = { number, found: this.findHeap(number) };
    return this.heap.found;
  }

  findHeap(number) {
    const found = [];
    for (const lane of this.lanes) {
      const version = lane.versions.findLast((one) => one.start <= number);
      if (!version || (version.end !== null && version.end < number)) continue;
      const freed = version.end === number;
      const stale = !freed && lane.stale.some(([from, to]) => from <= number && (to === null || to > number));
      found.push({ lane, version, freed, stale, read: lane.reads.includes(number), fresh: version.start === number });
    }
    return found;
  }

  get peak() {
    return this.rows.reduce((most, row) => Math.max(most, row[2]), 0);
  }

  get fullPeak() {
    return this.full.reduce((most, tokens) => Math.max(most, tokens), 0);
  }

  get usd() {
    return this.priced ? this.bounds.cost[this.count] : null;
  }
}

export async function load() {
  const element = document.getElementById("held");
  const held = await decoded(element.textContent);
  element.remove();
  return { runs: held.runs.map((run, place) => new Run(held, run, place)), parted: held.parted, links: held.links };
}
