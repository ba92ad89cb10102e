// Steps × ranks: where a rank differs from the others in the same step.

import { useMemo } from "preact/hooks";
import { divergePixel, heatPixel } from "../color";
import { us } from "../format";
import { HeatMap } from "../heat";
import { go, setParams, useRoute } from "../route";
import { ScaleLegend } from "../scale";
import { useStore } from "../store";
import { dark } from "../theme";
import type { Analysis, Breakdown, TraceInfo } from "../types";
import { Empty, Panel, Select, Switch } from "../ui";

type Part = "own" | "compute_us" | "exposed_comm_us" | "idle_us" | "data_us" | "forward_us" | "backward_us" | "optimizer_us";
const parts: { value: Part; text: string }[] = [
  { value: "own", text: "own work (all but waiting)" },
  { value: "compute_us", text: "computation" },
  { value: "exposed_comm_us", text: "exposed communication" },
  { value: "idle_us", text: "idle" },
  { value: "data_us", text: "data loading" },
  { value: "forward_us", text: "forward" },
  { value: "backward_us", text: "backward" },
  { value: "optimizer_us", text: "optimizer" },
];

function valueOf(b: Breakdown, part: Part): number | null {
  if (part !== "own") return b[part];
  return b.compute_us === null ? null : b.compute_us + (b.data_us ?? 0) + (b.idle_us ?? 0);
}

export function StepHeat({ data, trace }: { data: Analysis; trace: TraceInfo }) {
  const { params } = useRoute();
  const isDark = useStore(dark);
  const part = (params.get("part") as Part | null) ?? "own";
  // One rank has nobody to be compared with.
  const alone = new Set(data.breakdown.map((b) => b.rank)).size < 2;
  const absolute = alone || params.get("as") === "time";
  const table = useMemo(() => {
    const ranks = [...new Set(data.breakdown.map((b) => b.rank ?? -1))].sort((a, b) => a - b);
    const steps = [...new Set(data.breakdown.map((b) => b.step))].sort((a, b) => (a ?? -1) - (b ?? -1));
    const row = new Map(ranks.map((r, i) => [r, i]));
    const column = new Map(steps.map((s, i) => [s, i]));
    const values: (number | null)[][] = ranks.map(() => new Array<number | null>(steps.length).fill(null));
    for (const b of data.breakdown) values[row.get(b.rank ?? -1)!][column.get(b.step)!] = valueOf(b, part);
    const medians = steps.map((_, c) => {
      const all = values.map((v) => v[c]).filter((v): v is number => v !== null).sort((a, b) => a - b);
      return all.length ? all[all.length >> 1] : null;
    });
    let most = 0;
    let widest = 0;
    values.forEach((v) => v.forEach((x, c) => x !== null && ((most = Math.max(most, x)), (widest = Math.max(widest, Math.abs(x - medians[c]!))))));
    const lengths = data.steps.map((s) => s.duration_us);
    const typical = lengths.sort((a, b) => a - b)[lengths.length >> 1] ?? most;
    return { ranks, steps, values, medians, most: most || 1, widest: Math.max(widest, typical * 0.02) || 1 };
  }, [data, part]);
  const color = useMemo(
    () => (r: number, c: number) => {
      const v = table.values[r][c];
      if (v === null) return 0;
      return absolute ? heatPixel(v / table.most) : divergePixel((v - table.medians[c]!) / table.widest, isDark);
    },
    [table, absolute, isDark],
  );
  const rows = useMemo(() => table.ranks.map((r) => (r < 0 ? "rank unknown" : `rank ${r}`)), [table]);
  // Whoever is to blame is always named.
  const named = useMemo(() => {
    const blamed = new Set(data.blame.filter((b) => b.significant).map((b) => b.rank));
    return new Set(table.ranks.flatMap((r, i) => (blamed.has(r) ? [i] : [])));
  }, [data, table]);
  const open = (r: number, c: number) => {
    const step = data.steps.find((s) => s.step === table.steps[c]);
    if (!step) return go("timeline", { trace: trace.id, rank: table.ranks[r] });
    const start = BigInt(step.start_ns);
    const room = (share: number) => String(start + BigInt(Math.round(step.duration_us * 1000 * share)));
    go("timeline", { trace: trace.id, rank: table.ranks[r], abs_from: room(-0.1), abs_to: room(1.1) });
  };
  return (
    <Panel
      title="Steps × ranks"
      aside={
        <>
          {absolute ? <ScaleLegend from="0" to={us(table.most)} /> : <ScaleLegend from={`${us(-table.widest)}`} to={`+${us(table.widest)}`} diverging />}
          {!alone && <Switch
            label="Colours show"
            value={absolute ? "time" : "difference"}
            options={[
              { value: "difference", text: "compared with the median" },
              { value: "time", text: "time" },
            ]}
            onChange={(v) => setParams({ as: v === "time" ? "time" : null })}
          />}
          <Select label="Share of a step" hideLabel value={part} options={parts} onChange={(v) => setParams({ part: v === "own" ? null : v })} />
        </>
      }
    >
      {table.steps.length ? (
        <div class="heat-chart">
          <HeatMap
            label="Steps by ranks"
            rows={rows}
            columns={table.steps.length}
            color={color}
            axis={(c) => `step ${table.steps[c]}`}
            tip={(r, c) => {
              const v = table.values[r][c];
              const d = v === null ? null : v - table.medians[c]!;
              return (
                <>
                  <b>{rows[r]}</b>, step {table.steps[c]}: {us(v)}
                  <div>{d === null ? "not measured" : `${d >= 0 ? "+" : ""}${us(d)} compared with the median rank`}</div>
                  <div class="fine">click to see it in the timeline</div>
                </>
              );
            }}
            onPick={open}
            named={named}
            rowHeight={1.5}
            maxHeight={26}
          />
        </div>
      ) : (
        <Empty title="This trace has no steps">Mark them in the program with tracesmith.h or torch.profiler's step() to compare them here.</Empty>
      )}
    </Panel>
  );
}
