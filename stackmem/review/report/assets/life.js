// The life of a text, a chunk, a frame, a register or a file: at which steps the model sees it, and at which it changes.

const REFS = { result: [1], verify: [1], rejected: [1], notice: [1], checks: [1], said: [1], answer: [1, 2], tool: [1, 3] };
const CALLS = { push_frame: "passed to a child", delegate: "passed to a child", branch: "passed to a child", pop_frame: "returned", return: "returned" };
const VERSIONS = 20; // of a chunk, whose contents are followed
const SIGHT = {
  seen: () => "in the prompt again",
  waits: (name) => `out of sight: the waiting frame ${name} has it`,
  stored: () => "out of the prompt, still on the heap",
  lost: () => "lost: out of the prompt and not on the heap",
};
const ORIGIN = /^(?:found in a result|written by the model)/;
export const REGISTERS = { "R0 intent": "intent", "R1 returns": "returns", "R3 constraint": "constraint", context: "context", verify: "verify" };
export const NOWHERE = 0;
export const STORED = 1;
export const SEEN = 2;

// Returns the texts of a part, as one string.
export function textOf(run, number) {
  const part = run.parts[number];
  switch (part[0]) {
    case "c":
      return stringsOf(run.value(part[2])).join("\n");
    case "d":
      return `${run.text(part[2])}\n${run.text(part[3])}`;
    case "t":
    case "m":
      return run.text(part[2]);
    default:
      return run.text(part[1]);
  }
}

function stringsOf(value) {
  if (value instanceof Map) return [...value.values()].flatMap(stringsOf);
  return Array.isArray(value) ? value.flatMap(stringsOf) : [String(value)];
}

// Returns the parts whose text contains `needle`.
export function matchesOf(run, needle) {
  const found = new Set();
  run.parts.forEach((_, number) => textOf(run, number).includes(needle) && found.add(number));
  return found;
}

// Returns for each step whether its prompt contains one of the parts.
function sightOf(run, parts) {
  const places = run.sequences.map((numbers) => numbers.flatMap((number, at) => (parts.has(number) ? [at] : [])));
  return Uint8Array.from(run.rows, (row) => {
    const ranges = row[9];
    for (let at = 0; at < ranges.length; at += 3) {
      if (anyIn(places[ranges[at]], ranges[at + 1], ranges[at + 2])) return SEEN;
    }
    return NOWHERE;
  });
}

function anyIn(sorted, from, to) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < from) low = middle + 1;
    else high = middle;
  }
  return low < sorted.length && sorted[low] < to;
}

// The life of one part, for texts too short to recognize elsewhere.
export function lifeOfPart(run, number) {
  const parts = new Set([number]);
  const states = sightOf(run, parts);
  return { parts, states, events: eventsOf(run, null, parts, states) };
}

// The life of a text: { parts, states, events }; `states` has one value per step, an event is { step, text, change }.
// `change` marks events at which the selection itself changed, or came into the run.
export function lifeOfText(run, needle) {
  const parts = matchesOf(run, needle);
  const states = sightOf(run, parts);
  const chunks = run.lanes.filter((lane) => lane.versions.some((one) => run.text(one.content).includes(needle)));
  for (const lane of chunks) {
    for (const one of lane.versions.filter((each) => run.text(each.content).includes(needle))) {
      for (let step = one.start + 1; step <= (one.end ?? run.count); step += 1) states[step - 1] ||= STORED;
    }
  }
  return { parts, states, events: eventsOf(run, needle, parts, states) };
}

function eventsOf(run, needle, parts, states) {
  const events = [];
  const has = (ref) => needle !== null && ref !== null && ref !== undefined && run.text(ref).includes(needle);
  const tell = (step, text) => events.some((one) => one.step === step && one.text === text) || events.push({ step, text, change: ORIGIN.test(text) });
  let known = false;
  let shown = false; // whether a prompt has contained it
  let before = "";
  const last = new Map(); // frame to whether its last prompt contained it
  run.rows.forEach((row, at) => {
    const step = at + 1;
    const seen = states[at] === SEEN;
    const holder = seen || !shown ? -1 : (run.stackOf(row[0]).findLast((frame) => frame !== row[0] && last.get(frame)) ?? -1);
    last.set(row[0], seen);
    const now = seen ? "seen" : holder >= 0 ? "waits" : states[at] === STORED ? "stored" : "lost";
    if (seen && !known) tell(step, "first in the prompt");
    const explained = events.at(-1)?.step === step - 1;
    if (shown && now !== before && !(now === "seen" && explained)) tell(step, SIGHT[now](run.frames[holder]?.name));
    before = now;
    shown ||= seen;
    known ||= seen;
    for (const number of row[10]) if (parts.has(number)) for (const text of uses(run, run.parts[number], row[11])) tell(step, text);
    for (const fact of row[11]) {
      const text = outcome(run, fact, has, known || seen, seen);
      if (text) tell(step, text);
      known ||= text !== "";
    }
  });
  if (events.length) events[0].change = true;
  return events;
}

// Describes what a call does with a text that its arguments contain.
function uses(run, part, facts) {
  if (part[0] !== "c") return part[0] === "t" ? ["written by the model"] : [];
  const stored = facts.find((fact) => fact[0] === "heap" && ["allocated", "written"].includes(fact[1]));
  if (stored) return [`stored as ${stored[2]}`];
  const pushed = facts.find((fact) => fact[0] === "pushed");
  if (pushed) return [`passed to frame ${run.frames[pushed[1]]?.name ?? "?"}`];
  return [CALLS[part[1]] ?? `used in ${part[1]}`];
}

