// What a prompt consists of: the kind and size of each part, in the order in which a provider reads them.

import { count, preview } from "./text.js";

// Each kind with its name in the style sheet and in the legend.
export const KINDS = [
  ["tools", "tools"],
  ["system", "system prompt"],
  ["rules", "rules and registers"],
  ["index", "heap index"],
  ["requests", "requests and notices"],
  ["summaries", "summaries"],
  ["replies", "replies"],
  ["results", "results"],
  ["failures", "failed results"],
  ["unknown", "prompt, its parts are not known"],
];
export const kindNumber = Object.fromEntries(KINDS.map(([name], at) => [name, at]));

const INDEX = /^HEAP (?:INDEX|CHANGES):.*(?:\n- .*)*/m;
const RULES = /^(?:RUN\n|FRAME '|SUB-AGENT |BRANCH )/;
const SUMMARY = /^(?:SUMMAR(?:Y|IES) |FOLD DUE: )/;

function kindOfText(text) {
  if (RULES.test(text)) return kindNumber.rules;
  return SUMMARY.test(text) ? kindNumber.summaries : kindNumber.requests;
}

// Splits a text into segments [kind, characters]: a heap index is a segment of its own.
export function segmentsOf(text, kind) {
  const found = INDEX.exec(text);
  if (!found) return [[kind, text.length]];
  const before = found.index;
  const after = text.length - before - found[0].length;
  return [[kind, before], [kindNumber.index, found[0].length], [kind, after]].filter(([, chars]) => chars > 0);
}

// Counts the characters of an encoded JSON value without decoding it.
function sizeOf(run, value) {
  if (value === null || typeof value !== "object") return String(value).length + 2;
  if (Array.isArray(value)) return value.reduce((sum, inner) => sum + sizeOf(run, inner) + 1, 2);
  if ("t" in value) return lengthOf(run, value.t) + 2;
  if ("n" in value) return value.n.length;
  return value.o.reduce((sum, [name, inner]) => sum + sizeOf(run, name) + sizeOf(run, inner) + 2, 2);
}

function lengthOf(run, ref) {
  if (typeof ref === "number") return run.texts[ref].length;
  return ref.reduce((sum, piece) => sum + (typeof piece === "number" ? run.texts[piece].length : piece[2] - piece[1]), 0);
}

// The sizes of all prompts of a run, computed when they are first needed.
export class Sizes {
  constructor(run) {
    Object.assign(this, { run, known: [], sums: [], standing: new Map() });
  }

  // Returns the segments of a part.
  segments(number) {
    return (this.known[number] ??= this.measure(this.run.parts[number]));
  }

  measure(part) {
    const { run } = this;
    switch (part[0]) {
      case "s":
        return segmentsOf(run.text(part[1]), kindNumber.system);
      case "d":
        return [[kindNumber.tools, part[1].length + lengthOf(run, part[2]) + lengthOf(run, part[3])]];
      case "t": {
        if (part[1] !== "u") return [[kindNumber.replies, lengthOf(run, part[2])]];
        const text = run.text(part[2]);
        return segmentsOf(text, kindOfText(text));
      }
      case "r":
        return [[part[2] ? kindNumber.failures : kindNumber.results, lengthOf(run, part[1])]];
      case "c":
        return [[kindNumber.replies, part[1].length + sizeOf(run, part[2])]];
      default:
        return [[kindNumber.replies, lengthOf(run, part[0] === "m" ? part[2] : part[1])]];
    }
  }

  chars(number) {
    return this.segments(number).reduce((sum, [, chars]) => sum + chars, 0);
  }

  // Returns the characters before each position of a sequence, extended as the sequence grows.
  sumsOf(sequence) {
    const sums = (this.sums[sequence] ??= [0]);
    const numbers = this.run.sequences[sequence];
    for (let at = sums.length - 1; at < numbers.length; at += 1) sums.push(sums[at] + this.chars(numbers[at]));
    return sums;
  }

  // Returns the kinds that occur in the run.
  kinds() {
    const found = new Set();
    this.run.sequences.forEach((numbers) => numbers.forEach((number) => this.segments(number).forEach(([kind]) => found.add(kind))));
    if (this.run.rows.some((row) => !row[9].length)) found.add(kindNumber.unknown);
    return found;
  }

  // Returns a prompt as ranges [sequence, from, to], its tools first.
  ranges(step) {
    const flat = this.run.rows[step - 1][9];
    const [tools, rest] = [[], []];
    for (let at = 0; at < flat.length; at += 3) {
      const [sequence, from, to] = [flat[at], flat[at + 1], flat[at + 2]];
      if (sequence !== 0) rest.push([sequence, from, to]);
      else for (const range of this.split(from, to)) (this.isTool(range[1]) ? tools : rest).push(range);
    }
    return [...tools, ...rest];
  }

  isTool(place) {
    return this.run.parts[this.run.sequences[0][place]][0] === "d";
  }

  // Splits a range of sequence 0 into ranges of tools and of other parts.
  split(from, to) {
    const key = `${from} ${to}`;
    if (!this.standing.has(key)) {
      const found = [];
      for (let at = from; at < to; at += 1) {
        const last = found.at(-1);
        if (last && this.isTool(last[1]) === this.isTool(at)) last[2] = at + 1;
        else found.push([0, at, at + 1]);
      }
      this.standing.set(key, found);
    }
    return this.standing.get(key);
  }

  total(ranges) {
    return ranges.reduce((sum, [sequence, from, to]) => sum + this.sumsOf(sequence)[to] - this.sumsOf(sequence)[from], 0);
  }

  // Returns the kinds at equally spaced places of a prompt, from its start to its end.
  sample(step, places) {
    const ranges = this.ranges(step);
    const total = this.total(ranges);
    const kinds = new Uint8Array(places).fill(kindNumber.unknown);
    let [start, at] = [0, 0];
    for (const [sequence, from, to] of total ? ranges : []) {
      const sums = this.sumsOf(sequence);
      const end = start + sums[to] - sums[from];
      for (; at < places && ((at + 0.5) * total) / places < end; at += 1) {
        const wanted = ((at + 0.5) * total) / places - start + sums[from];
        kinds[at] = this.kindIn(this.run.sequences[sequence], sums, from, to, wanted);
      }
      start = end;
    }
    return kinds;
  }

  // Returns the kind of the segment that contains a character of a sequence.
  kindIn(numbers, sums, from, to, wanted) {
    let [low, high] = [from, to - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (sums[middle] <= wanted) low = middle;
      else high = middle - 1;
    }
    let left = wanted - sums[low];
    for (const [kind, chars] of this.segments(numbers[low])) {
      if (left < chars) return kind;
      left -= chars;
    }
    return this.segments(numbers[low])[0]?.[0] ?? kindNumber.unknown;
  }

  // Returns the cells of a prompt, each of `size` tokens: { kind, part, paid }. A cell shows the segment with most of it.
  cells(step, size) {
    const row = this.run.rows[step - 1];
    const ranges = this.ranges(step);
    const total = this.total(ranges);
    const many = Math.ceil(row[2] / size);
    const cells = Array.from({ length: many }, (_, at) => ({ kind: kindNumber.unknown, part: -1, paid: (at + 0.5) * size > row[3], most: 0 }));
    if (!total) return cells;
    this.fill(cells, ranges, row[2] / total / size);
    return cells;
  }

  fill(cells, ranges, rate) {
    let start = 0;
    for (const [sequence, from, to] of ranges) {
      const numbers = this.run.sequences[sequence];
      for (let place = from; place < to; place += 1) {
        for (const [kind, chars] of this.segments(numbers[place])) {
          const end = start + chars * rate;
          for (let at = Math.floor(start); at < end && at < cells.length; at += 1) {
            const share = Math.min(end, at + 1) - Math.max(start, at);
            if (share > cells[at].most) Object.assign(cells[at], { kind, part: numbers[place], most: share });
          }
          start = end;
        }
      }
    }
  }

  // Returns the parts that the previous prompt had and this one does not, as [part, ...].
  dropped(step) {
    if (step < 2) return [];
    const kept = this.ranges(step);
    const left = this.ranges(step - 1).flatMap((range) => without(range, kept));
    if (!left.length) return [];
    const now = new Set(kept.flatMap(([sequence, from, to]) => this.run.sequences[sequence].slice(from, to)));
    return left.flatMap(([sequence, from, to]) => this.run.sequences[sequence].slice(from, to)).filter((part) => !now.has(part));
  }

  // Counts the parts that the previous prompt did not have.
  added(step) {
    if (step < 2) return this.run.promptParts(step).length;
    const before = this.ranges(step - 1);
    const left = this.ranges(step).flatMap((range) => without(range, before));
    if (!left.length) return 0;
    const then = new Set(before.flatMap(([sequence, from, to]) => this.run.sequences[sequence].slice(from, to)));
    return left.flatMap(([sequence, from, to]) => this.run.sequences[sequence].slice(from, to)).filter((part) => !then.has(part)).length;
  }
}

// Returns what is left of a range after removing others.
function without(range, others) {
  let left = [range];
  for (const [sequence, from, to] of others) {
    if (sequence !== range[0]) continue;
    left = left.flatMap(([, start, end]) => [[sequence, start, Math.min(end, from)], [sequence, Math.max(start, to), end]].filter(([, a, b]) => b > a));
  }
  return left;
}

// Returns a number of tokens per cell that is easy to read and needs at most `many` cells.
export function cellSize(peak, many) {
  const rough = Math.max(1, peak / many);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((one) => one * power).find((one) => one >= rough && Number.isInteger(one)) ?? Math.ceil(rough);
}

export const partLine = (told) => `${told.title}, ${count(told.chars)} characters: ${preview(told.preview, 90)}`;
