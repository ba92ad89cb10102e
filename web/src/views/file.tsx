// A recorded trace at a glance.

import { useEffect } from "preact/hooks";
import { get, trace as tracePath } from "../api";
import { count, dateTime, duration, none, us } from "../format";
import { link } from "../route";
import { traceState } from "../statusbar";
import { useTrace } from "../traces";
import type { TimelineInfo, TraceInfo } from "../types";
import { Empty, Failed, Loading, Panel, useLoad } from "../ui";
import { WorstCollectives } from "./collectives";
import { KernelTable, ModuleTable } from "./gputime";
import { Losses } from "./losses";
import { OutlierKernels, SlowSteps } from "./outliers";
import { useAnalysis, Verdict } from "./ranks";
import { TimeBars } from "./timebars";

export function FileOverview() {
  const chosen = useTrace();
  if (!chosen.trace) return chosen.instead;
  return <FileSummary trace={chosen.trace} />;
}

function FileSummary({ trace: t }: { trace: TraceInfo }) {
  const timeline = useLoad(`timeline ${t.id}`, (signal) => get<TimelineInfo>(`${tracePath(t.id)}/timeline`, signal));
  const analysis = useAnalysis(t.id, t.state);
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
  const a = analysis.data;
  const times: [string, string][] =
    a && a.steps.length
      ? [
          ["start-up, not counted", us(a.startup_us)],
          ["job, without start-up", us(a.job_us)],
          ["steps", `${count(a.steps.length)} of ${us(a.step_us)}`],
        ]
      : [];
  const facts: [string, string][] = [
    ["recorded", dateTime(t.start)],
    ["length", duration(info.duration_ns)],
    ...times,
    ["events", count(t.events)],
    ["nodes", nodes.size > 1 || info.tracks.some((x) => x.node) ? count(nodes.size) : none],
    ["ranks", a ? (a.world_size && a.world_size > a.ranks ? `${count(a.ranks)} of ${count(a.world_size)}` : count(a.ranks)) : ranks.size ? count(ranks.size) : none],
    ["tracks", count(info.tracks.length)],
    ...(nodes.size > 1 ? [["clock difference within", info.clock_bound_ns === null ? "not known" : duration(info.clock_bound_ns)] as [string, string]] : []),
    ["lost records", count(lost)],
  ];
  return (
    <div class="ranks">
      {analysis.data ? (
        <Verdict data={analysis.data} trace={t} />
      ) : (
        <div class="verdict" role="status">
          <p>{analysis.error ? analysis.error.message : "Analyzing the trace …"}</p>
          <div class="verdict-facts" />
        </div>
      )}
      <div class="two diagnosis">
        <div class="stack">
          {a ? (
            <>
              <TimeBars data={a} trace={t} />
              <Losses data={a} trace={t} />
              <WorstCollectives data={a} trace={t} />
              <SlowSteps data={a} trace={t} />
              <KernelTable data={a} trace={t} />
              <OutlierKernels trace={t} />
              <ModuleTable data={a} />
            </>
          ) : (
            <Panel title="Where GPU time goes">{analysis.error ? <Empty title="Unknown">{analysis.error.message}</Empty> : <Loading what="Analyzing" progress={analysis.progress} />}</Panel>
          )}
        </div>
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
      </div>
    </div>
  );
}