// Describes an event that contains the text; empty for others. `known`: it occurred before; `seen`: the prompt has it.
function outcome(run, fact, has, known, seen) {
  if (fact[0] === "heap") return fact[1] === "read" && has(fact[4]) ? `read from the heap: ${fact[2]}` : "";
  if (fact[0] === "compacted") return has(fact[1]) ? "kept in a summary" : "";
  if (fact[0] === "pushed") {
    const frame = run.frames[fact[1]];
    return frame && (has(frame.intent) || has(frame.context) || has(frame.returns)) ? `passed to frame ${frame.name}` : "";
  }
  if (fact[0] === "popped") return has(run.frames[fact[1]]?.result) ? `returned by frame ${run.frames[fact[1]].name}` : "";
  if (!(REFS[fact[0]] ?? []).some((place) => has(fact[place]))) return "";
  if (!known) return "found in a result";
  return seen ? "in another result" : "looked up again";
}

// The life of a chunk: the states are those of its name on the heap, and of its content in the prompts.
export function lifeOfChunk(run, lane) {
  const contents = [...new Set(lane.versions.map((one) => run.text(one.content)))].filter((text) => text.length > 0).slice(-VERSIONS);
  const matches = contents.map((text) => matchesOf(run, text));
  const parts = new Set(matches.flatMap((found) => [...found]));
  const states = sightOf(run, parts);
  const moved = contents.flatMap((text, at) => eventsOf(run, text, matches[at], sightOf(run, matches[at])));
  const events = moved.filter(({ text }) => /^(?:passed|returned|looked up|used in)/.test(text));
  for (const one of lane.versions) {
    events.push({ step: one.start, change: true, text: one.start < 1 ? "kept from before the run" : one.again ? "rewritten" : "stored" });
    if (one.end !== null && !lane.versions.some((other) => other.start === one.end)) events.push({ step: one.end, change: true, text: "freed" });
    for (let step = one.start + 1; step <= (one.end ?? run.count); step += 1) states[step - 1] ||= STORED;
  }
  for (const step of lane.reads) events.push({ step, text: "read" });
  for (const [from, to] of lane.stale) {
    events.push({ step: from, text: "its source changed: STALE" });
    if (to !== null && !lane.versions.some((one) => one.end === to || one.start === to)) events.push({ step: to, text: "no longer STALE" });
  }
  return { parts, states, events: inOrder(events) };
}

export function lifeOfFrame(run, number) {
  const frame = run.frames[number];
  const last = run.lastOf(number);
  const states = Uint8Array.from(run.rows, (row, at) => (row[0] === number ? SEEN : at + 1 >= frame.first && at + 1 <= last ? STORED : NOWHERE));
  const events = [{ step: frame.first, text: "starts" }];
  run.frames.forEach((child) => child.parent === number && events.push({ step: Math.max(1, child.first - 1), text: `pushes ${child.name}` }));
  if (frame.last !== null) events.push({ step: frame.last, text: frame.forced ? `popped by force (${frame.forced})` : "ends" });
  return { parts: new Set(), states, events: inOrder(events) };
}

// Returns the value of a register in a frame.
export const registerOf = (run, frame, name) => (name === "verify" ? frame.verify : run.text(frame[REGISTERS[name]]));

// The life of a register: it changes whenever a frame with another value runs.
export function lifeOfRegister(run, name) {
  const events = [];
  const values = new Set();
  let before = null;
  run.rows.forEach((row, at) => {
    if (at && row[0] === run.rows[at - 1][0]) return;
    const frame = run.frames[row[0]];
    const value = registerOf(run, frame, name);
    if (value) values.add(value);
    const origin = frame.first === at + 1 ? (frame.parent < 0 ? "set by the task" : `set by the push of frame ${frame.name}`) : `frame ${frame.name} runs again`;
    if (value !== before) events.push({ step: at + 1, text: value ? origin : `${origin}, without a value`, change: true });
    before = value;
  });
  const parts = new Set([...values].slice(-VERSIONS).flatMap((value) => [...matchesOf(run, value)]));
  return { parts, states: sightOf(run, parts), events };
}

// Returns the path in the heading of a file's changes.
export const pathOf = (heading) => heading.replace(/ \((?:new|deleted)\)$/, "");

export function lifeOfFile(run, path) {
  const states = new Uint8Array(run.count);
  const events = [];
  run.rows.forEach((row, at) => {
    const changed = row[12].find((one) => pathOf(one[0]) === path);
    states[at] = events.length ? STORED : NOWHERE;
    if (changed) events.push({ step: at + 1, text: `${/ \((new|deleted)\)$/.exec(changed[0])?.[1] ?? "changed"}, +${changed[2]} −${changed[3]}`, change: true });
  });
  return { parts: new Set(), states, events };
}

const inOrder = (events) => events.sort((one, other) => one.step - other.step);

// Returns the spans of steps with the same state: [state, first, last].
export function spansOf(states) {
  const spans = [];
  states.forEach((state, at) => {
    const last = spans.at(-1);
    if (last && last[0] === state) last[2] = at + 1;
    else spans.push([state, at + 1, at + 1]);
  });
  return spans;
}
