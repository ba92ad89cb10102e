// The collectives that cost most: who came last, how long the others waited, and their moment in the timeline.

import { between, bytes, none } from "../format";
import { clockBound } from "./bound";
import { link } from "../route";
import type { CollectiveResult } from "../model";
import type { Analysis, TraceInfo } from "../types";
import { Panel, Table } from "../ui";

const most = 12;

/** From a little before the first rank arrives to a little after the last one leaves. */
function momentOf(c: CollectiveResult, trace: TraceInfo): string {
  const length = Math.max(1, (c.skew_start_us ?? 0) + (c.transfer_us ?? 0)) * 1000;
  const at = (share: number) => String(BigInt(c.start_ns) + BigInt(Math.round(length * share)));
  return link("timeline", { trace: trace.id, rank: c.culprit_rank, abs_from: at(-0.3), abs_to: at(1.3) });
}

export function WorstCollectives({ data, trace }: { data: Analysis; trace: TraceInfo }) {
  const worst = data.collectives.filter((c) => (c.wait_us_total ?? 0) > 0).sort((a, b) => (b.wait_us_total ?? 0) - (a.wait_us_total ?? 0)).slice(0, most);
  if (!worst.length) return null;
  const bound = clockBound(data);
  return (
    <Panel title="Worst collectives" aside="time that their ranks waited, summed over ranks">
      <Table
        label="Worst collectives"
        rows={worst}
        id={(c) => `${c.group} ${c.index}`}
        columns={[
          {
            title: "operation",
            cell: (c) => (
              <a href={momentOf(c, trace)} title="Show it in the timeline">
                {c.op} {c.index}
              </a>
            ),
          },
          { title: "step", number: true, cell: (c) => c.step ?? none },
          { title: "waited", number: true, cell: (c) => between(c.wait_us_total === null ? null : c.wait_us_total * 1000, bound) },
          { title: "last to arrive", cell: (c) => (c.culprit_rank === null ? "cannot tell" : `rank ${c.culprit_rank}`) },
          { title: "transfer", number: true, hint: "From the last arrival to the end", cell: (c) => between(c.transfer_us === null ? null : c.transfer_us * 1000, bound) },
          { title: "size", number: true, cell: (c) => bytes(c.bytes) },
          { title: "bus", number: true, hint: "Bus bandwidth", cell: (c) => (c.busbw_gbps === null ? none : `${c.busbw_gbps.toFixed(1)} GB/s`) },
          { title: "communicator", wide: true, cell: (c) => c.group },
        ]}
      />
    </Panel>
  );
}
