// Who sends how much to whom.

import { useMemo } from "preact/hooks";
import { heatPixel } from "../color";
import { bytes, count, us } from "../format";
import { HeatMap } from "../heat";
import { ScaleLegend } from "../scale";
import type { Analysis } from "../types";
import { Empty, Panel } from "../ui";

export function CommMatrix({ data }: { data: Analysis }) {
  const m = useMemo(() => {
    const cells = data.matrix.cells;
    const ranks = [...new Set(cells.flatMap((c) => [c.from, c.to]))].sort((a, b) => a - b);
    const at = new Map(ranks.map((r, i) => [r, i]));
    const grid = new Map(cells.map((c) => [at.get(c.from)! * ranks.length + at.get(c.to)!, c]));
    return { ranks, grid, most: Math.max(1, ...cells.map((c) => c.bytes)), rows: ranks.map((r) => `from ${r}`) };
  }, [data]);
  const color = useMemo(
    () => (r: number, c: number) => {
      const cell = m.grid.get(r * m.ranks.length + c);
      return cell ? heatPixel(cell.bytes / m.most) : 0;
    },
    [m],
  );
  return (
    <Panel title="Communication, rank to rank" aside={m.ranks.length ? <ScaleLegend from="0" to={bytes(m.most)} /> : undefined}>
      {m.ranks.length ? (
        <div class="heat-chart">
          <HeatMap
            label="Bytes from rank to rank"
            rows={m.rows}
            columns={m.ranks.length}
            color={color}
            axis={(c) => `to ${m.ranks[c]}`}
            tip={(r, c) => {
              const cell = m.grid.get(r * m.ranks.length + c);
              return (
                <>
                  <b>
                    rank {m.ranks[r]} → rank {m.ranks[c]}
                  </b>
                  <div>{cell ? `${bytes(cell.bytes)} in ${count(cell.count)} operations, ${us(cell.latency_us)} each` : "nothing"}</div>
                </>
              );
            }}
            rowHeight={1.5}
            maxHeight={26}
          />
          <p class="fine">Pattern: {data.matrix.pattern}. Follows from the algorithm each collective names; one that names none is taken to be a ring.</p>
        </div>
      ) : (
        <Empty title="No communication recorded" />
      )}
    </Panel>
  );
}
