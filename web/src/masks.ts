// Metrics that are bit masks: each bit is a state, and their mean says nothing.

interface State {
  bits: number;
  text: string;
  light: string;
  dark: string;
}

/** Why clocks are lowered; what is worse stands first, and gives the colour where several are set. */
export const states: State[] = [
  { bits: 8 | 64 | 128, text: "slowed by hardware: heat or power", light: "#b3243b", dark: "#f27a8a" },
  { bits: 32, text: "slowed by software: heat", light: "#d9722e", dark: "#ff9d42" },
  { bits: 4, text: "power cap", light: "#d8a928", dark: "#e8c04c" },
  { bits: 2, text: "application clocks", light: "#8fa9c4", dark: "#6c88a8" },
  { bits: 1, text: "idle", light: "#c9cfd8", dark: "#4a525c" },
  { bits: 0, text: "not lowered", light: "#8fc9ae", dark: "#2f6b54" },
];

const reasons: [number, string][] = [
  [1, "idle"],
  [2, "application clocks"],
  [4, "power cap"],
  [8, "hardware slowdown"],
  [32, "software thermal slowdown"],
  [64, "hardware thermal slowdown"],
  [128, "power brake"],
];

export const isMask = (metric: string): boolean => metric === "gpu_throttle_reasons";

export function maskText(value: number | null | undefined): string {
  if (value === null || value === undefined) return "not measured";
  const set = reasons.filter(([bit]) => value & bit).map(([, text]) => text);
  return set.join(", ") || (value ? `reason ${value}` : "clocks not lowered");
}

export function statePixel(value: number, isDark: boolean): number {
  const state = states.find((s) => value & s.bits) ?? states[states.length - 1];
  const color = isDark ? state.dark : state.light;
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}
