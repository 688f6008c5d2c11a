// The prompts of a run under another strategy, estimated from the sizes of its replies and results.

import { kindNumber } from "./sizes.js";

const CHARS_PER_TOKEN = 2.5; // by which strategies estimate tokens
const LIFE_SECONDS = 300; // of a cache entry
const HOUR_SECONDS = 3_600; // of the entry at the beginning of every prompt, except under adaptive
const MINIMUM_TOKENS = 1_024; // shorter prefixes are not cached
const MASK = { keep: 10, poll: 10, line: 75 }; // exchanges, exchanges, characters of the line that replaces a result
const SUMMARY = { keep: 3, replaces: 0.25, most: 8_000, request: 900, share: 0.5 };
export const SUMMARY_TOKENS = 24_000; // of a prompt, at which a summary is due
const FRAME = { header: 80, advice: 45, heading: 50, line: 60, shown: 4_000, call: 150, text: 400 }; // characters; the last two are tokens
const PHASE = { least: 3, most: 15, steps: 999, looked: 0.3, look: 50, risk: 0.03 }; // as the rules of adaptive

// Segments in the order in which they are sent: their kinds, and the characters before each of them.
class Tape {
  constructor() {
    Object.assign(this, { kinds: [], sums: [0] });
  }

  add(kind, chars) {
    this.kinds.push(kind);
    this.sums.push(this.sums.at(-1) + Math.max(0, chars));
  }

  get length() {
    return this.kinds.length;
  }

  get chars() {
    return this.sums.at(-1);
  }

  between(from, to) {
    return this.sums[to] - this.sums[from];
  }
}

const whole = (tape) => [tape, 0, tape.length];
const total = (ranges) => ranges.reduce((sum, [tape, from, to]) => sum + tape.between(from, to), 0);

// Returns for each step the characters of its reply and of what follows until the next one.
function turnsOf(run, sizes) {
  return run.rows.map((row, at) => {
    const all = (run.rows[at + 1]?.[6] ?? row[6]) - row[6];
    const reply = Math.min(row[10].reduce((sum, number) => sum + sizes.chars(number), 0), all);
    const summaries = row[11].reduce((sum, fact) => sum + (fact[0] === "compacted" ? run.text(fact[1]).length : 0), 0);
    const failed = row[11].some((fact) => (fact[0] === "result" && fact[2]) || fact[0] === "rejected");
    return { reply, results: Math.max(0, all - reply - summaries), kind: failed ? kindNumber.failures : kindNumber.results };
  });
}

// Returns the beginning of every prompt: the strategy's tools and system prompt, and the first message as recorded.
function standingOf(run, sizes, name) {
  const tape = new Tape();
  const known = run.standing[name];
  if (known) {
    tape.add(kindNumber.tools, known[0]);
    tape.add(kindNumber.system, known[1]);
  }
  let shared = tape.length;
  for (const [sequence, from, to] of run.count ? sizes.ranges(1) : []) {
    if (sequence === 0 && known) continue;
    for (const number of run.sequences[sequence].slice(from, to)) {
      for (const [kind, chars] of sizes.segments(number)) if (kind !== kindNumber.index || name === "adaptive") tape.add(kind, chars);
      if (sequence === 0 || tape.kinds[shared] === kindNumber.rules) shared = tape.length; // what all frames of the run begin with
    }
  }
  return { tape, segments: shared, shared: tape.sums[shared] };
}

// One conversation of all frames; `cut(at)` returns the ranges of a prompt after the standing part, and what it shares.
function historyOf(turns) {
  const tape = new Tape();
  const ends = turns.map(({ reply, results, kind }) => {
    tape.add(kindNumber.replies, reply);
    tape.add(kind, results);
    return tape.length;
  });
  return { tape, upto: (exchanges) => (exchanges > 0 ? ends[exchanges - 1] : 0) };
}

function full(run, sizes) {
  const standing = standingOf(run, sizes, "full");
  const { tape, upto } = historyOf(turnsOf(run, sizes));
  const prompts = run.rows.map((_, at) => ({ ranges: [whole(standing.tape), [tape, 0, upto(at)]], conversation: 0, shared: standing.tape.chars + tape.sums[upto(at - 1)] }));
  return { prompts, standing: standing.tape.chars, extra: [], hour: true };
}

