// Names and units of metrics, asked for once a connection.

import { get, query } from "./api";
import { useLoad } from "./ui";
import type { MetricName, MetricNames } from "./types";

export const defaultMetric = "gpu_utilization_percent";

const suffixes: [RegExp, string][] = [
  [/percent$/, "%"],
  [/bytes$/, "B"],
  [/bytes_per_second$/, "B/s"],
  [/watts$/, "W"],
  [/celsius$/, "°C"],
  [/mhz$/, "MHz"],
  [/joules$/, "J"],
  [/seconds$/, "s"],
  [/_ns$/, "ns"],
];

export function useMetricNames(trace: string | null = null): MetricName[] | null {
  return useLoad(`names ${trace}`, (signal) => get<MetricNames>(`/api/v1/metrics/names${query({ trace })}`, signal)).data?.metrics ?? null;
}

/** The unit as the server says it, or as the name ends. */
export function unitOf(name: string, names: MetricName[] | null): string {
  return names?.find((m) => m.name === name)?.unit ?? suffixes.find(([end]) => end.test(name))?.[1] ?? "";
}

/** The span a metric is coloured over: its natural one if it has one, else what there is. */
export function spanOf(unit: string, ...series: (number | null)[][]): [number, number] {
  if (unit === "%") return [0, 100];
  let low = Infinity;
  let high = -Infinity;
  for (const values of series)
    for (const v of values) {
      if (v === null) continue;
      if (v < low) low = v;
      if (v > high) high = v;
    }
  if (!Number.isFinite(low)) return [0, 1];
  if (unit === "°C") return [Math.min(20, low), Math.max(90, high)];
  if (unit === "MHz") return low === high ? [0, high || 1] : [low, high];
  return [Math.min(0, low), high || 1];
}
