import { useState } from "preact/hooks";
import { between, none, percent, plural, us } from "../format";
import { causeTitles } from "../model";
import { link } from "../route";
import type { Analysis, Blame, TraceInfo } from "../types";
import { Chip, Empty, Panel, Table } from "../ui";
import { clockBound } from "./bound";

export function BlameTable({ data, trace }: { data: Analysis; trace: TraceInfo }) {
  const [all, setAll] = useState(false);
  // Those something is wrong with first. What cannot be explained and costs next to nothing is folded.
  const known = data.blame.filter((b) => b.significant || (b.confidence ?? 0) > 0.3 || (b.saved_pct ?? 0) > 0);
  const folded = known.length > 0 && !all ? known : data.blame;
  const rows = folded.slice(0, 64);
  const bound = clockBound(data);
  const most = Math.max(1, ...rows.map((b) => b.cost_us ?? 0));
  return (
    <>
    <Table<Blame>
      label="Cost of each rank"
      rows={rows}
      id={(b) => b.rank ?? -1}
      columns={[
        {
          title: "rank",
          cell: (b) => (
            <a href={link("timeline", { trace: trace.id, rank: b.rank })} title="Show it in the timeline">
              {b.rank === null ? none : `rank ${b.rank}`}
            </a>
          ),
        },
        { title: "node", cell: (b) => b.node ?? none },
        {
          title: "cost",
          number: true,
          hint: "Total time the other ranks waited for it in collectives",
          cell: (b) => (
            <span class="bar-cell">
              <i style={{ width: `${Math.max(0, ((b.cost_us ?? 0) / most) * 100)}%` }} class={b.significant ? "bad" : ""} />
              <span>{between(b.cost_us === null ? null : b.cost_us * 1000, bound)}</span>
            </span>
          ),
        },
        { title: "lost", number: true, hint: "Waits that no computation hides", cell: (b) => between(b.lost_us === null ? null : b.lost_us * 1000, bound) },
        { title: "would save", number: true, hint: "What the job would gain if this rank were as fast as the others", cell: (b) => (b.saved_pct === null ? none : `${b.saved_pct.toFixed(1)} %`) },
        { title: "cause", cell: (b) => (b.cause ? <Chip kind={b.significant ? "bad" : "plain"}>{causeTitles[b.cause]}</Chip> : none) },
        { title: "sure", number: true, cell: (b) => percent(b.confidence) },
        { title: "evidence", wide: true, cell: (b) => b.evidence ?? "" },
      ]}
    />
    {known.length > 0 && data.blame.length > known.length && (
      <p class="pad">
        <button type="button" class="small" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? "Fold" : "Show"} {plural(data.blame.length - known.length, "rank")} that nothing explains
        </button>
      </p>
    )}
    </>
  );
}

export function LinkTable({ data }: { data: Analysis }) {
  return (
    <Panel title="Communicators and links">
      {data.links.length ? (
        <Table
          label="Communicators and links"
          rows={data.links.slice(0, 64)}
          id={(l) => l.group}
          columns={[
            { title: "group", cell: (l) => l.group },
            { title: "ranks", number: true, cell: (l) => l.ranks.length },
            { title: "bus", number: true, hint: "Bus bandwidth", cell: (l) => (l.busbw_gbps === null ? none : `${l.busbw_gbps.toFixed(1)} GB/s`) },
            { title: "slower by", number: true, cell: (l) => (l.slowdown === null ? none : <span class={l.significant ? "lost" : ""}>{l.slowdown.toFixed(2)} ×</span>) },
          ]}
        />
      ) : (
        <Empty title="No collectives recorded">If the trace has NCCL events, slow links appear here.</Empty>
      )}
    </Panel>
  );
}

export function WhatIf({ data }: { data: Analysis }) {
  const c = data.critical_path;
  return (
    <Panel title="What if" aside={c ? `critical path: ${us(c.total_us)}` : undefined}>
      {c && c.what_if.length ? (
        <ul class="what-if">
          {[...c.what_if].sort((a, b) => b.saved_us - a.saved_us).map((w) => (
            <li key={w.if}>
              <span>{w.if}</span>
              <b>{w.saved_pct.toFixed(1)} % less</b>
              <span class="fine">{us(w.saved_us)}</span>
            </li>
          ))}
        </ul>
      ) : c ? (
        <Empty title="No what-ifs">The replay {Math.abs(c.replay_error_pct) <= 100 ? `is ${Math.abs(c.replay_error_pct).toFixed(1)} % off the job, too far to tell` : "does not reproduce the job: it cannot tell"} what a change would save.</Empty>
      ) : (
        <Empty title="Nothing to replay">The job is replayed over its collectives; this trace has none.</Empty>
      )}
    </Panel>
  );
}
