// Where the time of ranks and steps goes, as stacked bars: one for each rank, and one column for each step.

import { useMemo } from "preact/hooks";
import { sliceColor } from "../color";
import { percent, plural, us } from "../format";
import { link } from "../route";
import type { Analysis, Breakdown, TraceInfo } from "../types";
import { Panel } from "../ui";

interface Part {
  key: string;
  text: string;
  hint: string;
  color: string;
  of: (b: Breakdown) => number;
}

/** What a moment of a GPU is counted as; they add up to the step. Without kernels it is the host that computes. */
export const timeParts: Part[] = [
  { key: "compute", text: "computes", hint: "At least one compute kernel runs", color: sliceColor("", "kernel"), of: (b) => b.compute_us ?? 0 },
  { key: "exposed", text: "only communicates", hint: "Collectives run, but no computation", color: sliceColor("", "collective"), of: (b) => b.exposed_comm_us ?? 0 },
  { key: "copies", text: "only copies", hint: "Only memory copies and memsets run", color: sliceColor("", "memcpy"), of: (b) => b.copy_us ?? 0 },
  { key: "data", text: "waits for data", hint: "Nothing runs while the host waits for its data loader", color: "var(--warn)", of: (b) => Math.max(0, (b.data_us ?? 0) - (b.copy_us ?? 0)) },
  { key: "idle", text: "is idle", hint: "Nothing runs: the host has launched nothing, or waits", color: "var(--line-strong)", of: (b) => b.idle_us ?? 0 },
];

const most = 32;
const columns = 240;

interface Sum {
  parts: number[];
  hidden: number;
  total: number;
}

function sumOf(list: Breakdown[]): Sum {
  const parts = timeParts.map((p) => list.reduce((all, b) => all + p.of(b), 0));
  return { parts, hidden: list.reduce((all, b) => all + (b.hidden_comm_us ?? 0), 0), total: parts.reduce((a, b) => a + b, 0) };
}

const says = (s: Sum): string =>
  [...timeParts.map((p, i) => `${p.text}: ${us(s.parts[i])} (${percent(s.total ? s.parts[i] / s.total : 0, 1)})`), `communication hidden under computation: ${us(s.hidden)}`].join("\n");

function Bar({ sum, widest }: { sum: Sum; widest: number }) {
  const share = (x: number) => `${widest > 0 ? (x / widest) * 100 : 0}%`;
  return (
    <span class="stacked" title={says(sum)}>
      {timeParts.map((p, i) => sum.parts[i] > 0 && <i key={p.key} style={{ width: share(sum.parts[i]), background: p.color }} />)}
      {sum.hidden > 0 && <em style={{ width: share(Math.min(sum.hidden, sum.parts[0])), background: timeParts[1].color }} />}
    </span>
  );
}

function Key({ all }: { all: Sum }) {
  return (
    <p class="legend pad" aria-label="What the GPUs do">
      {timeParts.map((p, i) => (
        <span key={p.key} title={p.hint}>
          <i class="swatch" style={{ background: p.color }} />
          <span class="what">{p.text}</span> <b>{percent(all.total ? all.parts[i] / all.total : 0, 1)}</b>
        </span>
      ))}
      {all.hidden > 0 && (
        <span title="Communication while a kernel computes: it costs nothing">
          <i class="swatch thin" style={{ background: timeParts[1].color }} />
          hidden communication <b>{percent(all.hidden / all.total, 1)}</b>
        </span>
      )}
    </p>
  );
}

/** A stretch around a step, for the timeline. */
export function stepLink(trace: TraceInfo, data: Analysis, step: number | null, rank: number | null): string {
  const s = data.steps.find((x) => x.step === step);
  if (!s) return link("timeline", { trace: trace.id, rank });
  const at = (share: number) => String(BigInt(s.start_ns) + BigInt(Math.round((s.slowest_us ?? s.duration_us) * 1000 * share)));
  return link("timeline", { trace: trace.id, rank, abs_from: at(-0.1), abs_to: at(1.1) });
}

