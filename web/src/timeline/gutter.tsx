// The names of the rows at the left, only those in sight; each track can be pinned to the top.

import { count, plural } from "../format";
import type { TimelineLoss } from "../model";
import type { Report } from "./engine";
import { counterText } from "./counters";
import { canFold, topOf, type Row } from "./layout";

interface Props {
  report: Report;
  losses: TimelineLoss[];
  onToggle: (key: string) => void;
  onPin: (track: number, pinned: boolean) => void;
}

/** What was lost of the rank or node that a row stands for. */
function lostOf(row: Row, losses: TimelineLoss[]): string {
  if (row.kind !== "group" && row.kind !== "node") return "";
  const first = row.all[0];
  return losses
    .filter((l) => (row.kind === "node" ? l.node === first.node && l.rank === null : l.rank !== null && l.rank === first.rank && (!l.node || l.node === first.node)))
    .map((l) => `${count(l.count)} lost: ${l.cause}`)
    .join("\n");
}

const labelHeight = 22;

function Label({ row, scroll, pinnedHeight, losses, onToggle, onPin }: { row: Row; scroll: number; pinnedHeight: number; losses: TimelineLoss[]; onToggle: Props["onToggle"]; onPin: Props["onPin"] }) {
  // The name of a row that is taller than what is seen of it stays in sight.
  const top = topOf(row, scroll);
  const down = row.pinned ? 0 : Math.min(Math.max(0, pinnedHeight - top), Math.max(0, row.height - labelHeight));
  const style = { transform: `translateY(${top + down}px)`, height: `${row.height - down}px` };
  const pinned = row.pinned ? "pinned" : "";
  if (row.counter || row.result)
    return (
      <div class={`row-label track ${pinned}`} style={style} title={row.counter ? `${row.label}, up to ${counterText(row.counter, row.counter.most)}` : row.label}>
        {row.label}
      </div>
    );
  const about = `${row.label}: ${plural(row.all[0].events, "event")}`;
  if (row.kind === "track")
    return (
      <>
        {canFold(row) ? (
          <button
            type="button"
            class={`row-label track fold ${pinned}`}
            style={style}
            aria-expanded={!row.closed}
            title={`${about}, ${plural(row.all[0].depth, "level")}. Click to ${row.closed ? "unfold" : "fold"}`}
            onClick={() => onToggle(row.key)}
          >
            <i aria-hidden="true">{row.closed ? "▸" : "▾"}</i>
            {row.label}
          </button>
        ) : (
          <div class={`row-label track ${pinned}`} style={style} title={about}>
            {row.label}
          </div>
        )}
        <button
          type="button"
          class={`pin ${row.pinned ? "on pinned" : ""}`}
          style={{ transform: style.transform }}
          aria-label={`${row.pinned ? "Unpin" : "Pin"} ${row.label}`}
          title={row.pinned ? "Unpin" : "Pin to the top"}
          onClick={() => onPin(row.all[0].id, !row.pinned)}
        >
          {row.pinned ? "✕" : "⊤"}
        </button>
      </>
    );
  const lost = lostOf(row, losses);
  return (
    <button
      type="button"
      class={`row-label ${row.kind} ${row.height > 3 * labelHeight ? "tall" : ""}`}
      style={style}
      aria-expanded={!row.closed}
      title={`${row.label}: ${plural(row.all.length, "track")}. Click to ${row.closed ? "open" : "close"}${lost && `\n${lost}\nWhat looks idle may be what was lost`}`}
      onClick={() => onToggle(row.key)}
    >
      <i aria-hidden="true">{row.closed ? "▸" : "▾"}</i>
      {row.label}
      {lost && <span class="lost">⚠ lost records</span>}
    </button>
  );
}

export function Gutter(props: Props) {
  const { rows, firstRow, lastRow, scroll, pinned } = props.report;
  const last = rows[pinned - 1];
  const pinnedHeight = last ? last.y + last.height : 0;
  return (
    <>
      {[...rows.slice(0, pinned), ...rows.slice(Math.max(pinned, firstRow), lastRow + 1)].map((row) => (
        <Label key={`${row.pinned ? "p" : ""}${row.key}`} row={row} scroll={scroll} pinnedHeight={pinnedHeight} losses={props.losses} onToggle={props.onToggle} onPin={props.onPin} />
      ))}
    </>
  );
}
