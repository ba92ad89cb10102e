// Numbers as people read them. What was not measured is "–", never 0.

export const none = "–";

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(n: number | null | undefined): string {
  return n === null || n === undefined || !Number.isFinite(n) ? none : grouped.format(n);
}

/** Three significant digits, no exponent. */
export function short(n: number): string {
  const a = Math.abs(n);
  if (a >= 100 || a === 0) return grouped.format(n);
  if (a >= 10) return n.toFixed(1);
  if (a >= 0.1) return n.toFixed(2);
  if (a >= 0.001) return n.toFixed(4);
  return n.toExponential(1);
}

export function duration(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || !Number.isFinite(ns)) return none;
  const a = Math.abs(ns);
  if (a < 1e3) return `${grouped.format(ns)} ns`;
  if (a < 1e6) return `${short(ns / 1e3)} µs`;
  if (a < 1e9) return `${short(ns / 1e6)} ms`;
  if (a < 120e9) return `${short(ns / 1e9)} s`;
  const s = Math.round(ns / 1e9);
  if (a < 7200e9) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/** A time between two clocks that may be so far off each other: no more digits than that allows. */
export function between(ns: number | null | undefined, bound: number | null): string {
  if (ns === null || ns === undefined || !bound) return duration(ns);
  if (Math.abs(ns) < bound) return `< ${duration(bound)}`;
  const step = 10 ** Math.floor(Math.log10(bound));
  return duration(Math.round(ns / step) * step).replace(/(\.\d*?)0+ /, "$1 ").replace(/\. /, " ");
}

export const us = (value: number | null | undefined): string =>
  value === null || value === undefined ? none : duration(value * 1e3);

export function seconds(s: number | null | undefined): string {
  return s === null || s === undefined ? none : s < 0.95 ? `${s.toFixed(1)} s` : duration(s * 1e9);
}

export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined || !Number.isFinite(n)) return none;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  let value = n;
  while (Math.abs(value) >= 1024 && i < units.length - 1) {
    value /= 1024;
    i++;
  }
  return `${i === 0 ? grouped.format(value) : short(value)} ${units[i]}`;
}

export function percent(share: number | null | undefined, digits = 0): string {
  return share === null || share === undefined ? none : `${(share * 100).toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1")} %`;
}

/** A value with its unit as /metrics/names gives it. */
export function withUnit(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return none;
  if (unit === "B") return bytes(value);
  if (unit === "B/s") return `${bytes(value)}/s`;
  if (unit === "ns") return duration(value);
  if (unit === "%") return `${short(value)} %`;
  return unit ? `${short(value)} ${unit}` : short(value);
}

const clockFormat = new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dateFormat = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

export const toMs = (ns: string): number => Number(BigInt(ns) / 1000n) / 1000;
export const clockTime = (ns: string): string => clockFormat.format(toMs(ns));
export const dateTime = (ns: string): string => dateFormat.format(toMs(ns));

/** The time, with the date if it is not today's. */
export const shortTime = (ns: string): string => (new Date(toMs(ns)).toDateString() === new Date().toDateString() ? clockTime(ns) : dateTime(ns));

/** "gpu_power_watts" → "power": the unit is shown beside it. */
export function metricTitle(name: string): string {
  const text = name
    .replace(/^gpu_/, "")
    .replace(/_(percent|bytes_per_second|bytes|watts|celsius|mhz|joules|seconds|ns)$/, "")
    .replace(/_/g, " ");
  const plain = text.replace(/\b(sm|pcie|nvlink|ecc|cpu|rdma|fp16|fp32|fp64|dram|xid)\b/g, (w) => w.toUpperCase());
  return name.startsWith("gpu_") ? `GPU ${plain}` : plain;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

export const node_gpu = (node: string, index: number | null): string => (index === null ? node : `${node} · GPU ${index}`);

const natural = new Intl.Collator("en-US", { numeric: true });
/** "stream 7" before "stream 10". */
export const naturalOrder = (a: string, b: string): number => natural.compare(a, b);
