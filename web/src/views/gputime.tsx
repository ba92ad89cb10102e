// Where the time of the GPUs goes: what they do or wait for, and in which kernels.

import { useEffect } from "preact/hooks";
import { noteCommunication, sliceColor } from "../color";
import { count, percent, plural, us } from "../format";
import type { Analysis, KernelResult } from "../types";
import { Empty, Panel, Table } from "../ui";

/** Shares of the steps of all ranks. Without kernels it is the host that computes. */
function shares(data: Analysis): { what: string; hint: string; us: number; color: string }[] {
  const sum = (of: (b: Analysis["breakdown"][number]) => number | null) => data.breakdown.reduce((all, b) => all + (of(b) ?? 0), 0);
  return [
    { what: "computes", hint: "At least one compute kernel runs", us: sum((b) => b.compute_us), color: sliceColor("", "kernel") },
    { what: "only communicates", hint: "Collectives run, but no computation", us: sum((b) => b.exposed_comm_us), color: sliceColor("", "collective") },
    { what: "only copies", hint: "Only memory copies and memsets run", us: sum((b) => b.copy_us), color: sliceColor("", "memcpy") },
    { what: "waits for data", hint: "Nothing runs while the host waits for its data loader", us: sum((b) => (b.data_us ?? 0) - (b.copy_us ?? 0)), color: "var(--warn)" },
    { what: "is idle", hint: "Nothing runs: the host has launched nothing, or waits", us: sum((b) => b.idle_us), color: "var(--line)" },
  ];
}

export function GpuTime({ data }: { data: Analysis }) {
  const rows = shares(data);
  const all = rows.reduce((sum, r) => sum + r.us, 0);
  const steps = data.steps.length ? `${plural(data.steps.length, "step")} of ${us(data.step_us)}` : "the whole recording";
  return (
    <Panel title="Where GPU time goes" aside={steps}>
      {all <= 0 ? (
        <Empty title="Unknown">This trace has no events of a GPU or its host.</Empty>
      ) : (
        <ol class="bars" aria-label="What the GPUs do">
          {rows.map((r) => (
            <li key={r.what} title={r.hint}>
              <span>{r.what}</span>
              <i style={{ width: `${(r.us / all) * 100}%`, background: r.color }} />
              <b>
                {us(r.us)} · {percent(r.us / all, 1)}
              </b>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

export function KernelTable({ data }: { data: Analysis }) {
  useEffect(() => noteCommunication(data.kernels.filter((k) => k.communication).map((k) => k.name)), [data]);
  return (
    <Panel title="Largest kernels" aside={data.steps.length ? "in the steps, without start-up" : undefined}>
      {data.kernels.length ? (
        <Table<KernelResult>
          label="Largest kernels"
          rows={data.kernels.slice(0, 12)}
          id={(k) => k.name}
          columns={[
            {
              title: "share",
              number: true,
              hint: "Share of the time of all kernels",
              cell: (k) => (
                <span class="bar-cell">
                  <i style={{ width: `${k.share_pct ?? 0}%` }} />
                  <span>{percent((k.share_pct ?? 0) / 100, 1)}</span>
                </span>
              ),
            },
            { title: "total", number: true, cell: (k) => us(k.total_us) },
            { title: "mean", number: true, cell: (k) => us(k.mean_us) },
            { title: "count", number: true, cell: (k) => count(k.count) },
            { title: "kernel", wide: true, cell: (k) => <span class="kernel-name" title={k.name}>{k.name}</span> },
          ]}
        />
      ) : (
        <Empty title="No kernels recorded" />
      )}
    </Panel>
  );
}
