// Colors as the style sheet resolves them, for drawing on a canvas.

const probe = document.createElement("span");
let known = new Map();

export function colour(name) {
  if (!known.has(name)) {
    if (!probe.isConnected) {
      probe.hidden = true;
      probe.className = "color-probe";
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    known.set(name, getComputedStyle(probe).color);
  }
  return known.get(name);
}

export const DARK = matchMedia("(prefers-color-scheme: dark)");

export const isDark = () => (document.documentElement.dataset.theme ?? (DARK.matches ? "dark" : "light")) === "dark";

export function switchTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  forgetColours();
}

export function forgetColours() {
  known = new Map();
}

export const SANS = '11px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