export function TimeBars({ data, trace }: { data: Analysis; trace: TraceInfo }) {
  const { all, ranks, steps } = useMemo(() => {
    const by = <K,>(key: (b: Breakdown) => K): Map<K, Breakdown[]> => {
      const groups = new Map<K, Breakdown[]>();
      for (const b of data.breakdown) {
        const list = groups.get(key(b));
        if (list) list.push(b);
        else groups.set(key(b), [b]);
      }
      return groups;
    };
    return {
      all: sumOf(data.breakdown),
      ranks: [...by((b) => b.rank)].map(([rank, list]) => ({ rank, sum: sumOf(list) })).sort((a, b) => (a.rank ?? -1) - (b.rank ?? -1)),
      steps: [...by((b) => b.step)].map(([step, list]) => ({ step, ranks: list.length, sum: sumOf(list) })).sort((a, b) => (a.step ?? -1) - (b.step ?? -1)),
    };
  }, [data]);
  if (all.total <= 0) return null;
  // Of very many ranks those that compute longest: they are the ones the others wait for.
  const shown = ranks.length <= most ? ranks : [...ranks].sort((a, b) => b.sum.parts[0] - a.sum.parts[0]).slice(0, most);
  const widest = Math.max(...ranks.map((r) => r.sum.total));
  const inSteps = data.steps.length > 0;
  return (
    <Panel title="Where GPU time goes" aside={inSteps ? `${plural(data.steps.length, "step")} of ${us(data.step_us)}` : "the whole recording"}>
      <Key all={all} />
      <ol class="time-bars" aria-label="Time of each rank">
        {shown.map((r) => (
          <li key={r.rank}>
            <a href={link("timeline", { trace: trace.id, rank: r.rank })}>{r.rank === null ? "all" : `rank ${r.rank}`}</a>
            <Bar sum={r.sum} widest={widest} />
            <b>{us(r.sum.total / Math.max(1, inSteps ? steps.length : 1))}</b>
          </li>
        ))}
      </ol>
      {shown.length < ranks.length && (
        <p class="fine pad">
          The {most} of {ranks.length} ranks that compute longest. <a href={link("ranks", { trace: trace.id })}>All ranks</a>
        </p>
      )}
      {inSteps && steps.length > 1 && <StepChart data={data} trace={trace} steps={steps} />}
    </Panel>
  );
}

/** Steps side by side; a column is the mean of the ranks. Of very many steps the slowest of each stretch is shown. */
function StepChart({ data, trace, steps }: { data: Analysis; trace: TraceInfo; steps: { step: number | null; ranks: number; sum: Sum }[] }) {
  const known = steps.filter((s) => s.step !== null);
  const each = Math.max(1, Math.ceil(known.length / columns));
  const shown = Array.from({ length: Math.ceil(known.length / each) }, (_, i) =>
    known.slice(i * each, (i + 1) * each).reduce((a, b) => (b.sum.total / b.ranks > a.sum.total / a.ranks ? b : a)),
  );
  if (!shown.length) return null;
  const top = Math.max(...shown.map((s) => s.sum.total / s.ranks));
  const slowest = shown.reduce((a, b) => (b.sum.total / b.ranks > a.sum.total / a.ranks ? b : a));
  return (
    <>
      <h3 class="pad step-title">
        Steps
        <span class="fine">
          {each > 1 ? `the slowest of every ${each}; ` : ""}
          up to {us(top)}: <a href={stepLink(trace, data, slowest.step, null)}>step {slowest.step}</a>
        </span>
      </h3>
      <div class="step-chart" role="list" aria-label="Time of each step">
        {shown.map((s) => (
          <a role="listitem" key={s.step} href={stepLink(trace, data, s.step, null)} title={`step ${s.step}: ${us(s.sum.total / s.ranks)}\n${says(s.sum)}`} aria-label={`step ${s.step}: ${us(s.sum.total / s.ranks)}`}>
            {timeParts.map((p, i) => s.sum.parts[i] > 0 && <i key={p.key} style={{ height: `${(s.sum.parts[i] / s.ranks / top) * 100}%`, background: p.color }} />)}
          </a>
        ))}
      </div>
      <p class="step-axis fine pad">
        <span>step {shown[0].step}</span>
        <span>step {shown[shown.length - 1].step}</span>
      </p>
    </>
  );
}
