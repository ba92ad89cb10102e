// The shapes of /api/v1. Times in ns that can pass 2^53 are strings of digits. What travels between processes is declared in
// src/model of TraceSmith: its types are made from there when the page is built.

import type { Alert, Blame, Breakdown, ClockResult, CollectiveDetail, CriticalPath, HangVerdict, KernelResult, LinkResult, LossResult, MatrixCell, NodeStatus as NodeInfo, SearchHit, SessionInfo as Session, SessionState, StepResult, TimelineLoss, Verdict } from "./model";
export type { Alert, Blame, Breakdown, CollectiveDetail, KernelResult, NodeInfo, Session };
export type { NameSum, SearchAnswer, SearchHit as Hit, TimelineInfo, TimelineStats as Stats, TopologyAnswer as Topology, Track, TypeSum } from "./model";

/** Of the timeline by node, of the analysis by rank. */
export type Loss = TimelineLoss | LossResult;

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
  flow?: SearchHit[] | null;
  collective?: CollectiveDetail | null;
  [more: string]: unknown;
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
