// What a job loses time with, largest first, and where to look.

import { percent, us } from "../format";
import { causeTitles, type Cause } from "../model";
import { link } from "../route";
import type { Analysis, TraceInfo } from "../types";
import { Panel } from "../ui";
import { timeParts } from "./timebars";

interface Item {
  what: string;
  /** Share of the job's time. */
  share: number;
  /** Whether that is what a change would save; else it is how long it takes. */
  saves: boolean;
  how: string;
  href: string;
  /** Of a loss of time: what it is as the analysis names it. */
  causes?: Cause[];
}

const least = 0.001;

export function lossesOf(data: Analysis, trace: TraceInfo): Item[] {
  const items: Item[] = [];
  const ranks = (more: Record<string, string | number | null>) => link("ranks", { trace: trace.id, ...more });
  for (const b of data.blame)
    if (b.significant && b.saved_pct)
      items.push({
        what: `Rank ${b.rank}${b.cause ? `: ${causeTitles[b.cause]}` : ""}`,
        share: b.saved_pct / 100,
        saves: true,
        how: b.evidence ?? "it is slower than its peers",
        href: link("timeline", { trace: trace.id, rank: b.rank }),
      });
  for (const l of data.links)
    if (l.significant && l.saved_pct) items.push({ what: `Link ${l.group}`, share: l.saved_pct / 100, saves: true, how: l.evidence ?? "it is slower than its peers", href: ranks({}) });
  for (const w of data.critical_path?.what_if ?? [])
    // What a rank or link that stands here already would save is not said twice.
    if (w.saved_pct > 0 && !items.some((x) => new RegExp(`\\b${x.what.split(":")[0].toLowerCase()}\\b`).test(w.if)))
      items.push({ what: `If ${w.if}`, share: w.saved_pct / 100, saves: true, how: `the job would take ${us(w.job_us)}`, href: ranks({}) });
  const sums = timeParts.map((p) => data.breakdown.reduce((all, b) => all + p.of(b), 0));
  const all = sums.reduce((a, b) => a + b, 0);
  const where: Record<string, string> = { exposed: "exposed_comm_us", copies: "data_us", data: "data_us", idle: "idle_us" };
  const causes: Record<string, Cause[]> = { exposed: ["communication"], copies: ["copies"], data: ["data_loading"], idle: ["launch_bound", "host"] };
  timeParts.forEach((p, i) => {
    if (where[p.key] && all > 0) items.push({ causes: causes[p.key], what: `The GPU ${p.text}`, share: sums[i] / all, saves: false, how: p.hint.toLowerCase(), href: ranks({ part: where[p.key] }) });
  });
  return items.filter((x) => x.share >= least).sort((a, b) => b.share - a.share);
}

export function Losses({ data, trace }: { data: Analysis; trace: TraceInfo }) {
  const items = lossesOf(data, trace);
  if (!items.length) return null;
  const top = items[0].share;
  return (
    <Panel title="What costs time" aside="share of the job's time, largest first">
      <ol class="losses">
        {items.slice(0, 12).map((x) => (
          <li key={x.what}>
            <b>{percent(x.share, 1)}</b>
            <span class="bar-cell">
              <i style={{ width: `${(x.share / top) * 100}%` }} class={x.share >= 0.1 ? "bad" : ""} />
            </span>
            <a href={x.href}>{x.what}</a>
            <span class="fine" title={x.how}>
              {x.saves ? "would be saved; " : ""}
              {x.how}
            </span>
          </li>
        ))}
      </ol>
    </Panel>
  );
}
