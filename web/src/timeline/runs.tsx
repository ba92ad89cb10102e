// Two traces above each other: what their common step, or a selected stretch, takes in each of them, name by name.

import { get, query, trace } from "../api";
import { duration } from "../format";
import { setParams, useRoute } from "../route";
import type { Stats, TimelineInfo } from "../types";
import { Failed, useLoad } from "../ui";
import { ByNames } from "./bynames";
import { isAskedFor } from "./layout";
import { inSecond, numberOf, type Shown, type StepOf } from "./two";

export const ranksOf = (tracks: { rank: number | null }[]): number => Math.max(1, new Set(tracks.flatMap((t) => (t.rank === null ? [] : [t.rank]))).size);

export function RunsPanel({ info, second, steps }: { info: Shown; second: TimelineInfo; steps: [StepOf, StepOf] }) {
  const rows = useRoute().params.get("rows") ?? "";
  const load = useLoad(`runs ${info.id} ${second.id} ${steps[0].name} ${steps[1].name} ${rows}`, (signal) =>
    Promise.all(
      [info, second].map(async (of, i) => {
        const tracks = info.tracks.filter((t) => inSecond(t.id) === i > 0 && isAskedFor(t, rows));
        const { from, to } = steps[i];
        if (!tracks.length) return { title: of.title, stats: { span_ns: to - from, by_name: [], names: 0, by_type: [], busy_share: null }, ranks: 1 };
        const stats = await get<Stats>(`${trace(of.id)}/stats${query({ from, to: Math.max(from + 1, to), tracks: tracks.map((t) => numberOf(t.id)).join(",") })}`, signal);
        return { title: i ? `${second.title} (below)` : info.title, stats, ranks: ranksOf(tracks) };
      }),
    ),
  );
  if (load.error) return <Failed what="The comparison" error={load.error} retry={load.reload} />;
  if (!load.data) return <p class="fine pad">Counting …</p>;
  const [a, b] = steps.map((s) => s.to - s.from);
  return (
    <div class="dock-columns">
      <div class="area-summary">
        <h2>{steps[0].name === steps[1].name ? steps[0].name : `${steps[0].name} and ${steps[1].name}`}</h2>
        <p class="fine">where the two traces are aligned{rows && `; of ${rows}`}</p>
        <dl class="facts one">
          <div>
            <dt>{info.title}</dt>
            <dd>{duration(a)}</dd>
          </div>
          <div>
            <dt>{second.title}</dt>
            <dd>
              {duration(b)} ({b >= a ? "+" : "−"}
              {duration(Math.abs(b - a))})
            </dd>
          </div>
        </dl>
        <p class="fine">
          Drag over tracks of both to compare another part, or{" "}
          <button type="button" class="link" onClick={() => setParams({ with: null, align: null })}>
            show one trace
          </button>
          .
        </p>
      </div>
      <ByNames label="Difference by name" columns={load.data} />
    </div>
  );
}
