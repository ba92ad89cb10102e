// What lies in what, in a selected stretch: the wider, the longer. A click makes a part as wide as the whole.

import { useMemo, useState } from "preact/hooks";
import { communicationKnown, sliceColor } from "../color";
import { count, duration, percent } from "../format";
import type { FlameNode, TimelineFlame } from "../model";
import { shortName } from "../names";
import { useStore } from "../store";
import { Failed, useLoad } from "../ui";

const leastShare = 0.002;

interface Placed {
  i: number;
  node: FlameNode;
  left: number;
  width: number;
  level: number;
}

/** Those that can be seen, below the chosen one and around it. */
function place(nodes: FlameNode[], chosen: number | null): { list: Placed[]; levels: number } {
  const children = new Map<number | null, number[]>();
  nodes.forEach((n, i) => children.set(n.parent, [...(children.get(n.parent) ?? []), i]));
  const list: Placed[] = [];
  let levels = 0;
  const put = (i: number, left: number, width: number, level: number) => {
    if (width < leastShare) return;
    list.push({ i, node: nodes[i], left, width, level });
    levels = Math.max(levels, level + 1);
    let at = left;
    for (const c of children.get(i) ?? []) {
      const part = nodes[i].total_ns ? (nodes[c].total_ns / nodes[i].total_ns) * width : 0;
      put(c, at, part, level + 1);
      at += part;
    }
  };
  if (chosen === null) {
    const tops = children.get(null) ?? [];
    const whole = tops.reduce((sum, i) => sum + nodes[i].total_ns, 0) || 1;
    let at = 0;
    for (const i of tops) {
      put(i, at, nodes[i].total_ns / whole, 0);
      at += nodes[i].total_ns / whole;
    }
    return { list, levels };
  }
  const around: number[] = [];
  for (let i: number | null = nodes[chosen].parent; i !== null; i = nodes[i].parent) around.unshift(i);
  around.forEach((i, level) => list.push({ i, node: nodes[i], left: 0, width: 1, level }));
  put(chosen, 0, 1, around.length);
  return { list, levels };
}

export function FlameTab({ id, ask }: { id: string; ask: (signal: AbortSignal) => Promise<TimelineFlame> }) {
  const load = useLoad(`flame ${id}`, ask);
  useStore(communicationKnown);
  const [chosen, setChosen] = useState<{ of: TimelineFlame; i: number } | null>(null);
  const data = load.data;
  const at = chosen && chosen.of === data ? chosen.i : null;
  const { list, levels } = useMemo(() => (data ? place(data.nodes, at) : { list: [], levels: 0 }), [data, at]);
  if (load.error) return <Failed what="The flame graph" error={load.error} retry={load.reload} />;
  if (!data) return <p class="fine pad">Counting …</p>;
  if (!data.nodes.length) return <p class="fine pad">No events here.</p>;
  const wholeOf = (n: FlameNode): FlameNode => (n.parent === null ? n : wholeOf(data.nodes[n.parent]));
  return (
    <div class="flame" role="tree" aria-label="What lies in what" style={{ "--levels": levels }}>
      {list.map(({ i, node: n, left, width, level }) => (
        <button
          type="button"
          key={i}
          role="treeitem"
          aria-level={level + 1}
          style={{ left: `${left * 100}%`, width: `${width * 100}%`, top: `${level * 1.55}rem`, background: n.parent === null ? "var(--sunken)" : sliceColor(n.name, n.type) }}
          class={n.parent === null ? "top" : ""}
          title={`${n.name}\n${duration(n.total_ns)} in ${count(n.count)}, ${percent(n.total_ns / (wholeOf(n).total_ns || 1), 1)} of ${wholeOf(n).name}\n${duration(n.self_ns)} of it in nothing further`}
          onClick={() => setChosen(at === i ? null : { of: data, i })}
        >
          {n.parent === null ? `${n.name}: ${duration(n.total_ns)}` : `${shortName(n.name)} ${duration(n.total_ns)}`}
        </button>
      ))}
      {data.left_out > 0 && <p class="fine" style={{ top: `${levels * 1.55}rem` }}>{count(data.left_out)} names that are too short to be seen are left out</p>}
    </div>
  );
}
