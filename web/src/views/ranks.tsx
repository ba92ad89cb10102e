// Who made everybody wait: the analysis of a trace.

import { useEffect } from "preact/hooks";
import { ApiError, get, trace } from "../api";
import { percent } from "../format";
import { causeTitles } from "../model";
import { link } from "../route";
import { traceState } from "../statusbar";
import { TracePicker, useTrace } from "../traces";
import type { Analysis, TraceInfo } from "../types";
import { Chip, Empty, Failed, Loading, Panel, useLoad } from "../ui";
import { BlameTable, LinkTable, WhatIf } from "./blame";
import { CommMatrix } from "./matrix";
import { StepHeat } from "./stepheat";
import { TopologyPicture } from "./topology";

export function useAnalysis(id: string | null, state: string | undefined) {
  return useLoad(id && `analysis ${id} ${state}`, (signal) => get<Analysis>(`${trace(id!)}/analysis`, signal));
}

export function Ranks() {
  const chosen = useTrace();
  const t = chosen.trace;
  const { data, error, progress, reload } = useAnalysis(t?.id ?? null, t?.state);
  useEffect(() => {
    const bounds = (data?.clock ?? []).flatMap((c) => (c.bound_ns === null ? [] : [c.bound_ns]));
    if (data) traceState.set({ losses: data.losses, bound: bounds.length ? Math.max(...bounds) : null, notes: [] });
    return () => traceState.set(null);
  }, [data]);
  if (!t) return chosen.instead;
  return (
    <div class="ranks">
      <div class="tools">
        <TracePicker chosen={chosen} />
        <span class="fill" />
        <a href={link("timeline", { trace: t.id })}>Timeline of this trace</a>
      </div>
      {error ? (
        error instanceof ApiError && error.status === 400 ? (
          <Empty title="Nothing to compare in this trace">{error.message}</Empty>
        ) : (
          <Failed what="The analysis" error={error} retry={reload} />
        )
      ) : !data ? (
        <Loading what="Analyzing the trace" progress={progress} />
      ) : (
        <Findings data={data} trace={t} />
      )}
    </div>
  );
}

export function Verdict({ data }: { data: Analysis }) {
  const v = data.verdict;
  const kind = v.kind === "none" ? "good" : v.kind === "unknown" ? "warn" : "bad";
  return (
    <div class={`verdict ${kind}`} role="status">
      <p>{v.text}</p>
      {v.next && (
        <p class="verdict-next">
          <b>What to do:</b> {v.next}
        </p>
      )}
      {v.also.length > 0 && (
        <ul class="verdict-also" aria-label="What else stands out">
          {v.also.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      )}
      <div class="verdict-facts">
        {v.cause && <Chip kind={kind}>cause: {causeTitles[v.cause]}</Chip>}
        {v.confidence !== null && v.kind !== "none" && <Chip>{percent(v.confidence)} sure</Chip>}
        {data.notes.map((note, i) => (
          <span class="fine" key={`note${i}`}>
            {note}
          </span>
        ))}
        {data.unknowns.map((u, i) => (
          <span class="fine" key={i}>
            {u}
          </span>
        ))}
      </div>
    </div>
  );
}

function Findings({ data, trace: t }: { data: Analysis; trace: TraceInfo }) {
  return (
    <>
      <Verdict data={data} />
      <StepHeat data={data} trace={t} />
      <div class="two">
        <Panel title="What each rank cost the others" aside="cost: total time the other ranks waited for it">
          {data.blame.length ? <BlameTable data={data} trace={t} /> : <Empty title="No rank made another rank wait" />}
        </Panel>
        <div class="stack">
          <WhatIf data={data} />
          <LinkTable data={data} />
        </div>
      </div>
      <div class="two even">
        <CommMatrix data={data} />
        <TopologyPicture trace={t} />
      </div>
    </>
  );
}
