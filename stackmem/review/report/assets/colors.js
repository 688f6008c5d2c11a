// The number of a strategy's color. The table and the size of the palette come from colors.py when a page is built.

export const STRATEGY_HUES = new Map(Object.entries(JSON.parse('{"hues":{}}').hues));
const COLORS = 12;
const [MULTIPLIER, MODULUS] = [31, 65521];

export function hueOf(strategy) {
  if (STRATEGY_HUES.has(strategy)) return STRATEGY_HUES.get(strategy);
  let digest = 0;
  for (const char of strategy) digest = (digest * MULTIPLIER + char.codePointAt(0)) % MODULUS;
  const base = STRATEGY_HUES.get(strategy.split(":")[0]) ?? COLORS - 1;
  const hue = digest % (COLORS - 1);
  return hue + (hue >= base ? 1 : 0);
}
