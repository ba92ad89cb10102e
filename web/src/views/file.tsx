// A recorded trace at a glance.

import { useEffect } from "preact/hooks";
import { get, post, trace as tracePath } from "../api";
import { noteCommunication, sliceColor } from "../color";
import { count, dateTime, duration, none, percent, plural } from "../format";
import { link } from "../route";
import { traceState } from "../statusbar";
import { useTrace } from "../traces";
import type { QueryResult, TimelineInfo, TraceInfo } from "../types";
import { Empty, Failed, Loading, Panel, useLoad } from "../ui";
import { useAnalysis, Verdict } from "./ranks";

const topKernels =
  "SELECT name, type, CAST(sum(dur) AS DOUBLE) AS total, sum(sum(dur)) OVER () AS all_time, is_communication(name) FROM (SELECT name, type, dur FROM events WHERE NOT EXISTS (FROM event_summaries) UNION ALL SELECT name, type, total FROM event_summaries) WHERE type IN ('kernel', 'memcpy', 'memset') GROUP BY name, type ORDER BY total DESC LIMIT 12";

export function FileOverview() {
  const chosen = useTrace();
  if (!chosen.trace) return chosen.instead;
  return <FileSummary trace={chosen.trace} />;
}

function FileSummary({ trace: t }: { trace: TraceInfo }) {
  const timeline = useLoad(`timeline ${t.id}`, (signal) => get<TimelineInfo>(`${tracePath(t.id)}/timeline`, signal));
  const analysis = useAnalysis(t.id, t.state);
  const top = useLoad("top kernels", async (signal) => {
    const result = await post<QueryResult>("/api/v1/query", { sql: topKernels }, signal);
    noteCommunication(result.rows.filter((r) => r[4]).map((r) => String(r[0])));
    return result;
  });
  const info = timeline.data;
  useEffect(() => {
    if (info) traceState.set({ losses: info.losses, bound: info.clock_bound_ns, notes: info.notes });
    return () => traceState.set(null);
  }, [info]);
  if (timeline.error && !info) return <Failed what="The trace" error={timeline.error} retry={timeline.reload} />;
  if (!info) return <Loading what="Reading the trace" progress={timeline.progress} />;
  const nodes = new Set(info.tracks.map((x) => x.node));
  const ranks = new Set(info.tracks.flatMap((x) => (x.rank === null ? [] : [x.rank])));
  const lost = info.losses.reduce((sum, l) => sum + l.count, 0);
  const facts: [string, string][] = [
    ["recorded", dateTime(t.start)],
    ["length", duration(info.duration_ns)],
    ["events", count(t.events)],
    ["nodes", count(nodes.size)],
    ["ranks", ranks.size ? count(ranks.size) : none],
    ["tracks", count(info.tracks.length)],
    ["clock difference within", info.clock_bound_ns === null ? "not known" : duration(info.clock_bound_ns)],
    ["lost records", count(lost)],
  ];
  return (
    <div class="ranks">
      {analysis.data ? (
        <Verdict data={analysis.data} />
      ) : (
        <div class="verdict" role="status">
          <p>{analysis.error ? analysis.error.message : "Analyzing the trace …"}</p>
          <div class="verdict-facts" />
        </div>
      )}
      <div class="two even node-details">
        <div class="stack">
          <Panel title={t.title}>
            <dl class="facts one pad">
              {facts.map(([k, v]) => (
                <div key={k}>
                  <dt>{k}</dt>
                  <dd>{v}</dd>
                </div>
              ))}
            </dl>
            <p class="pad go-links">
              <a href={link("timeline")}>Timeline</a> <a href={link("ranks")}>Ranks</a> <a href={link("sql")}>SQL</a>
            </p>
          </Panel>
          {lost > 0 && (
            <Panel title="What was lost">
              <ul class="what-if">
                {info.losses.map((l, i) => (
                  <li key={i}>
                    <span>{l.cause}</span>
                    <b class="lost">{count(l.count)}</b>
                    <span class="fine">{l.node ?? ""}</span>
                  </li>
                ))}
              </ul>
            </Panel>
          )}
        </div>
        <Panel title="Where GPU time goes" aside={top.data ? plural(top.data.rows.length, "name") : undefined}>
          {top.error ? (
            <Empty title="Unknown">{top.error.message}</Empty>
          ) : !top.data ? (
            <Loading what="Counting" />
          ) : top.data.rows.length === 0 ? (
            <Empty title="No kernels recorded" />
          ) : (
            <ol class="bars" aria-label="Kernels by time">
              {top.data.rows.map((r) => {
                const share = Number(r[2]) / Number(r[3] || 1);
                return (
                  <li key={String(r[0])}>
                    <span title={String(r[0])}>{String(r[0])}</span>
                    <i style={{ width: `${(Number(r[2]) / Number(top.data!.rows[0][2])) * 100}%`, background: sliceColor(String(r[0]), String(r[1])) }} />
                    <b>
                      {duration(Number(r[2]))} · {percent(share)}
                    </b>
                  </li>
                );
              })}
            </ol>
          )}
        </Panel>
      </div>
    </div>
  );
}
