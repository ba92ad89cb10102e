// What stands out: the slowest steps with what made them slow, and kernels that took much longer than they usually do.

import { useMemo } from "preact/hooks";
import { post } from "../api";
import { count, none, percent, us } from "../format";
import { toReference } from "../moments";
import { shortName } from "../names";
import { link } from "../route";
import type { Analysis, QueryResult, TraceInfo } from "../types";
import { Panel, Table, useLoad } from "../ui";
import { stepLink, timeParts } from "./timebars";

const most = 8;
/** A step is slow when it takes so much longer than the median. */
const slowShare = 1.03;
/** Of more kernels nobody waits for the answer. */
const mostEvents = 5_000_000;

interface SlowStep {
  step: number;
  rank: number | null;
  length: number;
  share: number;
  why: string;
}

const median = (list: number[]): number => [...list].sort((a, b) => a - b)[list.length >> 1] ?? 0;

function slowSteps(data: Analysis): SlowStep[] {
  const lengths = data.steps.map((s) => s.duration_us);
  const usual = median(lengths);
  const usualParts = timeParts.map((p) => median(data.breakdown.map(p.of)));
  return data.steps
    .filter((s) => s.step !== null && s.duration_us > usual * slowShare)
    .sort((a, b) => b.duration_us - a.duration_us)
    .slice(0, most)
    .map((s) => {
      // The rank and the part of its time that grew most.
      let rank: number | null = null;
      let part = -1;
      let grown = 0;
      for (const b of data.breakdown.filter((x) => x.step === s.step))
        timeParts.forEach((p, i) => {
          // Whoever only communicates waits for somebody.
          const by = (p.of(b) - usualParts[i]) * (p.key === "exposed" ? 0.5 : 1);
          if (by > grown) [grown, rank, part] = [by, b.rank, i];
        });
      const by = part >= 0 ? grown / (timeParts[part].key === "exposed" ? 0.5 : 1) : 0;
      return { step: s.step!, rank, length: s.duration_us, share: s.duration_us / usual - 1, why: part >= 0 ? `${timeParts[part].text} ${us(by)} longer than usual` : none };
    });
}

export function SlowSteps({ data, trace }: { data: Analysis; trace: TraceInfo }) {
  const rows = useMemo(() => slowSteps(data), [data]);
  if (!rows.length || data.steps.length < 4) return null;
  return (
    <Panel title="Slowest steps" aside={`compared with the median, ${us(median(data.steps.map((s) => s.duration_us)))}`}>
      <Table<SlowStep>
        label="Slowest steps"
        rows={rows}
        id={(s) => s.step}
        columns={[
          { title: "step", cell: (s) => <a href={stepLink(trace, data, s.step, s.rank)}>step {s.step}</a> },
          { title: "took", number: true, cell: (s) => us(s.length) },
          { title: "longer by", number: true, cell: (s) => `+${percent(s.share, s.share < 0.1 ? 1 : 0)}` },
          { title: "rank", cell: (s) => (s.rank === null ? none : `rank ${s.rank}`) },
          { title: "what grew most", wide: true, cell: (s) => s.why },
        ]}
      />
    </Panel>
  );
}

interface Outlier {
  name: string;
  rank: number | null;
  ts: bigint;
  dur: number;
  usual: number;
  count: number;
}

const sql = `WITH usual AS (SELECT name, median(dur) AS m, count(*) AS n FROM events WHERE type = 'kernel' AND name NOT ILIKE '%nccl%' GROUP BY name HAVING count(*) >= 10)
SELECT e.name, e.rank, e.node, e.ts, e.dur, CAST(usual.m AS BIGINT), usual.n FROM events e JOIN usual USING (name)
WHERE e.type = 'kernel' AND e.dur > 2 * usual.m AND e.dur - usual.m > 10000 ORDER BY e.dur - usual.m DESC LIMIT ${most}`;

async function outliersOf(trace: TraceInfo, signal: AbortSignal): Promise<Outlier[]> {
  const id = trace.kind === "file" ? (trace.id === "file" ? null : trace.id) : trace.id;
  const answer = await post<QueryResult>("/api/v1/query", { sql, ...(id ? { trace: id } : {}), max_rows: most, timeout_s: 30 }, signal);
  const moments = answer.rows.map((r) => ({ ts: BigInt(String(r[3])), dur: BigInt(String(r[4])), node: r[2] as string | null, rank: r[1] as number | null }));
  const times = await toReference(moments, id, BigInt(trace.start), trace.end ? BigInt(trace.end) : 1n << 62n, signal);
  return answer.rows.map((r, i) => ({ name: String(r[0]), rank: moments[i].rank, ts: times[i], dur: Number(r[4]), usual: Number(r[5]), count: Number(r[6]) }));
}

export function OutlierKernels({ trace }: { trace: TraceInfo }) {
  const load = useLoad(trace.events !== null && trace.events <= mostEvents ? `outliers ${trace.id}` : null, (signal) => outliersOf(trace, signal));
  const rows = load.data ?? [];
  if (!rows.length) return null;
  return (
    <Panel title="Kernels that took unusually long" aside="compared with the median of the same kernel">
      <Table<Outlier>
        label="Kernels that took unusually long"
        rows={rows}
        id={(o) => `${o.rank} ${o.ts}`}
        columns={[
          { title: "took", number: true, cell: (o) => us(o.dur / 1e3) },
          { title: "usually", number: true, cell: (o) => us(o.usual / 1e3) },
          { title: "of", number: true, hint: "How many there are", cell: (o) => count(o.count) },
          { title: "rank", cell: (o) => (o.rank === null ? none : `rank ${o.rank}`) },
          {
            title: "kernel",
            wide: true,
            cell: (o) => (
              <a class="kernel-name" href={link("timeline", { trace: trace.id, rank: o.rank, abs_from: String(o.ts - BigInt(o.dur)), abs_to: String(o.ts + 2n * BigInt(o.dur)) })} title={`${o.name}\nClick to see it in the timeline`}>
                {shortName(o.name)}
              </a>
            ),
          },
        ]}
      />
    </Panel>
  );
}
