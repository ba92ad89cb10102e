// How the GPUs of a node are connected: a circle of GPUs for each kind of node, and its network cards.

import { useState } from "preact/hooks";
import { download, get, query } from "../api";
import { plural } from "../format";
import type { Topology, TraceInfo } from "../types";
import { Empty, Failed, Loading, Panel, useLoad } from "../ui";

type Shape = Topology["nodes"][number];
type Link = Shape["links"][number];

const kinds: [RegExp, string, number][] = [
  [/nvswitch|nvlink|xgmi/i, "var(--accent)", 2],
  [/pix|pxb|pcie|phb|switch/i, "#22a07e", 1.5],
  [/./, "var(--line-strong)", 1],
];
const lookOf = (kind: string) => kinds.find(([test]) => test.test(kind))!;
const shown = 6;

const describe = (l: Link): string =>
  `${l.kind}${l.count ? ` × ${l.count}` : ""}, ${l.bandwidth_gbps ? `${l.bandwidth_gbps} GB/s${l.measured ? " measured" : ""}` : "speed unknown"}`;

/** Nodes that look alike are drawn once. */
function shapesOf(nodes: Shape[]): { nodes: string[]; shape: Shape }[] {
  const alike = new Map<string, { nodes: string[]; shape: Shape }>();
  for (const n of nodes) {
    const links = n.links.filter((l) => !l.peer_node || l.peer_node === n.node);
    const key = JSON.stringify([n.gpus, n.nics, n.simulated, links.map((l) => [l.from, l.to, describe(l)])]);
    const known = alike.get(key);
    if (known) known.nodes.push(n.node);
    else alike.set(key, { nodes: [n.node], shape: { ...n, links } });
  }
  return [...alike.values()];
}

export function TopologyPicture({ trace }: { trace: TraceInfo | null }) {
  const load = useLoad(`topology ${trace?.id}`, (signal) => get<Topology>(`/api/v1/topology${query({ trace: trace?.id })}`, signal));
  const [problem, setProblem] = useState("");
  const shapes = shapesOf(load.data?.nodes ?? []);
  const save = () => {
    setProblem("");
    download(`/api/v1/topology.svg${query({ trace: trace?.id })}`, "topology.svg").catch((e: Error) => setProblem(e.message));
  };
  return (
    <Panel
      title="Topology"
      aside={
        <>
          {problem && <span class="bad-text">{problem} </span>}
          {shapes.length > 0 && (
            <button type="button" class="link" onClick={save} title="Download this picture">
              SVG
            </button>
          )}
        </>
      }
    >
      {load.error ? (
        <Failed what="The topology" error={load.error} />
      ) : !load.data ? (
        <Loading what="Loading the topology" />
      ) : shapes.length === 0 ? (
        <Empty title="Links between GPUs are unknown here" command="tracesmith topo">
          On a node, this shows them:
        </Empty>
      ) : (
        <div class="topology">
          {shapes.slice(0, shown).map(({ nodes, shape }) => (
            <Circle key={nodes[0]} nodes={nodes} shape={shape} />
          ))}
          {shapes.length > shown && <p class="fine">{plural(shapes.length - shown, "more kind")} of nodes: the SVG has them.</p>}
        </div>
      )}
    </Panel>
  );
}

function Circle({ nodes, shape }: { nodes: string[]; shape: Shape }) {
  const n = shape.gpus.length;
  const at = (i: number | null): [number, number] => {
    const place = shape.gpus.findIndex((g) => g.index === i);
    const a = (place / Math.max(1, n)) * 2 * Math.PI - Math.PI / 2;
    return n === 1 ? [110, 110] : [110 + 84 * Math.cos(a), 110 + 84 * Math.sin(a)];
  };
  const used = new Map<string, number>();
  for (const l of shape.links) used.set(describe(l), (used.get(describe(l)) ?? 0) + 1);
  const near = (nic: Shape["nics"][number]) => nic.near.filter((p) => p.nearness === "PIX" || p.nearness === "PXB").map((p) => p.gpu);
  return (
    <figure>
      <svg viewBox="0 0 220 220" role="img" aria-label={`${plural(n, "GPU")} of ${nodes[0]}, ${plural(shape.links.length, "link")}`}>
        {shape.links
          .filter((l) => l.from !== null && l.to !== null)
          .filter((l) => l.from! < l.to! || !shape.links.some((o) => o.from === l.to && o.to === l.from))
          .map((l) => {
            const [x1, y1] = at(l.from);
            const [x2, y2] = at(l.to);
            const [, color, width] = lookOf(l.kind);
            return (
              <line key={`${l.from} ${l.to} ${l.kind}`} x1={x1} y1={y1} x2={x2} y2={y2} stroke={color} stroke-width={width} opacity="0.75">
                <title>{`GPU ${l.from} – GPU ${l.to}: ${describe(l)}`}</title>
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
        <span>{[...new Set(shape.gpus.map((g) => g.name))].join(", ") || "no GPU reported"}</span>
        {[...used].map(([what, pairs]) => (
          <span class="fine" key={what}>
            {what}: {plural(pairs, "pair")}
          </span>
        ))}
        {!used.size && n > 1 && <span class="fine">no links between its GPUs reported</span>}
        {shape.nics.map((nic) => (
          <span class="fine" key={nic.name}>
            {nic.name} ({nic.kind}
            {nic.state ? `, ${nic.state}` : ""}){nic.speed_mbit ? ` ${nic.speed_mbit / 1000} Gbit/s` : ""}
            {near(nic).length ? `, near GPU ${near(nic).join(" ")}` : ""}
          </span>
        ))}
        {!shape.nics.length && <span class="fine">no network cards reported</span>}
      </figcaption>
    </figure>
  );
}
