// Where the time of the GPUs goes: what they do or wait for, and in which kernels.

import { useEffect } from "preact/hooks";
import { noteCommunication, sliceColor } from "../color";
import { bytes, count, percent, plural, us } from "../format";
import type { Analysis, KernelResult, ModuleResult } from "../types";
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

/** Modules with the same pattern in one row, largest first. */
function byPattern(modules: ModuleResult[]) {
  const groups = new Map<string, { name: string; count: number; share: number; forward: number; backward: number; kept: number | null; slow: ModuleResult[] }>();
  for (const m of modules) {
    const name = m.kind ? `${m.pattern} (${m.kind})` : m.pattern;
    const g = groups.get(name) ?? { name, count: 0, share: 0, forward: 0, backward: 0, kept: null, slow: [] };
    g.count += 1;
    g.share += m.share_pct ?? 0;
    g.forward += m.forward_us ?? 0;
    g.backward += m.backward_us ?? 0;
    if (m.kept_bytes !== null) g.kept = (g.kept ?? 0) + m.kept_bytes;
    if (m.slowdown !== null) g.slow.push(m);
    groups.set(name, g);
  }
  return [...groups.values()].sort((a, b) => b.share - a.share);
}

/** What the hooks of torch recorded of the model; nothing without them. */
export function ModuleTable({ data }: { data: Analysis }) {
  if (!data.modules.length) return null;
  const where = data.modules[0].launch_us === null ? "host time" : "GPU time";
  const mfu = data.rate?.mfu_pct;
  const aside = `${where} of a step of a rank${mfu == null ? "" : ` · MFU ${percent(mfu / 100, 1)}`}`;
  return (
    <Panel title="Modules of the model" aside={aside}>
      <Table
        label="Modules of the model"
        rows={byPattern(data.modules).slice(0, 12)}
        id={(m) => m.name}
        columns={[
          {
            title: "share",
            number: true,
            hint: "Of the time of all modules; a module has those inside of it",
            cell: (m) => (
              <span class="bar-cell">
                <i style={{ width: `${Math.min(100, m.share)}%` }} />
                <span>{percent(m.share / 100, 1)}</span>
              </span>
            ),
          },
          { title: "forward", number: true, cell: (m) => us(m.forward) },
          { title: "backward", number: true, cell: (m) => us(m.backward) },
          { title: "keeps", number: true, hint: "GPU memory that the forward pass keeps, such as activations", cell: (m) => bytes(m.kept) },
          { title: "count", number: true, cell: (m) => count(m.count) },
          {
            title: "module",
            wide: true,
            cell: (m) => (
              <span class="kernel-name" title={m.name}>
                {m.name}
                {m.slow.map((s) => ` · ${s.name} takes ${(s.slowdown ?? 0).toFixed(1)} ×`)}
              </span>
            ),
          },
        ]}
      />
    </Panel>
  );
}
