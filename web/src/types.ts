// The shapes of /api/v1. Times in ns that can pass 2^53 are strings of digits. What travels between processes is declared in
// src/model of TraceSmith: its types are made from there when the page is built.

import type { Alert, Blame, Breakdown, ClockResult, CriticalPath, HangVerdict, KernelResult, LinkResult, LossResult, MatrixCell, NodeStatus as NodeInfo, SessionInfo as Session, SessionState, StepResult, Verdict } from "./model";
export type { Alert, Blame, Breakdown, KernelResult, NodeInfo, Session };

export interface Info {
  version: string;
  mode: "cluster" | "file";
  title: string;
  simulated: boolean;
  role: "viewer" | "operator" | "admin";
  now: string;
  notes?: string[];
}

export interface Nodes {
  nodes: NodeInfo[];
  now: string;
  stored_bytes: number | null;
  problem: string | null;
}

export interface Latest {
  now: string;
  devices: { node: string; index: number; name: string; metrics: Record<string, number | null>; age_s: number | null }[];
}

export interface MetricName {
  name: string;
  unit: string;
}

export interface Series {
  metric: string;
  unit: string;
  t0: string;
  step_ms: number;
  times: number[];
  series: { node: string; index: number | null; name: string; values: (number | null)[] }[];
}

export interface TraceInfo {
  id: string;
  title: string;
  kind: "session" | "file";
  state: SessionState;
  start: string;
  end: string | null;
  events: number | null;
  simulated: boolean;
}

export interface Loss {
  node?: string | null;
  rank?: number | null;
  cause: string;
  count: number;
}

export interface Track {
  id: number;
  node: string | null;
  rank: number | null;
  device: number | null;
  stream: number | null;
  tid: number | string | null;
  kind: "stream" | "thread" | "collectives" | "steps";
  name: string;
  group: string;
  events: number;
  depth?: number;
}

export interface TimelineInfo {
  id: string;
  title: string;
  origin: string;
  duration_ns: number;
  simulated: boolean;
  clock_bound_ns: number | null;
  losses: Loss[];
  notes: string[];
  tracks: Track[];
  types: string[];
}

/** [bucket, busy share, count, name, type] */
export type Bucket = [number, number, number, number, number];
/** [start, duration, name, type, row id, depth] */
export type Slice = [number, number, number, number, string | number, number];

export interface TileAnswer {
  from: number;
  to: number;
  names: string[];
  communication: number[]; // which of the names are kernels that communicate
  tracks: { id: number; detail: "buckets" | "slices"; buckets?: Bucket[]; slices?: Slice[] }[];
}

export interface EventDetail {
  name: string;
  type: string;
  ts: string;
  dur: number;
  node: string | null;
  rank: number | null;
  flow?: { track: number; ts_rel: number; dur: number; name: string; row_id?: string }[] | null;
  collective?: CollectiveDetail | null;
  [more: string]: unknown;
}

export interface CollectiveDetail {
  op: string;
  group: string;
  seq: number | string | null;
  bytes: number | null;
  algbw_gbps: number | null;
  busbw_gbps: number | null;
  culprit_rank: number | null;
  arrivals: { rank: number; track: number | null; ts_rel: number; end_rel: number; wait_ns: number | null }[];
}

export interface StatLine {
  name: string;
  type: string;
  count: number;
  total_ns: number;
  mean_ns: number;
  min_ns: number;
  max_ns: number;
}

export interface Stats {
  span_ns: number;
  by_name: StatLine[];
  by_type: StatLine[];
  busy_share: number | null;
}

export interface Hit {
  track: number;
  ts_rel: number;
  dur: number;
  name: string;
  type: string;
  row_id: string;
}

export interface Analysis {
  simulated: boolean;
  verdict: Verdict;
  unknowns: (string | { text?: string; what?: string; why?: string })[];
  notes: string[]; // how the answer knows what the trace does not say
  ranks: number;
  job_us: number | null; // from the first step to the last
  startup_us: number | null; // recorded before the first step, and not counted
  step_us: number | null;
  kernels: KernelResult[];
  steps: StepResult[];
  breakdown: Breakdown[];
  blame: Blame[];
  links: LinkResult[];
  matrix: { pattern: string | null; note: string | null; cells: MatrixCell[] } | null;
  critical_path: CriticalPath | null;
  clock: ClockResult[];
  losses: LossResult[];
}

export interface Topology {
  nodes: {
    node: string;
    gpus: { index: number; name: string }[];
    simulated: boolean;
    links: { from: number; to: number; peer_node?: string; kind: string; count: number | null; bandwidth_gbps: number | null; measured: boolean }[];
    nics: { name: string; kind: string; state: string; speed_mbit: number | null; near: { gpu: number; nearness: string }[] }[];
  }[];
}

export interface Schema {
  tables: { name: string; columns: { name: string; type: string; doc: string }[] }[];
}

export type Cell = string | number | boolean | null | object;

export interface QueryResult {
  columns: { name: string; type: string }[];
  rows: Cell[][];
  row_count: number;
  truncated: boolean;
  seconds: number;
  notes?: string[];
}

/** The verdict of the watcher, and the last alerts. */
export interface Hang extends HangVerdict {
  alerts: Alert[];
}

/** In one word, for people. */
export function stateOf(node: NodeInfo): "healthy" | "unhealthy" | "disconnected" {
  return !node.connected ? "disconnected" : node.healthy ? "healthy" : "unhealthy";
}
