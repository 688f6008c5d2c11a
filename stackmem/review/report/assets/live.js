// A page connected to a server: it follows its run and can run commands.

import { el, duration, keepPlace } from "./text.js";
import { answer } from "./answer.js";
import { open } from "./main.js";
import { ACTIONS, openCommand } from "./commands.js";

const said = (name) => [...document.querySelectorAll(`meta[name="${name}"]`)].map((meta) => meta.content);

const home = el("a", { class: "brand", href: "./", title: "All runs and benches", text: "stackmem" });
const state = el("span", { class: "state", role: "status" });
const age = el("span", { class: "age faint", "aria-hidden": "true" }); // not announced, because it changes all the time

// The address of a run in the same folder as a run of this page.
const link = (run, id) => `run?id=${encodeURIComponent(said("run")[run.place].replace(/[^/]*$/, id))}`;

function actions(timeline) {
  const [run, other] = said("run");
  if (other !== undefined) return "";
  const given = { fork: () => ({ at: timeline.chosen.step }) };
  const buttons = ["resume", "fork", "export", "rm"].map((action) =>
    el("button", { type: "button", onclick: () => openCommand(action, run, given[action]?.()), text: ACTIONS[action][0] }),
  );
  return el("div", { class: "actions", role: "group", "aria-label": "Commands for this run" }, ...buttons, state, age);
}

function follow({ timeline, inspector }) {
  const [run, other] = said("run");
  if (other !== undefined) return;
  const [shown] = timeline.runs;
  if (shown.outcome === "running" && !location.hash.includes("step")) timeline.choose(shown.count);
  const source = new EventSource(`facts?id=${encodeURIComponent(run)}&after=${said("version")[0]}`);
  let waiting = [];
  const take = () => {
    const changes = waiting;
    waiting = [];
    const before = shown.count;
    const atEnd = timeline.chosen.step >= before;
    keepPlace(document.querySelector("main"), () => timeline.grow(() => changes.forEach((change) => shown.merge(change))));
    if (atEnd && shown.count > before) timeline.choose(shown.count);
    else if (timeline.chosen.step >= before) inspector.show();
    tell();
  };
  let last = Date.now();
  const ago = () => Math.floor((Date.now() - last) / 1000);
  const tell = () => {
    const running = shown.outcome === "running";
    state.textContent = running ? "live" : "";
    age.textContent = running && ago() > 1 ? `last event ${duration(ago())} ago` : "";
    const said = running && document.querySelector(".verdict strong");
    if (said) said.textContent = answer(shown, ago());
  };
  setInterval(() => source.readyState === EventSource.OPEN && tell(), 1000);
  source.addEventListener("facts", ({ data }) => {
    if (!waiting.length) setTimeout(take, 100);
    waiting.push(JSON.parse(data));
    last = Date.now();
  });
  source.addEventListener("whole", () => location.reload());
  source.addEventListener("broken", ({ data }) => {
    source.close();
    state.textContent = JSON.parse(data);
  });
  source.addEventListener("error", () => (state.textContent = "The server does not respond; this is the last known state."));
  source.addEventListener("open", tell);
}

open({ home, actions, link }).then(follow);