function mask(run, sizes) {
  const standing = standingOf(run, sizes, "mask");
  const turns = turnsOf(run, sizes);
  const { tape, upto } = historyOf(turns);
  const short = historyOf(turns.map((turn) => ({ ...turn, results: Math.min(turn.results, MASK.line) })));
  let border = 0;
  let before = 0;
  const prompts = run.rows.map((_, at) => {
    const moves = at - border >= MASK.keep + MASK.poll;
    const start = standing.tape.chars + short.tape.sums[short.upto(border)];
    if (moves) border = at - MASK.keep;
    const ranges = [whole(standing.tape), [short.tape, 0, short.upto(border)], [tape, upto(border), upto(at)]];
    const shared = moves ? start : before;
    before = total(ranges);
    return { ranges, conversation: 0, shared };
  });
  return { prompts, standing: standing.tape.chars, extra: [], hour: true };
}

function summary(run, sizes, { tokens }) {
  const standing = standingOf(run, sizes, "summary");
  const { tape, upto } = historyOf(turnsOf(run, sizes));
  const limit = Math.min(tokens, run.window_tokens > 1_000 ? run.window_tokens / 2 : tokens) * CHARS_PER_TOKEN;
  const extra = [];
  let [first, said, before] = [0, new Tape(), 0];
  const prompts = run.rows.map((_, at) => {
    const ranges = () => [whole(standing.tape), whole(said), [tape, upto(first), upto(at)]];
    const replaced = tape.between(upto(first), upto(Math.max(first, at - SUMMARY.keep)));
    let shared = before;
    if (total(ranges()) >= limit && replaced >= limit * SUMMARY.replaces) {
      const chars = Math.min(SUMMARY.most, SUMMARY.share * (replaced + said.chars));
      extra.push({ before: at, ranges: ranges(), more: SUMMARY.request, conversation: 0, shared, output: chars });
      [first, said, shared] = [at - SUMMARY.keep, new Tape(), standing.tape.chars];
      said.add(kindNumber.summaries, chars);
    }
    const now = ranges();
    before = total(now);
    return { ranges: now, conversation: 0, shared };
  });
  return { prompts, standing: standing.tape.chars, extra, hour: true };
}

const indexLine = (name, description) => FRAME.line + name.length + description.length;

// The frames as recorded, each with the heap's index when it starts and the changes of the heap while it runs.
function framed(run, sizes) {
  const standing = standingOf(run, sizes, "adaptive");
  const turns = turnsOf(run, sizes);
  const tapes = new Map();
  const index = new Map(); // of chunks that exist: characters of their lines
  const opened = (number, at) => {
    const tape = new Tape();
    const frame = run.frames[number];
    if (frame.parent >= 0) {
      const own = [frame.intent, frame.returns, frame.constraint, frame.context].reduce((sum, ref) => sum + run.text(ref).length, 0);
      tape.add(kindNumber.rules, FRAME.header + FRAME.advice + own + (run.standing.adaptive?.[3] ?? 0) + frame.verify.length);
      tape.add(kindNumber.index, [...index.values()].reduce((sum, chars) => sum + chars, FRAME.heading));
      tape.add(kindNumber.results, namedChunks(run, frame, index, at));
    }
    return tape;
  };
  const sent = new Map(); // frame to the characters of its last prompt
  const prompts = run.rows.map((row, at) => {
    const [number, { reply, results, kind }] = [row[0], turns[at]];
    if (!tapes.has(number)) tapes.set(number, opened(number, at));
    const tape = tapes.get(number);
    const begins = run.frames[number].parent < 0 ? standing.tape.length : standing.segments;
    const ranges = [[standing.tape, 0, begins], whole(tape)];
    const shared = sent.get(number) ?? standing.shared;
    sent.set(number, total(ranges));
    tape.add(kindNumber.replies, reply);
    const next = run.rows[at + 1]?.[0] ?? number;
    for (const fact of row[11]) if (fact[0] === "heap") news(run, fact, at + 1, index, tape);
    if (!tapes.has(next)) tapes.set(next, opened(next, at + 1));
    tapes.get(next).add(kind, results);
    return { ranges, conversation: number, shared };
  });
  return { prompts, standing: standing.shared, extra: [] };
}

// Counts the characters of the chunks that a push names, which its frame reads in full.
function namedChunks(run, frame, index, at) {
  const said = `${run.text(frame.intent)} ${run.text(frame.context)}`;
  const named = [...index.keys()].filter((name) => said.includes(`'${name}'`));
  return named.reduce((sum, name) => {
    const chars = run.laneOf.get(name)?.versions.findLast((one) => one.start <= at)?.chars ?? 0;
    return sum + chars <= FRAME.shown ? sum + chars : sum;
  }, 0);
}

// Adds a change of the heap to the index, and to the conversation in which it happened.
function news(run, [, change, name], step, index, tape) {
  if (change === "read") return;
  const version = run.laneOf.get(name)?.versions.findLast((one) => one.start <= step);
  const chars = indexLine(name, version ? run.text(version.description) : "");
  tape.add(kindNumber.index, chars + 15);
  if (change === "freed") index.delete(name);
  else index.set(name, chars);
}

