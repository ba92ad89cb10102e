// Metrics of GPUs as rows under their ranks: power, clocks, memory and the like, over the time of the trace.

import { get, query } from "../api";
import { metricTitle, withUnit } from "../format";
import type { MetricNames, Series, TimelineInfo } from "../types";

export interface Counter {
  key: string;
  label: string;
  node: string;
  device: number;
  unit: string;
  /** ns after the origin. */
  t: Float64Array;
  /** NaN: not measured. */
  values: Float64Array;
  most: number;
  /** ns between two values. */
  step: number;
}

const points = 4000;
const preferred = ["gpu_power_watts", "gpu_sm_clock_mhz"];

/** Which metrics a trace has. */
export async function counterNames(id: string, signal: AbortSignal): Promise<string[]> {
  const all = (await get<MetricNames>(`/api/v1/metrics/names${query({ trace: id })}`, signal)).metrics.map((m) => m.name);
  return all.filter((name) => name.startsWith("gpu_"));
}

export const defaultCounters = (names: string[]): string[] => preferred.filter((n) => names.includes(n));

export async function loadCounters(info: TimelineInfo, metrics: string[], signal: AbortSignal): Promise<Counter[]> {
  const answers = await Promise.all(metrics.map((metric) => get<Series>(`/api/v1/metrics/series${query({ metric, trace: info.id, points })}`, signal)));
  return answers.flatMap((a, i) => {
    const begin = Number(BigInt(a.t0) - BigInt(info.origin));
    const t = Float64Array.from(a.times, (ms) => begin + ms * 1e6);
    return a.series.flatMap((line) => {
      if (line.index === null) return [];
      const values = Float64Array.from(line.values, (v) => v ?? NaN);
      const most = values.reduce((m, v) => (v > m ? v : m), 0);
      return [{ key: `c${i}_${line.node}_${line.index}`, label: metricTitle(metrics[i]), node: line.node, device: line.index, unit: a.unit, t, values, most: a.unit === "%" ? 100 : most || 1, step: a.step_ms * 1e6 }];
    });
  });
}

/** The value at a time, for the tip; null: none near it. */
export function valueAt(c: Counter, t: number): number | null {
  let low = 0;
  let high = c.t.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (c.t[middle] < t) low = middle + 1;
    else high = middle;
  }
  let best: number | null = null;
  let distance = 2 * c.step;
  for (let i = Math.max(0, low - 2); i < Math.min(c.t.length, low + 2); i++)
    if (!Number.isNaN(c.values[i]) && Math.abs(c.t[i] - t) < distance) {
      distance = Math.abs(c.t[i] - t);
      best = c.values[i];
    }
  return best;
}

export const counterText = (c: Counter, value: number): string => withUnit(value, c.unit);
