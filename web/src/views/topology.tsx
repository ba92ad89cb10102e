// How the GPUs of a node are connected: a circle of GPUs for each kind of node.

import { get, query } from "../api";
import { plural } from "../format";
import type { Topology, TraceInfo } from "../types";
import { Empty, Failed, Loading, Panel, useLoad } from "../ui";

const kinds: [RegExp, string, number][] = [
  [/nvswitch|nvlink|xgmi/i, "var(--accent)", 2],
  [/pix|pxb|pcie|phb|switch/i, "#22a07e", 1.5],
  [/./, "var(--line-strong)", 1],
];
const lookOf = (kind: string) => kinds.find(([test]) => test.test(kind))!;

export function TopologyPicture({ trace }: { trace: TraceInfo | null }) {
  const load = useLoad(`topology ${trace?.id}`, (signal) => get<Topology>(`/api/v1/topology${query({ trace: trace?.id })}`, signal));
  // Nodes that look alike are drawn once.
  const alike = new Map<string, { nodes: string[]; shape: Topology["nodes"][number] }>();
  for (const n of load.data?.nodes ?? []) {
    const inside = n.links.filter((l) => !l.peer_node || l.peer_node === n.node).map(({ from, to, kind, bandwidth_gbps }) => ({ from, to, kind, bandwidth_gbps }));
    const key = JSON.stringify([n.gpus, inside]);
    const known = alike.get(key);
    if (known) known.nodes.push(n.node);
    else alike.set(key, { nodes: [n.node], shape: { ...n, links: inside } });
  }
  return (
    <Panel title="Topology">
      {load.error ? (
        <Failed what="The topology" error={load.error} />
      ) : !load.data ? (
        <Loading what="Asking for the topology" />
      ) : alike.size === 0 ? (
        <Empty title="Links between GPUs are not known here" command="tracesmith topo">
          On a node, this shows them:
        </Empty>
      ) : (
        <div class="topology">
          {[...alike.values()].slice(0, 6).map(({ nodes, shape }) => (
            <Circle key={nodes[0]} nodes={nodes} shape={shape} />
          ))}
        </div>
      )}
    </Panel>
  );
}

function Circle({ nodes, shape }: { nodes: string[]; shape: Topology["nodes"][number] }) {
  const n = shape.gpus.length;
  const at = (i: number): [number, number] => {
    const place = shape.gpus.findIndex((g) => g.index === i);
    const a = (place / Math.max(1, n)) * 2 * Math.PI - Math.PI / 2;
    return n === 1 ? [110, 110] : [110 + 84 * Math.cos(a), 110 + 84 * Math.sin(a)];
  };
  const used = [...new Set(shape.links.map((l) => `${l.kind}${l.bandwidth_gbps ? `, ${l.bandwidth_gbps} GB/s` : ""}`))];
  return (
    <figure>
      <svg viewBox="0 0 220 220" role="img" aria-label={`${plural(n, "GPU")} of ${nodes[0]}, ${plural(shape.links.length, "link")}`}>
        {shape.links
          .filter((l) => l.from < l.to || !shape.links.some((o) => o.from === l.to && o.to === l.from))
          .map((l) => {
            const [x1, y1] = at(l.from);
            const [x2, y2] = at(l.to);
            const [, color, width] = lookOf(l.kind);
            return (
              <line key={`${l.from} ${l.to} ${l.kind}`} x1={x1} y1={y1} x2={x2} y2={y2} stroke={color} stroke-width={width} opacity="0.75">
                <title>{`GPU ${l.from} – GPU ${l.to}: ${l.kind}${l.bandwidth_gbps ? `, ${l.bandwidth_gbps} GB/s` : ""}`}</title>
              </line>
            );
          })}
        {shape.gpus.map((g) => {
          const [x, y] = at(g.index);
          return (
            <g key={g.index}>
              <circle cx={x} cy={y} r="15" fill="var(--panel)" stroke="var(--line-strong)" stroke-width="1.5" />
              <text x={x} y={y} text-anchor="middle" dominant-baseline="central" fill="var(--ink)" font-size="12">
                {g.index}
              </text>
              <title>{g.name}</title>
            </g>
          );
        })}
      </svg>
      <figcaption>
        <b>{nodes.length > 3 ? `${nodes[0]} and ${nodes.length - 1} like it` : nodes.join(", ")}</b>
        <span>{[...new Set(shape.gpus.map((g) => g.name))].join(", ")}</span>
        <span class="fine">{used.length ? used.join("; ") : "no link known"}</span>
      </figcaption>
    </figure>
  );
}
