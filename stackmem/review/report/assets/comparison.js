// Adds a theme switch, sortable tables, and links into folded parts. The page also works without this script.
const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

document.getElementById("theme").addEventListener("click", () => {
  const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
});

function sort(button) {
  const head = button.closest("th");
  const column = head.cellIndex;
  const body = head.closest("table").tBodies[0];
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = (row) => row.cells[column].dataset.value;
  const compare = (one, other) => {
    const [a, b] = [key(one), key(other)];
    if (a === undefined && b === undefined) return one.cells[0].textContent.localeCompare(other.cells[0].textContent);
    if (a === undefined || b === undefined) return down ? (a === undefined ? -1 : 1) : a === undefined ? 1 : -1;
    return Number(a.replace("inf", "Infinity")) - Number(b.replace("inf", "Infinity"));
  };
  const rows = [...body.rows].sort(compare);
  if (down) rows.reverse();
  body.append(...rows);
}

for (const button of document.querySelectorAll("thead button")) button.addEventListener("click", () => sort(button));

// Lets the reader choose the column groups of a table; on phones, some are hidden at first.
const phone = matchMedia("(max-width: 640px)");
const AT_FIRST = 3;
const shows = [];

function choose(table) {
  const bar = document.createElement("div");
  bar.className = "columns";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", `Columns of ${table.parentElement.getAttribute("aria-label")}`);
  bar.append("columns");
  for (const head of table.querySelectorAll("th[data-group]")) {
    const number = head.dataset.group;
    const button = document.createElement("button");
    button.textContent = head.textContent;
    const show = (wanted) => {
      button.setAttribute("aria-pressed", wanted);
      table.classList.toggle(`no-${number}`, !wanted);
      const shown = table.tHead.rows[1].querySelectorAll(wanted ? `.g${number}` : `.g${number}.core`).length;
      head.colSpan = Math.max(1, shown);
      head.hidden = !shown;
      tellMore(table.parentElement);
    };
    button.addEventListener("click", () => show(button.getAttribute("aria-pressed") !== "true"));
    shows.push(show);
    bar.append(button);
    show(!phone.matches && Number(number) < AT_FIRST);
  }
  table.parentElement.before(bar);
}

// Fades the right edge of a table that scrolls.
function tellMore(scroll) {
  const right = scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - 2;
  if (right) scroll.dataset.more = "right";
  else delete scroll.dataset.more;
}

for (const head of document.querySelectorAll("th[data-group='0']")) choose(head.closest("table"));
const widths = new ResizeObserver((all) => all.forEach(({ target }) => tellMore(target)));
for (const scroll of document.querySelectorAll(".scroll")) {
  widths.observe(scroll);
  scroll.addEventListener("scroll", () => tellMore(scroll), { passive: true });
}

// Shows the description of a column while its head is hovered or focused; Escape hides it.
const tip = document.createElement("div");
Object.assign(tip, { className: "tip", id: "tip", hidden: true });
tip.setAttribute("role", "tooltip");
document.body.append(tip);
const hide = () => (tip.hidden = true);

function explain({ target }) {
  const head = target.closest?.("thead button[data-tells]");
  if (!head) return hide();
  tip.textContent = head.dataset.tells;
  tip.hidden = false;
  const { left, bottom } = head.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${bottom + 6}px`;
  return undefined;
}

for (const head of document.querySelectorAll("thead button[title]")) {
  head.dataset.tells = head.title;
  head.setAttribute("aria-description", head.title);
  head.removeAttribute("title");
}
document.addEventListener("focusin", explain);
// Browsers do not scroll if only an edge of a focused link is visible.
document.querySelector("nav").addEventListener("focusin", ({ target }) => target.scrollIntoView({ block: "nearest", inline: "nearest" }));
document.addEventListener("focusout", hide);
document.addEventListener("pointerover", explain);
// The description moves with its head while scrolling.
document.addEventListener("scroll", () => tip.hidden || explain({ target: document.querySelector("thead button:focus-visible, thead button:hover") ?? document }), true);
document.addEventListener("keydown", (event) => event.key === "Escape" && hide());

for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousSibling.textContent.trim());
    button.textContent = "copied";
  });
}

function unfold() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const folded = target.closest("details");
  if (folded) folded.open = true;
  for (const row of document.querySelectorAll("tr.aimed")) row.classList.remove("aimed");
  target.closest("tr")?.classList.add("aimed");
  (target.closest("tr") ?? target).scrollIntoView({ block: "start" });
}

addEventListener("hashchange", unfold);
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='#']");
  if (link && link.getAttribute("href") === location.hash) unfold();
});
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details.set")) folded.open = true;
  for (const show of shows) show(true);
});

// Highlights a hovered strategy everywhere on the page.
let lit = "";
function light(number) {
  if (number === lit) return;
  lit = number;
  root.classList.toggle("lit", number !== "");
  for (const one of document.querySelectorAll(".now")) one.classList.remove("now");
  if (number) for (const one of document.querySelectorAll(`[data-strategy="${Number(number)}"]`)) one.classList.add("now");
}
document.addEventListener("pointerover", (event) => {
  light(event.target.closest?.("a.strategy")?.dataset.strategy ?? "");
});

unfold();
root.dataset.ready = "";
