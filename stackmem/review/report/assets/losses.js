// Facts that the run used again after they had left its prompts, by the rules of stackmem/review/measure/first_loss.py.

import { textOf } from "./life.js";

const [SHORTEST, LONGEST] = [5, 200];
export const MOST_STEPS = 5_000; // longer runs take too long in a page
const PIECE = /[A-Za-z0-9_.-]{5,}/g;
const JOINED = /(?<![A-Za-z0-9_./:@+-])[A-Za-z0-9_.-]*[/:@+][A-Za-z0-9_./:@+-]*/g;
const TELLING = /[0-9_./:@-]|[a-z][A-Z]/;
const WORD = /^(?:[a-z]+|[A-Z]?[a-z]+|[A-Z]+)$/;

// Returns the words of a text that may be facts: with a digit, a joint or a capital inside.
export function literals(text) {
  const words = new Set();
  const add = (word, plain) => !plain && word.length >= SHORTEST && word.length <= LONGEST && TELLING.test(word) && words.add(word);
  for (const [found] of text.matchAll(PIECE)) {
    const piece = found.replace(/^[.-]+|[.-]+$/g, "");
    add(piece, WORD.test(piece));
  }
  for (const [found] of text.matchAll(JOINED)) add(found.replace(/^[./:@+-]+|[./:@+-]+$/g, ""), false);
  return words;
}

// Returns for each step the results that appear first in the next prompts.
function resultsOf(run) {
  const found = run.rows.map(() => []);
  const ends = run.sequences.map(() => 0);
  run.rows.forEach((row, at) => {
    const ranges = row[9];
    for (let place = 0; place < ranges.length; place += 3) {
      const [sequence, , to] = ranges.slice(place, place + 3);
      for (; ends[sequence] < to; ends[sequence] += 1) {
        const number = run.sequences[sequence][ends[sequence]];
        if (at && run.parts[number][0] === "r") found[at - 1].push(number);
      }
    }
  });
  return found;
}

// Returns each fact that was used, with the step that found it, and for each frame the last step that needed it.
function usedFacts(run, literalsOf) {
  const known = new Set(literals(run.text(run.task)));
  for (const number of run.sequences[0] ?? []) for (const word of literalsOf(number)) known.add(word);
  const [origins, needed] = [new Map(), run.frames.map(() => new Map())];
  const results = resultsOf(run);
  const used = new Set();
  run.rows.forEach((row, at) => {
    for (const number of row[10]) {
      for (const word of literalsOf(number)) {
        if (run.parts[number][0] === "c" && origins.has(word)) {
          used.add(word);
          for (const frame of run.stackOf(row[0])) needed[frame].set(word, at + 1);
        }
        known.add(word);
      }
    }
    for (const number of results[at]) {
      for (const word of literalsOf(number)) {
        if (known.has(word)) continue;
        origins.set(word, at + 1);
        known.add(word);
      }
    }
  });
  return { origins: new Map([...origins].filter(([word]) => used.has(word))), needed };
}

// Returns the facts that were out of the prompts while they were still needed: [{ fact, step, gone }], the first loss
// first; `gone` is the first step at which no chunk had it either, or null.
export function lossesOf(run) {
  const cache = new Map();
  const literalsOf = (number) => {
    if (!cache.has(number)) cache.set(number, literals(textOf(run, number)));
    return cache.get(number);
  };
  const { origins, needed } = usedFacts(run, literalsOf);
  const places = new Map([...origins.keys()].map((fact) => [fact, run.sequences.map(() => [])]));
  run.sequences.forEach((numbers, sequence) => numbers.forEach((number, at) => literalsOf(number).forEach((word) => places.get(word)?.[sequence].push(at))));
  const losses = new Map();
  run.rows.forEach((row, at) => {
    const step = at + 1;
    for (const [fact, last] of needed[row[0]]) {
      if (step > last || step <= origins.get(fact) || sees(row[9], places.get(fact))) continue;
      const loss = losses.get(fact) ?? { fact, step, gone: null };
      losses.set(fact, loss);
      if (loss.gone === null && !onHeap(run, fact, step - 1)) loss.gone = step;
    }
  });
  return [...losses.values()].sort((one, other) => one.step - other.step);
}

function sees(ranges, places) {
  for (let at = 0; at < ranges.length; at += 3) {
    const found = places[ranges[at]];
    if (found.some((place) => place >= ranges[at + 1] && place < ranges[at + 2])) return true;
  }
  return false;
}

const onHeap = (run, fact, step) => run.heapAt(step).some(({ version, freed }) => !freed && run.text(version.content).includes(fact));
