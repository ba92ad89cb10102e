// The GPU time of a selected stretch by the ranges its work was launched in: phases of a step and modules of the model.

import { post } from "../api";
import { count, duration, none, percent } from "../format";
import type { QueryResult, TimelineInfo, Track } from "../types";
import { Empty, Failed, Table, useLoad } from "../ui";

interface Line {
  phase: string | null;
  module: string | null;
  total: number;
  kernels: number;
}

/** Outermost range below the step, of any thread: autograd launches on its own; and the innermost one of the thread. */
const sqlOf = (from: bigint, to: bigint, ranks: number[]): string => {
  const some = ranks.length ? ` AND (rank IS NULL OR rank IN (${ranks.join(", ")}))` : "";
  return `WITH work AS (SELECT row_number() OVER () AS id, coalesce(rank, -1) AS r, correlation, dur FROM events
  WHERE type IN ('kernel', 'memcpy', 'memset') AND reference_ts(node, ts) BETWEEN ${from} AND ${to}${some}),
calls AS (SELECT coalesce(rank, -1) AS r, correlation, tid, min(ts) AS ts FROM events WHERE type IN ('runtime', 'driver') AND correlation IS NOT NULL GROUP BY ALL),
ranges AS (SELECT coalesce(rank, -1) AS r, tid, ts, ts_end, name FROM events WHERE type = 'annotation' AND name NOT LIKE 'ProfilerStep#%' AND name NOT SIMILAR TO 'step [0-9]+'),
placed AS (SELECT work.id, work.dur, arg_min(ranges.name, ranges.ts) AS phase, arg_max(ranges.name, ranges.ts) FILTER (ranges.tid = calls.tid) AS module
  FROM work LEFT JOIN calls USING (r, correlation) LEFT JOIN ranges ON ranges.r = calls.r AND calls.ts >= ranges.ts AND calls.ts < ranges.ts_end
  GROUP BY work.id, work.dur)
SELECT phase, CASE WHEN module <> phase THEN module END AS module, sum(dur) AS total, count(*) AS n FROM placed GROUP BY ALL ORDER BY total DESC LIMIT 200`;
};

export function RangesTab(props: { info: TimelineInfo; id: string; from: number; to: number; tracks: Track[]; trace: string | null }) {
  const { info } = props;
  const load = useLoad(`ranges ${props.id}`, async (signal) => {
    const ranks = [...new Set(props.tracks.flatMap((t) => (t.rank === null ? [] : [t.rank])))];
    const at = (t: number) => BigInt(info.origin) + BigInt(Math.round(t));
    const answer = await post<QueryResult>("/api/v1/query", { sql: sqlOf(at(props.from), at(props.to), ranks), ...(props.trace ? { trace: props.trace } : {}), max_rows: 200, timeout_s: 60 }, signal);
    return answer.rows.map((r): Line => ({ phase: r[0] as string | null, module: r[1] as string | null, total: Number(r[2]), kernels: Number(r[3]) }));
  });
  if (load.error) return <Failed what="The ranges" error={load.error} retry={load.reload} />;
  if (!load.data) return <p class="fine pad">Counting …</p>;
  const lines = load.data;
  const whole = lines.reduce((sum, l) => sum + l.total, 0);
  if (!lines.some((l) => l.phase !== null)) return <Empty title="No ranges around what was launched here">Modules are recorded by the hooks of torch on some steps; other ranges by torch.profiler.record_function or NVTX.</Empty>;
  return (
    <Table<Line>
      label="GPU time by phase and module"
      rows={lines}
      id={(l) => `${l.phase} ${l.module}`}
      columns={[
        { title: "phase", hint: "The outermost range of the step at the time the work was launched", cell: (l) => l.phase ?? "in no range" },
        { title: "module", hint: "The innermost range of the thread that launched it", cell: (l) => (l.module ?? none).replace(/^module( backward)?: /, "") },
        { title: "GPU time", number: true, cell: (l) => duration(l.total) },
        { title: "share", number: true, cell: (l) => percent(whole ? l.total / whole : null, 1) },
        { title: "kernels", number: true, cell: (l) => count(l.kernels) },
      ]}
    />
  );
}
