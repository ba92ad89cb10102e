// Where the time of the GPUs goes: what they do or wait for, and in which kernels.

import { useEffect } from "preact/hooks";
import { noteCommunication } from "../color";
import { bytes, count, percent, us } from "../format";
import { shortName } from "../names";
import { link } from "../route";
import type { Analysis, KernelResult, ModuleResult, TraceInfo } from "../types";
import { Panel, Table } from "../ui";

export function KernelTable({ data, trace }: { data: Analysis; trace: TraceInfo }) {
  useEffect(() => noteCommunication(data.kernels.filter((k) => k.communication).map((k) => k.name)), [data]);
  if (!data.kernels.length) return null;
  return (
    <Panel title="Largest kernels" aside={data.steps.length ? "in the steps, without start-up" : undefined}>
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
            { title: "kernel", wide: true, cell: (k) => (
              <a class="kernel-name" href={link("timeline", { trace: trace.id, q: k.name })} title={`${k.name}\nClick to find it in the timeline`}>
                {shortName(k.name)}
              </a>
            ) },
          ]}
        />
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
