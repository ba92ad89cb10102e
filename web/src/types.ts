// The shapes of /api/v1. Times in ns that can pass 2^53 are strings of digits. What the server sends is declared in
// src/model of TraceSmith: its types are made from there when the page is built.

import type { EventHead, EventJoins, LossResult, NodeStatus as NodeInfo, QueryReport, TimelineLoss } from "./model";
export type { Alert, Blame, Breakdown, ClockHistory, CollectiveDetail, FlameGraph, KernelResult, MetricName, ModuleResult, NameSum, SearchAnswer, TileAnswer, TimelineInfo, Track, TraceInfo, TraceList, TypeSum } from "./model";
export type { AnalysisResult as Analysis, BalancedJob, BalanceStatus, ClusterNodes as Nodes, ClusterStatus, HangAnswer as Hang, LatestMetrics as Latest, MetricNames, MetricSeries as Series, NodeStatus as NodeInfo, RankMetrics } from "./model";
export type { SchemaAnswer as Schema, SearchHit as Hit, ServerInfo as Info, SessionInfo as Session, SessionList, TileBucket as Bucket, TileSlice as Slice, TimelineStats as Stats, TopologyAnswer as Topology } from "./model";

/** Of the timeline by node, of the analysis by rank. */
export type Loss = TimelineLoss | LossResult;

/** A row of a timeline: what all have, the columns of its table, and what it is joined with. */
export type EventDetail = EventHead & EventJoins & { dur: number; node: string | null; rank: number | null; [column: string]: unknown };

export type Cell = string | number | boolean | null | object;

/** Columns and rows come from the query engine. */
export interface QueryResult extends QueryReport {
  columns: { name: string; type: string }[];
  rows: Cell[][];
}

/** In one word, for people. */
export function stateOf(node: NodeInfo): "healthy" | "unhealthy" | "disconnected" {
  return !node.connected ? "disconnected" : node.healthy ? "healthy" : "unhealthy";
}
