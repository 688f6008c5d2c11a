// Text from a trace is untrusted: it only becomes text nodes, and invisible characters are spelled out.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const SHOWN_CHARS = 6000;
const LONGEST_CHARS = 2_000_000;
const LONG_CHARS = 100_000; // above this, setting a direction per line takes the browser seconds

const spelt = (char) => `U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

// Creates an element; names starting with "on" are listeners, "text" is its text, all others are attributes.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") showText(node, String(value));
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-") && value !== null) node.setAttribute(name, String(value));
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

// Links to the page of a run; without such a page it is text.
export const linkTo = (run, id, text) => {
  const href = id === run.id ? "" : run.link(id);
  return href ? el("a", { href, title: plain(id), text }) : el("span", { title: plain(id), text });
};

// Returns the text as one safe string, for a canvas, a title or an accessible name.
export const plain = (text) => text.replace(HIDDEN, (char) => `⟨${spelt(char)}⟩`);

// Appends the text; each control or direction character becomes a small mark with its name.
export function showText(node, text) {
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > from) node.append(text.slice(from, found.index));
    const mark = document.createElement("span");
    mark.className = "hidden-char";
    mark.textContent = spelt(found[0]);
    node.append(mark);
    from = found.index + found[0].length;
  }
  if (from < text.length) node.append(text.slice(from));
  return node;
}

// Cuts a text without splitting a surrogate pair.
function cutAt(text, most) {
  const unit = text.charCodeAt(most - 1);
  return text.slice(0, unit >= 0xd800 && unit < 0xdc00 ? most - 1 : most);
}

// Shows a block of text with its lines; a long text is cut until the reader asks for more.
export function block(text, name = "pre") {
  const node = el("pre", { class: `block ${name}`, tabindex: "0" });
  if (text.length <= SHOWN_CHARS * 1.5) return showText(node, text);
  showText(node, cutAt(text, SHOWN_CHARS));
  const most = Math.min(text.length, LONGEST_CHARS);
  const more = el("button", {
    class: "more",
    type: "button",
    text: `show ${most < text.length ? "the first" : "all"} ${count(most)} characters`,
    onclick: () => {
      node.classList.toggle("long", most > LONG_CHARS);
      node.replaceChildren();
      showText(node, cutAt(text, most));
    },
  });
  return el("div", {}, node, more);
}

// Returns one line, for a summary.
export const preview = (text, most = 140) => {
  const line = text.slice(0, most * 4).trim().replace(/\s+/g, " ");
  return line.length > most ? `${cutAt(line, most)}…` : line;
};

const WHOLE = new Intl.NumberFormat("en-US"); // made once, because toLocaleString makes one for each call

export const count = (number) => WHOLE.format(Math.round(number));

export function compact(number) {
  if (number < 10_000) return count(number);
  if (number < 1e6) return `${(number / 1e3).toFixed(number < 1e5 ? 1 : 0)}k`;
  return `${(number / 1e6).toFixed(number < 1e8 ? 2 : 0)}M`;
}

export const usd = (amount) =>
  amount === null ? "unknown" : `$${amount.toFixed(amount !== 0 && amount < 0.1 ? 4 : 2)}`;

/** What a run or a step cost; tokens that cost nothing came from a model on this machine. */
export const cost = (amount, tokens) => (amount === 0 && tokens > 0 ? "free (local)" : usd(amount));

export function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

export const size = (bytes) => (bytes < 1e6 ? `${count(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`);

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

const REACHED = "a[href], button, input, select, summary, [tabindex]";
const nameOf = (node) => node.dataset.key ?? node.getAttribute("aria-label") ?? node.textContent;

// Rebuilds a part of the page. The same element, or its replacement, keeps the keyboard focus; with `open`, unfolded
// parts stay unfolded.
export function keepPlace(part, make, open = true) {
  const reached = () => [...part.querySelectorAll(REACHED)];
  const unfolded = new Set(open ? [...part.querySelectorAll("details[open] > summary")].map(nameOf) : []);
  const had = part.contains(document.activeElement) ? document.activeElement : null;
  const [name, place] = had ? [nameOf(had), reached().indexOf(had)] : [];
  make();
  for (const summary of unfolded.size ? part.querySelectorAll("details:not([open]) > summary") : []) {
    if (unfolded.has(nameOf(summary))) summary.parentElement.open = true;
  }
  if (!had || part.contains(document.activeElement)) return;
  const now = reached();
  (now.find((node) => nameOf(node) === name) ?? now[Math.min(place, now.length - 1)])?.focus({ preventScroll: true });
}
