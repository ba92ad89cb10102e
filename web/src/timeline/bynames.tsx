// Names down, and ranks or traces along; of two of them their difference. What differs most comes first.

import { useMemo } from "preact/hooks";
import { sliceColor } from "../color";
import { count, duration, none } from "../format";
import { shortName } from "../names";
import type { NameSum, Stats } from "../types";
import { Table } from "../ui";

const mostNames = 200;

/** What is in a column, and how many ranks it stands for: sums are shown per rank. */
export interface Compared {
  title: string;
  stats: Stats;
  ranks: number;
}

interface Line {
  name: string;
  type: string;
  by: (NameSum | undefined)[];
  spread: number;
}

export const NameCell = ({ name, type }: { name: string; type: string }) => (
  <span class="name-cell" title={name}>
    <i class="swatch" style={{ background: sliceColor(name, type) }} />
    {shortName(name)}
  </span>
);

export function ByNames({ label, columns }: { label: string; columns: Compared[] }) {
  const total = (line: Line, i: number) => (line.by[i]?.total_ns ?? 0) / columns[i].ranks;
  const lines = useMemo(() => {
    const all = new Map<string, Line>();
    columns.forEach((c, i) => {
      for (const n of c.stats.by_name) {
        const key = `${n.type} ${n.name}`;
        let line = all.get(key);
        if (!line) all.set(key, (line = { name: n.name, type: n.type, by: new Array(columns.length).fill(undefined), spread: 0 }));
        line.by[i] = n;
      }
    });
    for (const line of all.values()) {
      const totals = columns.map((_, i) => total(line, i));
      line.spread = Math.max(...totals) - Math.min(...totals);
    }
    return [...all.values()].sort((a, b) => b.spread - a.spread).slice(0, mostNames);
  }, [columns]);
  const difference = (l: Line): string => {
    const by = total(l, 1) - total(l, 0);
    return `${by >= 0 ? "+" : "−"}${duration(Math.abs(by))}`;
  };
  const several = columns.some((c) => c.ranks > 1);
  return (
    <Table<Line>
      label={label}
      rows={lines}
      id={(l) => `${l.type} ${l.name}`}
      columns={[
        { title: "name", cell: (l) => <NameCell name={l.name} type={l.type} /> },
        { title: "type", cell: (l) => l.type },
        ...columns.map((c, i) => ({
          title: c.title,
          number: true,
          hint: several ? `Total time per rank, of ${c.ranks} ranks` : "Total time, and how many",
          cell: (l: Line) => (l.by[i] ? <span title={`${count(l.by[i]!.count)} of ${duration(l.by[i]!.mean_ns)}`}>{duration(total(l, i))}</span> : none),
        })),
        columns.length === 2
          ? { title: "difference", number: true, cell: difference }
          : { title: "spread", number: true, hint: "From the least to the most", cell: (l: Line) => duration(l.spread) },
      ]}
    />
  );
}