// When and in which phases frames pay, by the rules of stackmem/memory/shared/break_even.py.
function advice(rates, growth) {
  const frame = 2 * FRAME.call * (rates.output + rates.write) + rates.write * 2 * FRAME.text;
  const history = growth.reduce((sum, one) => sum + one, 0);
  if (history < 1) return 0;
  const sorted = [...growth].sort((one, other) => one - other).slice(0, Math.ceil((growth.length * 3) / 4));
  const usual = sorted.reduce((sum, one) => sum + one, 0) / sorted.length;
  const phase = Math.max(PHASE.least, Math.min(PHASE.most, Math.round(Math.sqrt((2 * frame) / (rates.read * Math.max(1, usual))))));
  const result = Math.sqrt(growth.reduce((sum, one) => sum + one * one, 0) / growth.length);
  const saved = rates.read * history - PHASE.looked * (rates.output * PHASE.look + rates.write * (PHASE.look + result));
  if (saved <= 0) return 0;
  return Math.ceil(Math.min(PHASE.steps, (frame + 2 * rates.read * history) / saved)) <= phase ? phase : 0;
}

// Returns the first step, from 0, that a flat run would make in a frame, and the steps of a frame; null if none pays.
export function firstPhase(turns, rates) {
  const frame = 2 * FRAME.call * (rates.output + rates.write) + rates.write * 2 * FRAME.text;
  const growth = [];
  let [tokens, cost] = [0, 0];
  for (const [at, { reply, results }] of turns.entries()) {
    const [said, told] = [reply / CHARS_PER_TOKEN, results / CHARS_PER_TOKEN];
    cost += rates.read * tokens + (rates.write + rates.output) * said + rates.write * told;
    tokens += said + told;
    growth.push(said + told);
    const phase = frame <= PHASE.risk * cost ? advice(rates, growth) : 0;
    if (phase) return { first: at + 1, phase };
  }
  return null;
}

// A flat run: one conversation until frames pay, then frames of the advised number of steps.
function phased(run, sizes, rates) {
  const turns = turnsOf(run, sizes);
  const found = firstPhase(turns, rates);
  const standing = standingOf(run, sizes, "adaptive");
  const root = new Tape();
  const extra = [];
  const [call, text] = [FRAME.call / run.tokens_per_char, FRAME.text / run.tokens_per_char];
  let [child, number, rootSent, sent, inFrame] = [null, 0, standing.shared, 0, 0];
  const begins = standing.segments;
  const request = (at, ranges, conversation, shared) => extra.push({ before: at, ranges, more: 0, conversation, shared, output: call });
  const pop = (at) => {
    request(at, [[standing.tape, 0, begins], whole(child)], number, sent);
    root.add(kindNumber.results, text);
    child = null;
  };
  const prompts = run.rows.map((_, at) => {
    if (child && inFrame === found.phase) pop(at);
    if (!child && found && at >= found.first && at < run.count - 2) {
      request(at, [whole(standing.tape), whole(root)], 0, rootSent);
      rootSent = standing.tape.chars + root.chars;
      root.add(kindNumber.replies, call);
      [child, number, inFrame, sent] = [new Tape(), number + 1, 0, standing.shared];
      child.add(kindNumber.rules, text + (run.standing.adaptive?.[3] ?? 0));
    } else if (child && at === run.count - 1) pop(at); // the last step ends the run
    const tape = child ?? root;
    const ranges = [child ? [standing.tape, 0, begins] : whole(standing.tape), whole(tape)];
    const shared = child ? sent : rootSent;
    if (child) [sent, inFrame] = [total(ranges), inFrame + 1];
    else rootSent = total(ranges);
    tape.add(kindNumber.replies, turns[at].reply);
    tape.add(turns[at].kind, turns[at].results);
    return { ranges, conversation: child ? number : 0, shared };
  });
  return { prompts, standing: standing.shared, extra, frames: number };
}

// The prompts as recorded, for other pauses than the recorded ones.
function recorded(run, sizes) {
  const last = new Map();
  const prompts = run.rows.map((row, at) => {
    const ranges = sizes.ranges(at + 1);
    const shared = common(last.get(row[0]) ?? [], ranges, sizes);
    last.set(row[0], ranges);
    return { chars: sizes.total(ranges), tokens: row[2], conversation: row[0], shared, ranges: [] };
  });
  const first = run.count ? sizes.total(sizes.ranges(1).filter(([sequence]) => sequence === 0)) : 0;
  return { prompts, standing: first, extra: [], hour: true };
}

