// The names of the rows at the left, only those in sight.

import { plural } from "../format";
import type { Report } from "./engine";
import { counterText } from "./counters";
import { canFold } from "./layout";

export function Gutter(props: { report: Report; onToggle: (key: string) => void }) {
  const { rows, firstRow, lastRow, scroll } = props.report;
  return (
    <>
      {rows.slice(firstRow, lastRow + 1).map((row) => {
        const style = { transform: `translateY(${row.y - scroll}px)`, height: `${row.height}px` };
        if (row.counter)
          return (
            <div key={row.key} class="row-label track" style={style} title={`${row.label}, up to ${counterText(row.counter, row.counter.most)}`}>
              {row.label}
            </div>
          );
        const about = `${row.label}: ${plural(row.all[0].events, "event")}`;
        if (row.kind === "track" && canFold(row))
          return (
            <button
              type="button"
              key={row.key}
              class="row-label track fold"
              style={style}
              aria-expanded={!row.closed}
              title={`${about}, ${plural(row.all[0].depth, "level")}. Click to ${row.closed ? "unfold" : "fold"}`}
              onClick={() => props.onToggle(row.key)}
            >
              <i aria-hidden="true">{row.closed ? "▸" : "▾"}</i>
              {row.label}
            </button>
          );
        if (row.kind === "track")
          return (
            <div key={row.key} class="row-label track" style={style} title={about}>
              {row.label}
            </div>
          );
        return (
          <button
            type="button"
            key={row.key}
            class={`row-label ${row.kind}`}
            style={style}
            aria-expanded={!row.closed}
            title={`${row.label}: ${plural(row.all.length, "track")}. Click to ${row.closed ? "open" : "close"}`}
            onClick={() => props.onToggle(row.key)}
          >
            <i aria-hidden="true">{row.closed ? "▸" : "▾"}</i>
            {row.label}
          </button>
        );
      })}
    </>
  );
}
