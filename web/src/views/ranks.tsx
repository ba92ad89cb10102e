// Who made everybody wait: the analysis of a trace.

import { useEffect } from "preact/hooks";
import { ApiError, request, trace } from "../api";
import { percent } from "../format";
import { link } from "../route";
import { traceState } from "../statusbar";
import { TracePicker, useTrace } from "../traces";
import type { Analysis, TraceInfo } from "../types";
import { Chip, Empty, Failed, Panel, useLoad } from "../ui";
import { BlameTable, LinkTable, WhatIf } from "./blame";
import { CommMatrix } from "./matrix";
import { StepHeat } from "./stepheat";
import { TopologyPicture } from "./topology";

/** The analysis; while it runs, how far it is. */
export function useAnalysis(id: string | null, state: string | undefined) {
  const load = useLoad(id && `analysis ${id} ${state}`, async (signal) => {
    const response = await request(`${trace(id!)}/analysis`, { signal });
    const body = await response.json();
    if (response.status === 202) throw new Running((body as { progress?: number }).progress ?? null);
    return body as Analysis;
  });
  const running = load.error instanceof Running ? load.error : null;
  useEffect(() => {
    if (!running) return;
    const timer = setTimeout(load.reload, 700);
    return () => clearTimeout(timer);
  }, [running]);
  return { ...load, error: running ? null : load.error, running };
}

class Running extends Error {
  constructor(readonly progress: number | null) {
    super("the analysis runs");
  }
}

export function Ranks() {
  const chosen = useTrace();
  const t = chosen.trace;
  const { data, error, running, reload } = useAnalysis(t?.id ?? null, t?.state);
  useEffect(() => {
    if (data) traceState.set({ losses: data.losses, bound: null, notes: [] });
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
          <Empty title="There is nothing to compare in this trace">{error.message}</Empty>
        ) : (
          <Failed what="The analysis" error={error} retry={reload} />
        )
      ) : !data || running ? (
        <div class="state loading" role="status">
          <p>Analyzing the trace{running?.progress != null ? `: ${percent(running.progress > 1 ? running.progress / 100 : running.progress)}` : ""} …</p>
        </div>
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
      <div class="verdict-facts">
        {v.cause && <Chip kind={kind}>cause: {v.cause.replace(/_/g, " ")}</Chip>}
        {v.confidence !== null && v.kind !== "none" && <Chip>{percent(v.confidence)} sure</Chip>}
        {data.unknowns.map((u, i) => (
          <span class="fine" key={i}>
            {typeof u === "string" ? u : (u.text ?? [u.what, u.why].filter(Boolean).join(": "))}
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
        <Panel title="What each rank cost the others" aside="cost: time the other ranks waited for it, added up">
          {data.blame.length ? <BlameTable data={data} trace={t} /> : <Empty title="No rank made another one wait" />}
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
