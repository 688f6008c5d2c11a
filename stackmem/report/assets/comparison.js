// The switch between light and dark, tables that sort, and links into what is folded. The page is whole without it.
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
});

// A strategy that is pointed at anywhere stands out everywhere.
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
