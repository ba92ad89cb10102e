// Who made everybody wait: the analysis of a trace.

import { useEffect } from "preact/hooks";
import { ApiError, get, trace } from "../api";
import { percent } from "../format";
import { causeAdvice, causeTitles } from "../model";
import { link } from "../route";
import { traceState } from "../statusbar";
import { TracePicker, useTrace } from "../traces";
import type { Analysis, TraceInfo } from "../types";
import { Chip, Empty, Failed, Loading, Panel, useLoad } from "../ui";
import { BlameTable, LinkTable, WhatIf } from "./blame";
import { WorstCollectives } from "./collectives";
import { Losses, lossesOf } from "./losses";
import { CommMatrix } from "./matrix";
import { SlowSteps } from "./outliers";
import { StacksPanel } from "./stacks";
import { StepHeat } from "./stepheat";
import { TimeBars } from "./timebars";
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
      <StacksPanel trace={t} />
    </div>
  );
}

/** By what it costs, whoever is to blame; `lost`: the largest share of time in which the GPUs do not compute. */
function severity(v: Analysis["verdict"], lost: number): "good" | "warn" | "bad" {
  const cost = (v.cost_pct ?? 0) / 100;
  if (v.cause === "hang" || cost >= 0.1 || lost >= 0.5) return "bad";
  return cost >= 0.02 || lost >= 0.15 || v.kind === "unknown" ? "warn" : "good";
}

/** With a capital letter in front, unless it begins with a name. */
export const sentence = (text: string): string => (/^[a-z]+[\s,:;]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text);

export function Verdict({ data, trace }: { data: Analysis; trace: TraceInfo }) {
  const v = data.verdict;
  const largest = lossesOf(data, trace).find((x) => !x.saves) ?? null;
  const kind = severity(v, largest?.share ?? 0);
  const cost = (v.cost_pct ?? 0) / 100;
  const more = largest && largest.share > Math.max(0.05, cost * 1.2) ? largest : null;
  // The largest loss is the headline, whoever is to blame for a smaller one.
  const headline = more && v.kind !== "unknown" && more.share >= 0.15 && more.share > 2 * cost && cost > 0 ? more : null;
  const said = (
    <>
      {!headline && v.cost_pct !== null && v.cost_pct >= 0.1 && <b class="verdict-cost">{percent(cost, v.cost_pct < 10 ? 1 : 0)}</b>}
      {sentence(v.text)}
    </>
  );
  const other = more && (
    <>
      <b class={headline ? "verdict-cost" : ""}>{percent(more.share, more.share < 0.1 ? 1 : 0)}</b> of the time <a href={more.href}>{more.what.charAt(0).toLowerCase() + more.what.slice(1)}</a>: {more.how}
    </>
  );
  // Each has its own advice, below it.
  const advice = (text: string | null) =>
    text && (
      <p class="verdict-next">
        <b>What to do:</b> {sentence(text)}
      </p>
    );
  const own = headline && v.own_loss && headline.causes?.includes(v.own_loss) ? causeAdvice[v.own_loss] : null;
  return (
    <div class={`verdict ${kind}`} role="status">
      <p>{headline ? other : said}</p>
      {advice(headline ? own : v.next)}
      {more && <p class="verdict-more">{headline ? said : other}</p>}
      {headline && advice(v.next)}
      {v.where.length > 0 && (
        <ul class="verdict-also" aria-label="Where the missing ranks were last">
          {v.where.map((text) => (
            <li key={text}>Last seen: {text}</li>
          ))}
        </ul>
      )}
      {v.also.length > 0 && (
        <ul class="verdict-also" aria-label="What else stands out">
          {v.also.map((text) => (
            <li key={text}>{sentence(text)}</li>
          ))}
        </ul>
      )}
      <div class="verdict-facts">
        {v.cause && <Chip kind={kind}>cause: {causeTitles[v.cause]}</Chip>}
        {v.confidence !== null && v.kind !== "none" && <Chip>{percent(v.confidence)} sure</Chip>}
        {data.notes.map((note, i) => (
          <span class="fine" key={`note${i}`}>
            {sentence(note)}
          </span>
        ))}
        {data.unknowns.map((u, i) => (
          <span class="fine" key={i}>
            {sentence(u)}
          </span>
        ))}
      </div>
    </div>
  );
}

function Findings({ data, trace: t }: { data: Analysis; trace: TraceInfo }) {
  return (
    <>
      <Verdict data={data} trace={t} />
      {t.kind === "session" && (
        <>
          <TimeBars data={data} trace={t} />
          <Losses data={data} trace={t} />
          <SlowSteps data={data} trace={t} />
        </>
      )}
      <StepHeat data={data} trace={t} />
      {data.ranks > 1 ? (
        <>
          <div class="two">
            <Panel title="What each rank cost the others" aside="cost: total time the other ranks waited for it">
              {data.blame.length ? <BlameTable data={data} trace={t} /> : <Empty title="No rank made another rank wait" />}
            </Panel>
            <div class="stack">
              <WhatIf data={data} />
              <LinkTable data={data} />
            </div>
          </div>
          <WorstCollectives data={data} trace={t} />
          <div class="two even">
            {data.matrix.cells.length > 0 && <CommMatrix data={data} />}
            <TopologyPicture trace={t} />
          </div>
        </>
      ) : (
        <>
          <Losses data={data} trace={t} />
          {data.links.length > 0 && <LinkTable data={data} />}
          <p class="fine pad">This trace has one rank, so there is nobody to compare it with. Record all ranks of the job, or give the folder with their files, to see who waits for whom.</p>
        </>
      )}
    </>
  );
}