// Counts the characters with which both prompts begin.
function common(before, now, sizes) {
  let chars = 0;
  for (let at = 0; at < Math.min(before.length, now.length); at += 1) {
    const [[one, from, to], [other, start, end]] = [before[at], now[at]];
    if (one !== other || from !== start) break;
    chars += sizes.total([[one, from, Math.min(to, end)]]);
    if (to !== end) break;
  }
  return chars;
}

const PAUSES = { recorded: (row) => row[1], none: () => 0 };

// Serves the requests from a simulated cache: adds to each what it reads and what it writes, in tokens.
function serve(run, { prompts, standing, extra, hour = false }, every) {
  const lastOf = new Map();
  const rate = run.tokens_per_char;
  let any = -Infinity;
  const serveOne = (prompt, at) => {
    const now = PAUSES[every]?.(run.rows[at]) ?? Math.floor(at / every) * 1_000_000;
    const chars = (prompt.chars ?? total(prompt.ranges)) + (prompt.more ?? 0);
    const tokens = prompt.tokens ?? Math.round(chars * rate);
    const lives = (since) => now - since < LIFE_SECONDS;
    const kept = Math.max(lives(lastOf.get(prompt.conversation) ?? -Infinity) ? prompt.shared : 0, now - any < (hour ? HOUR_SECONDS : LIFE_SECONDS) ? Math.min(standing, chars) : 0);
    const found = Math.min(tokens, Math.round((kept / Math.max(1, chars)) * tokens));
    const read = found < MINIMUM_TOKENS ? 0 : found;
    lastOf.set(prompt.conversation, now);
    any = now;
    return { tokens, read, written: tokens < MINIMUM_TOKENS ? 0 : tokens - read, output: prompt.output === undefined ? run.rows[at][5] : prompt.output * rate };
  };
  const more = [];
  let next = 0;
  const rows = prompts.map((prompt, at) => {
    for (; next < extra.length && extra[next].before === at; next += 1) more.push(serveOne(extra[next], at));
    return serveOne(prompt, at);
  });
  return { rows, more };
}

const BUILDERS = { full, mask, summary, recorded };

// One strategy's prompts for the film strip: tokens, tokens read from the cache, and the kinds of what they consist of.
export class Estimate {
  // `rates`: { read, write, output }, relative to an input token; `pauses`: "recorded", "none", or steps between them.
  constructor(run, sizes, name, { rates, pauses, tokens }) {
    Object.assign(this, { run, name, rates });
    const flat = run.frames.length < 2;
    this.built = name === "adaptive" ? (flat ? phased(run, sizes, rates) : framed(run, sizes)) : BUILDERS[name](run, sizes, { tokens });
    const { rows, more } = name === "recorded" && pauses === "recorded" ? { rows: asRecorded(run), more: [] } : serve(run, this.built, pauses);
    Object.assign(this, { rows, more, count: rows.length });
    this.peak = rows.reduce((most, row) => Math.max(most, row.tokens), 0);
  }

  tokens(step) {
    return this.rows[step - 1].tokens;
  }

  read(step) {
    return this.rows[step - 1].read;
  }

  // Returns the kinds at equally spaced places of a prompt, from its start to its end.
  sample(step, places) {
    const kinds = new Uint8Array(places).fill(kindNumber.unknown);
    const { ranges } = this.built.prompts[step - 1];
    const chars = total(ranges);
    let [start, at] = [0, 0];
    for (const [tape, from, to] of ranges) {
      const end = start + tape.between(from, to);
      let place = from;
      for (; at < places && ((at + 0.5) * chars) / places < end; at += 1) {
        const wanted = ((at + 0.5) * chars) / places - start + tape.sums[from];
        place = placeOf(tape.sums, place, to, wanted);
        kinds[at] = tape.kinds[place];
      }
      start = end;
    }
    return kinds;
  }

  // The cost of all requests, in input tokens.
  get cost() {
    const { read, write, output } = this.rates;
    const one = (row) => row.read * read + row.written * write + (row.tokens - row.read - row.written) + row.output * output;
    return this.requests.reduce((sum, row) => sum + one(row), 0);
  }

  // The tokens of all prompts.
  get sent() {
    return this.requests.reduce((sum, row) => sum + row.tokens, 0);
  }

  get requests() {
    return [...this.rows, ...this.more];
  }
}

const asRecorded = (run) => run.rows.map((row) => ({ tokens: row[2], read: row[3], written: row[4], output: row[5] }));

// Returns the place of the segment that contains a character.
function placeOf(sums, from, to, wanted) {
  let [low, high] = [from, to - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sums[middle] <= wanted) low = middle;
    else high = middle - 1;
  }
  return low;
}
