// Colour scales: ordered in lightness, and told apart by people who see fewer colours.

import { Store } from "./store";

type Rgb = [number, number, number];

const hex = (text: string): Rgb => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)) as Rgb;

// Sequential, blue to yellow over grey: lightness grows steadily, and no red or green is needed to read it.
const sequential = ["#0b2a52", "#1d3f73", "#36547d", "#53687e", "#707d7c", "#8f9274", "#b0a766", "#d2bd51", "#f4d43a"].map(hex);
// Diverging: blue is less, orange is more; the middle is the ground, and what is far from it stands out.
const differences = {
  light: ["#1f5fa8", "#5b8ec4", "#9dbedd", "#f0f1f3", "#f3c08a", "#e08a3c", "#b3500f"].map(hex),
  dark: ["#7dbcff", "#4583c4", "#2e4a68", "#23282e", "#664628", "#b8691f", "#ff9d42"].map(hex),
};

function between(stops: Rgb[], x: number): Rgb {
  const at = Math.min(Math.max(x, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  const f = at - i;
  return [0, 1, 2].map((c) => Math.round(stops[i][c] + (stops[i + 1][c] - stops[i][c]) * f)) as Rgb;
}

export const css = ([r, g, b]: Rgb): string => `rgb(${r} ${g} ${b})`;
export const heat = (x: number): Rgb => between(sequential, x);

/** x from -1 (less) to 1 (more). */
export const diverge = (x: number, dark: boolean): Rgb => between(dark ? differences.dark : differences.light, (x + 1) / 2);

/** Scales as pixels, for pictures of many cells: one number is red, green, blue and opaque, 0 is nothing. */
const pixels = (at: (x: number) => Rgb): Uint32Array =>
  Uint32Array.from({ length: 256 }, (_, i) => {
    const [r, g, b] = at(i / 255);
    return (255 << 24) | (b << 16) | (g << 8) | r;
  });
const heatPixels = pixels(heat);
const divergePixels = [false, true].map((dark) => pixels((x) => diverge(x * 2 - 1, dark)));

const step = (x: number): number => (x <= 0 ? 0 : x >= 1 ? 255 : (x * 255) | 0);
export const heatPixel = (x: number): number => heatPixels[step(x)];
export const divergePixel = (x: number, dark: boolean): number => divergePixels[dark ? 1 : 0][step((x + 1) / 2)];

/** Text that can be read on this ground. */
export const inkOn = ([r, g, b]: Rgb): string => (0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111418" : "#ffffff");

// Kernels get a colour by their name: eight muted ones, none of which is used for something else.
const kernels = ["#4f8fc0", "#7b93d6", "#9c8ad0", "#93b56b", "#6fb3cf", "#b08fc4", "#6c9bd2", "#c08fb0"];
const byType: Record<string, string> = {
  memcpy: "#2fa39a",
  memset: "#4bb3ab",
  runtime: "#8a94a3",
  driver: "#78828f",
  sync: "#b07a86",
  graph: "#9a8fb0",
  overhead: "#b86a6a",
  cpu_op: "#8fa9c4",
  annotation: "#9db28b",
  gpu_annotation: "#9db28b",
  python: "#a5a98c",
  marker: "#c2b280",
  step: "#a9b4c2",
  "in flight": "#d1344b",
};
export const communication = "#e0892f";
export const culprit = "#d1344b";

const cache = new Map<string, string>();
const communicating = new Set<string>();
/** How often something new was found to be communication: who shows colours of names follows it. */
export const communicationKnown = new Store(0);

/** Names of kernels that are communication: the server knows which. */
export function noteCommunication(names: string[]): void {
  const fresh = names.filter((name) => !communicating.has(name));
  if (!fresh.length) return;
  fresh.forEach((name) => communicating.add(name));
  cache.clear();
  communicationKnown.set(communicationKnown.get() + 1);
}

export function sliceColor(name: string, type: string): string {
  const key = `${type}\n${name}`;
  let color = cache.get(key);
  if (color) return color;
  if (type === "collective" || communicating.has(name)) color = communication;
  else if (byType[type]) color = byType[type];
  else {
    let hash = 2166136261;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
    color = kernels[(hash >>> 8) % kernels.length];
  }
  if (cache.size > 50_000) cache.clear();
  cache.set(key, color);
  return color;
}

export const rgbOf = (color: string): Rgb => hex(color);

// Lines of charts, in the order they are given out (Okabe and Ito's, adjusted for both grounds).
export const lines = ["#3d8fd1", "#e0892f", "#22a07e", "#c26aa5", "#b5a11f", "#d1565b", "#7d7ad1", "#4cb5c9", "#8b8f97", "#9a6b3f"];
