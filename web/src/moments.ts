// Rows of a query and their moments in the timeline: SQL has the raw times of nodes, the timeline the reference clock.

import { post } from "./api";
import type { Cell, QueryResult } from "./types";

const times = ["ts", "start_ns", "ts_start"];
const durations = ["dur", "duration_ns"];
const atOnce = 1000;

export interface Moment {
  ts: bigint;
  /** ns; null: none was asked for. */
  dur: bigint | null;
  node: string | null;
  rank: number | null;
}

const columnOf = (result: QueryResult, names: string[]): number => result.columns.findIndex((c) => names.includes(c.name.toLowerCase()));

/** Columns that say when and where a row is. */
export const momentColumns = (result: QueryResult): number[] => [columnOf(result, times), columnOf(result, durations)];

/** When and where a row is, if the query gave it. */
export function momentOf(result: QueryResult, row: Cell[]): Moment | null {
  const of = (names: string[]): Cell => {
    const i = columnOf(result, names);
    return i < 0 ? null : row[i];
  };
  const ts = of(times);
  if (ts === null || !/^\d{4,}$/.test(String(ts))) return null;
  const dur = of(durations);
  const rank = of(["rank"]);
  const node = of(["node"]);
  return {
    ts: BigInt(String(ts)),
    dur: /^\d+$/.test(String(dur)) ? BigInt(String(dur)) : null,
    node: typeof node === "string" ? node : null,
    rank: rank !== null && /^\d+$/.test(String(rank)) ? Number(rank) : null,
  };
}

export const hasMoments = (result: QueryResult): boolean => result.rows.some((row) => momentOf(result, row) !== null);

/** Their times on the reference clock. What lies between `start` and `end`, which the trace does, was there already. */
export async function toReference(list: Moment[], trace: string | null, start: bigint, end: bigint, signal?: AbortSignal): Promise<bigint[]> {
  const out = list.map((m) => m.ts);
  const raw = [...list.keys()].filter((i) => list[i].ts < start || list[i].ts > end);
  for (let at = 0; at < raw.length; at += atOnce) {
    const part = raw.slice(at, at + atOnce);
    const values = part.map((i) => `(${i}, ${list[i].node === null ? "NULL" : `'${list[i].node!.replace(/'/g, "''")}'`}, ${list[i].rank ?? "NULL"}::INTEGER, ${list[i].ts}::BIGINT)`);
    const sql = `WITH places AS (SELECT rank, any_value(node) AS node FROM processes GROUP BY rank), one AS (SELECT any_value(node) AS node FROM clocks)
SELECT i, reference_ts(coalesce(v.node, places.node, (SELECT node FROM one)), v.ts) FROM (VALUES ${values.join(", ")}) v(i, node, rank, ts) LEFT JOIN places ON places.rank = v.rank`;
    const answer = await post<QueryResult>("/api/v1/query", { sql, ...(trace ? { trace } : {}), max_rows: atOnce, timeout_s: 30 }, signal);
    for (const [i, ts] of answer.rows) if (ts !== null) out[Number(i)] = BigInt(String(ts));
  }
  return out;
}
