// The time axis: round steps, and labels relative to the start of the trace.

import { variable } from "../theme";
import { stepNumber, type Scene } from "./model";

export interface Tick {
  t: number;
  label: string;
}

const steps = [1, 2, 5];
const units: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

function stepFor(target: number): number {
  if (target > 30e9) {
    for (const s of [60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400]) if (s * 1e9 >= target) return s * 1e9;
    return 86400e9 * Math.ceil(target / 86400e9);
  }
  const power = 10 ** Math.floor(Math.log10(Math.max(1, target)));
  for (const s of steps) if (s * power >= target) return s * power;
  return 10 * power;
}

/** Labels have as many digits as the step needs: 1.234 567 s at a step of 1 µs. */
function label(t: number, step: number): string {
  if (step >= 60e9) {
    const s = Math.round(t / 1e9);
    const sign = s < 0 ? "-" : "";
    const a = Math.abs(s);
    return `${sign}${Math.floor(a / 3600)}:${String(Math.floor((a % 3600) / 60)).padStart(2, "0")} h`;
  }
  const whole = Math.abs(t) >= 1e9 || step >= 1e8 ? units[0] : Math.abs(t) >= 1e6 || step >= 1e5 ? units[1] : Math.abs(t) >= 1e3 || step >= 1e2 ? units[2] : units[3];
  const digits = Math.max(0, Math.round(Math.log10(whole[0]) - Math.floor(Math.log10(step))));
  const text = (t / whole[0]).toFixed(digits);
  const cut = text.indexOf(".");
  if (cut < 0) return `${text} ${whole[1]}`;
  const rest = text.slice(cut + 1).replace(/(\d{3})(?=\d)/g, "$1\u2009");
  return `${text.slice(0, cut)}.${rest} ${whole[1]}`;
}

export function ticks(from: number, to: number, width: number, unit: number): Tick[] {
  const step = stepFor(((to - from) / width) * 120 * unit);
  const result: Tick[] = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) result.push({ t, label: label(t, step) });
  return result;
}

/** Ticks above, steps below; flags of markers, and where hits and losses are. */
export function drawRuler(g: CanvasRenderingContext2D, scene: Scene, width: number, height: number, offsetOf: (track: number) => number): void {
  const { from, to, unit } = scene;
  g.clearRect(0, 0, width, height);
  const font = getComputedStyle(document.body).fontFamily;
  g.textBaseline = "middle";
  const x = (t: number) => ((t - from) / (to - from)) * width;
  const band = scene.steps.length ? 11 * unit : 0;
  g.font = `${Math.round(9.5 * unit)}px ${font}`;
  for (const s of scene.steps) {
    const left = Math.max(0, x(s.start));
    const right = Math.min(width, x(s.end));
    if (right <= left) continue;
    g.fillStyle = variable("--accent");
    g.globalAlpha = stepNumber(s.name) % 2 ? 0.3 : 0.16;
    g.fillRect(left, height - band, right - left - 1, band);
    g.globalAlpha = 1;
    g.fillStyle = variable("--ink-soft");
    const long = `step ${stepNumber(s.name)}`;
    const text = g.measureText(long).width + 6 * unit < right - left ? long : String(stepNumber(s.name));
    if (g.measureText(text).width + 4 * unit < right - left) g.fillText(text, left + 3 * unit, height - band / 2 + 0.5 * unit);
  }
  g.font = `${Math.round(11 * unit)}px ${font}`;
  g.fillStyle = variable("--ink-faint");
  const bottom = height - band;
  for (const tick of ticks(from, to, width, unit)) {
    g.fillRect(Math.round(x(tick.t)), bottom - 5 * unit, 1, 5 * unit);
    g.fillText(tick.label, x(tick.t) + 4 * unit, bottom / 2);
  }
  g.fillStyle = variable("--accent");
  for (const { t } of scene.markers) {
    const at = x(t);
    if (at < 0 || at > width) continue;
    g.beginPath();
    g.moveTo(at, 0);
    g.lineTo(at + 8 * unit, 4 * unit);
    g.lineTo(at, 8 * unit);
    g.fill();
    g.fillRect(at, 0, 1.5 * unit, height);
  }
  let last = -9;
  for (const h of scene.hits) {
    const at = Math.round(x(h.ts_rel - offsetOf(h.track)));
    if (at < 0 || at > width || at - last < 2) continue;
    last = at;
    g.fillRect(at - 1, bottom - 4 * unit, 2, 4 * unit);
  }
  g.fillStyle = variable("--bad");
  for (const l of scene.info.losses) {
    const at = l.ts_rel === null ? -1 : x(l.ts_rel);
    if (at < 0 || at > width) continue;
    g.fillRect(at - 1, 0, 2.5 * unit, height);
  }
}
