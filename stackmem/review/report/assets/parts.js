// Shows the parts of a prompt or reply.

import { el, block, preview, count, plural } from "./text.js";

const TITLES = { s: "system prompt", d: "tool", t: "text", k: "thinking", c: "call", m: "call, not JSON", r: "result" };

// Describes a part without its full text: { kind, who, title, preview, chars, body }.
export function describe(run, number) {
  const part = run.parts[number];
  const [kind] = part;
  const told = { kind, title: TITLES[kind], who: kind === "r" ? "tool" : "model" };
  switch (kind) {
    case "s":
      return textual({ ...told, who: "system" }, run.text(part[1]));
    case "t":
      return textual({ ...told, who: part[1] === "u" ? "harness" : "model" }, run.text(part[2]), part[3]);
    case "k":
      return textual(told, run.text(part[1]));
    case "r":
      return textual({ ...told, failed: part[2] === 1 }, run.text(part[1]), part[4]);
    case "m":
      return { ...textual(told, run.text(part[2])), title: `${part[1]} (not JSON)` };
    case "d": {
      const [description, schema] = [run.text(part[2]), run.text(part[3])];
      return {
        ...told,
        who: "system",
        title: part[1],
        preview: preview(description),
        chars: part[1].length + description.length + schema.length,
        body: () => [el("p", { text: description }), block(indented(schema))],
      };
    }
    default: {
      const value = run.value(part[2]);
      return {
        ...told,
        title: part[1],
        preview: callPreview(value),
        chars: part[1].length + sizeOf(value),
        body: () => [argumentsOf(value)],
      };
    }
  }
}

const textual = (told, text, pictures = []) => ({
  ...told,
  preview: preview(text),
  chars: text.length,
  body: () => [block(text), ...pictures.map((src) => el("img", { src, alt: "image", loading: "lazy" }))],
});

function indented(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

const LAID_OUT = 100_000;
const LINE = 90;
const DEEPEST = 100;

// Breaks a one-line JSON object into lines without changing its tokens; null for other text.
export function laidOut(text) {
  const bare = text.trim();
  if (bare[0] !== "{" || bare.includes("\n") || bare.length > LAID_OUT) return null;
  try {
    JSON.parse(bare);
    return linesOf(bare);
  } catch {
    return null; // not JSON, or nested too deeply
  }
}

function linesOf(bare) {
  const tokens = bare.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g);
  let at = 0;
  // Formats the value at `at`: its members on one line if that is short enough, otherwise one per line.
  const value = (depth) => {
    const open = tokens[at++];
    if (open !== "{" && open !== "[") return open;
    if (depth > DEEPEST) throw new RangeError("too deep");
    const members = [];
    while (!"]}".includes(tokens[at])) {
      if (tokens[at] === ",") at += 1;
      let name = "";
      if (open === "{") {
        name = `${tokens[at]}: `;
        at += 2;
      }
      members.push(name + value(depth + 1));
    }
    const close = tokens[at++];
    const flat = open + members.join(", ") + close;
    if (!members.length || (!flat.includes("\n") && flat.length + 2 * depth <= LINE)) return flat;
    const line = `\n${"  ".repeat(depth)}`;
    return `${open}${line}  ${members.join(`,${line}  `)}${line}${close}`;
  };
  return value(0);
}

function sizeOf(value) {
  if (value instanceof Map) return [...value].reduce((sum, [name, inner]) => sum + name.length + 4 + sizeOf(inner), 2);
  if (Array.isArray(value)) return value.reduce((sum, inner) => sum + sizeOf(inner) + 1, 2);
  return String(value).length + 2;
}

const inWords = (value) => {
  if (value instanceof Map) return `{${[...value.keys()].join(", ")}}`;
  return Array.isArray(value) ? `[${plural(value.length, "item")}]` : String(value);
};

// Returns the most informative argument of a call.
export function callPreview(value) {
  if (!(value instanceof Map)) return preview(inWords(value));
  const telling = ["command", "path", "name", "result"].find((name) => value.has(name));
  const [name, told] = telling ? [telling, value.get(telling)] : ([...value][0] ?? ["", ""]);
  return name ? preview(inWords(told)) : "";
}

// Shows the arguments of a call: one name and value per line, long values in separate blocks.
export function argumentsOf(value) {
  if (!(value instanceof Map)) return Array.isArray(value) ? listOf(value) : block(String(value));
  const list = el("dl", { class: "arguments" });
  for (const [name, inner] of value) {
    list.append(el("dt", { text: name }), el("dd", {}, valueNode(inner)));
  }
  return list;
}

function valueNode(value) {
  if (value instanceof Map) return argumentsOf(value);
  if (Array.isArray(value)) return listOf(value);
  const text = String(value);
  return text.length > 80 || text.includes("\n") ? block(text) : el("code", { text });
}

const listOf = (values) => el("ol", { class: "values" }, ...values.map((value) => el("li", {}, valueNode(value))));

// Shows a part as a row that unfolds.
export function row(told, { fresh = false, open = false } = {}) {
  const size = `${count(told.chars)} chars`;
  const details = el(
    "details",
    { class: `part who-${told.who}${fresh ? " fresh" : ""}${told.failed ? " failed" : ""}` },
    el(
      "summary",
      {},
      el("span", { class: "who", text: told.who }),
      el("span", { class: "title", text: told.title }),
      el("span", { class: "preview", text: told.preview }),
      el("span", { class: "size", text: size }),
    ),
  );
  const fill = () => details.childElementCount === 1 && details.append(el("div", { class: "body" }, ...told.body()));
  details.addEventListener("toggle", () => details.open && fill());
  if (open) {
    fill();
    details.open = true;
  }
  return details;
}
