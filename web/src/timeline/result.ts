// Rows of a query as a track: whatever has a time, under the eyes while one looks at the rest.

import { post } from "../api";
import { plural } from "../format";
import { momentColumns, momentOf, toReference } from "../moments";
import { shortName } from "../names";
import type { Cell, QueryResult, TimelineInfo } from "../types";

export interface ResultTrack {
  title: string;
  start: Float64Array;
  /** 0: an instant. */
  length: Float64Array;
  level: Uint8Array;
  text: string[];
  depth: number;
}

const mostRows = 10_000;
const mostLevels = 6;

export async function loadResult(info: TimelineInfo, sql: string, trace: string | null, signal: AbortSignal): Promise<ResultTrack> {
  const result = await post<QueryResult>("/api/v1/query", { sql, ...(trace ? { trace } : {}), max_rows: mostRows, timeout_s: 30 }, signal);
  const [at, long] = momentColumns(result);
  if (at < 0) throw new Error("the query has no column ts");
  const placed = result.rows.flatMap((row) => {
    const moment = momentOf(result, row);
    return moment ? [{ row, moment }] : [];
  });
  const origin = BigInt(info.origin);
  const starts = await toReference(placed.map((p) => p.moment), trace, origin - 1_000_000_000n, origin + BigInt(info.duration_ns) + 1_000_000_000n, signal);
  const rows = placed.map(({ row, moment }, i) => ({ row, start: Number(starts[i] - origin), length: Number(moment.dur ?? 0n) })).sort((a, b) => a.start - b.start);
  const ends: number[] = [];
  const others = result.columns.map((c, i) => ({ name: c.name, i })).filter(({ i }) => i !== at && i !== long);
  // What it is called, then what else the row says.
  others.sort((a, b) => Number(b.name === "name") - Number(a.name === "name"));
  const says = (row: Cell[]) => others.map(({ name, i }) => (name === "name" ? shortName(String(row[i])) : `${name} ${row[i] === null ? "NULL" : String(row[i])}`)).join(", ");
  const level = Uint8Array.from(rows, ({ start, length }) => {
    let l = ends.findIndex((end) => end <= start);
    if (l < 0) l = ends.length < mostLevels ? ends.length : mostLevels - 1;
    ends[l] = Math.max(ends[l] ?? 0, start + Math.max(1, length));
    return l;
  });
  return {
    title: `SQL: ${result.truncated ? "the first " : ""}${plural(rows.length, "row")}`,
    start: Float64Array.from(rows, (r) => r.start),
    length: Float64Array.from(rows, (r) => r.length),
    level,
    text: rows.map((r) => says(r.row)),
    depth: Math.max(1, ends.length),
  };
}

/** The row at a time and level; -1: none. */
export function resultAt(r: ResultTrack, t: number, level: number, near: number): number {
  let best = -1;
  let distance = near;
  for (let i = 0; i < r.start.length && r.start[i] <= t + near; i++) {
    if (r.level[i] !== level) continue;
    const d = Math.max(r.start[i] - t, t - r.start[i] - r.length[i], 0);
    if (d <= distance) {
      distance = d;
      best = i;
    }
  }
  return best;
}
