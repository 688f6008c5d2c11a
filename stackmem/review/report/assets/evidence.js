// Redraws the plot of a study of recordings at the reader's own price of a cached token.
const plot = document.querySelector("svg.forest");
const form = document.querySelector("form.price");
const LOW = 0.01, HIGH = 1;
const NEAR = 1e-9;
const LINE = "http://www.w3.org/2000/svg";

// The slider is logarithmic, and its middle is the first studied price.
const priceAt = (place) => Number((LOW * (HIGH / LOW) ** (place / 100)).toPrecision(2));

// Returns the value at a price on the line through the two nearest studied prices.
function at(price, reads, values) {
  const found = reads.findIndex((read) => read <= price + NEAR); // the prices fall
  const upper = found === -1 ? reads.length - 1 : Math.max(1, found);
  const [x, y, a, b] = [reads[upper - 1], reads[upper], values[upper - 1], values[upper]];
  return a + ((price - x) * (b - a)) / (y - x);
}

// A bill is a sum of tokens times prices, so it is exact at every price, unless the strategy decides by the price.
const ratio = (price, reads, sums) => {
  const ratios = sums.map(([own, full]) => at(price, reads, own) / at(price, reads, full)).filter(Number.isFinite);
  return ratios.reduce((sum, one) => sum + one, 0) / ratios.length;
};

function ticksOf(low, high) {
  const size = 10 ** Math.floor(Math.log10((high - low) / 6));
  const step = [1, 2, 5, 10].map((by) => size * by).find((by) => (high - low) / by <= 6) ?? high - low;
  const first = Math.ceil(low / step - NEAR);
  return Array.from({ length: Math.floor(high / step + NEAR) - first + 1 }, (_, number) => Number(((first + number) * step).toPrecision(6)));
}

const set = (node, values) => Object.entries(values).forEach(([name, value]) => node?.setAttribute(name, value));

function draw(price) {
  const reads = plot.dataset.reads.split(" ").map(Number);
  const studied = price <= Math.max(...reads) + NEAR && price >= Math.min(...reads) - NEAR;
  const rows = [...plot.querySelectorAll("g.entry")].map((node) => {
    const [expected, best, worst] = JSON.parse(node.dataset.sums);
    const ends = JSON.parse(node.dataset.ends);
    const known = studied || node.dataset.priced === "0";
    const bounds = best && worst ? [ratio(price, reads, best), ratio(price, reads, worst)] : [];
    const interval = studied && ends.every((pair) => pair[0] !== null) ? [0, 1].map((end) => at(price, reads, ends.map((pair) => pair[end]))) : [];
    return { node, name: node.querySelector("text").textContent, known, value: ratio(price, reads, expected), bounds, interval };
  });
  const shown = rows.filter((row) => row.known).sort((one, other) => one.value - other.value);
  const ends = shown.flatMap((row) => [row.value, ...row.bounds, ...row.interval, 1]);
  const [low, high] = [Math.min(...ends) * 0.97, Math.max(...ends) * 1.03];
  const [left, right, height] = [Number(plot.dataset.left), Number(plot.dataset.right), Number(plot.dataset.row)];
  const x = (value) => (left + ((value - low) / (high - low)) * (right - left)).toFixed(1);
  for (const row of rows) row.node.style.display = row.known ? "" : "none";
  shown.forEach((row, number) => {
    set(row.node, { transform: `translate(0 ${number * height + height / 2})` });
    set(row.node.querySelector(".bill"), { cx: x(row.value) });
    set(row.node.querySelector(".bounds"), { x1: x(row.bounds[0] ?? row.value), x2: x(row.bounds[1] ?? row.value) });
    const line = row.node.querySelector(".interval");
    if (line) line.style.display = row.interval.length ? "" : "none";
    if (row.interval.length) set(line, { x1: x(row.interval[0]), x2: x(row.interval[1]) });
  });
  set(plot.querySelector(".one"), { x1: x(1), x2: x(1) });
  const bottom = plot.viewBox.baseVal.height - 6;
  plot.querySelector(".ticks").replaceChildren(
    ...ticksOf(low, high).map((tick) => {
      const text = document.createElementNS(LINE, "text");
      set(text, { x: x(tick), y: bottom, "text-anchor": "middle" });
      text.textContent = String(tick);
      return text;
    }),
  );
  plot.setAttribute("aria-label", `Bill relative to full at cached reads of ${price}: ${shown.map((row) => `${row.name} ${row.value.toFixed(2)}`).join("; ")}`);
  return [shown.filter((row) => row.name !== "full"), rows.length - shown.length];
}

function sentence(price, shown, hidden) {
  const [best] = shown;
  if (!best) return "";
  const size = `${Math.abs(100 * (1 - best.value)).toFixed(0)} %`;
  const first = best.value < 1 ? `At ${price}, ${best.name} costs ${size} less than full.` : `At ${price}, no strategy costs less than full; ${best.name} costs ${size} more.`;
  return hidden ? `${first} Strategies that decide by the price are left out, because they were not studied at this one.` : first;
}

if (plot && form) {
  const input = form.querySelector("input");
  const change = () => {
    const price = priceAt(Number(input.value));
    form.querySelector("output").textContent = ` ${price}`;
    input.setAttribute("aria-valuetext", `${price} of an input token`);
    form.querySelector("[role=status]").textContent = sentence(price, ...draw(price));
  };
  form.hidden = false;
  input.addEventListener("input", change);
  form.addEventListener("submit", (event) => event.preventDefault());
  change();
}
document.documentElement.dataset.ready = "";
