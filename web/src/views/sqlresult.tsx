// The answer of a query: a table of which only the rows in sight exist, or a chart.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { lines as palette } from "../color";
import { none } from "../format";
import { Plot, type Line } from "../plot";
import { rem } from "../theme";
import { hasMoments, momentOf, toReference, type Moment } from "../moments";
import type { Cell, QueryResult, TraceInfo } from "../types";
import { link } from "../route";
import { Empty, Select, useSize } from "../ui";

export const isNumber = (type: string): boolean => /INT|DOUBLE|FLOAT|DECIMAL|REAL|NUMERIC/i.test(type);

function text(cell: Cell): string {
  if (cell === null || cell === undefined) return none;
  if (typeof cell === "object") return JSON.stringify(cell);
  return String(cell);
}

/** Where a row with a time is in the timeline: around it, as long as it is on both sides. */
const linkTo = (m: Moment, ts: bigint, trace: string | null): string =>
  link("timeline", { trace, rank: m.rank, abs_from: String(ts - (m.dur ?? 1_000_000n)), abs_to: String(ts + 2n * (m.dur ?? 1_000_000n)) });

function compare(a: Cell, b: Cell, number: boolean): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (number) return Number(a) - Number(b);
  return text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0;
}

export function ResultTable({ result, trace, info }: { result: QueryResult; trace: string | null; info: TraceInfo | null }) {
  const [sort, setSort] = useState<{ column: number; down: boolean } | null>(null);
  const [box, size] = useSize<HTMLDivElement>();
  const [top, setTop] = useState(0);
  const line = rem() * 1.9;
  const first = Math.max(0, Math.floor(top / line) - 5);
  const last = Math.min(result.rows.length, Math.ceil((top + size.height) / line) + 5);
  const numbers = result.columns.map((c) => isNumber(c.type));
  const rows = useMemo(() => {
    if (!sort) return result.rows;
    const sign = sort.down ? -1 : 1;
    return [...result.rows].sort((a, b) => sign * compare(a[sort.column], b[sort.column], numbers[sort.column]));
  }, [result, sort]);
  const moments = hasMoments(result);
  /** Rows have the time of their node: where they are is asked for when somebody goes there. */
  const visit = async (row: Cell[]) => {
    const m = momentOf(result, row);
    if (!m) return;
    const end = info?.end ? BigInt(info.end) : 1n << 62n;
    const [ts] = await toReference([m], trace, info ? BigInt(info.start) : 0n, end).catch(() => [m.ts]);
    location.hash = linkTo(m, ts, trace);
  };
  useEffect(() => {
    if (box.current) box.current.scrollTop = 0;
    setTop(0);
    setSort(null);
  }, [result]);
  return (
    <div class="result table" ref={box} onScroll={(e) => setTop(e.currentTarget.scrollTop)} tabIndex={0} role="region" aria-label="Result">
      <table aria-rowcount={result.rows.length}>
        <thead>
          <tr>
            {moments && <th scope="col" title="Show the row in the timeline" />}
            {result.columns.map((c, i) => (
              <th
                key={i}
                class={`sorts ${numbers[i] ? "number" : ""}`}
                title={`${c.type}. Click to sort`}
                tabIndex={0}
                aria-sort={sort?.column === i ? (sort.down ? "descending" : "ascending") : "none"}
                onClick={() => setSort(sort?.column !== i ? { column: i, down: numbers[i] } : sort.down === numbers[i] ? { column: i, down: !numbers[i] } : null)}
                onKeyDown={(e) => e.key === "Enter" && e.currentTarget.click()}
              >
                {c.name} {sort?.column === i && (sort.down ? "▾" : "▴")} <span class="type">{c.type.length > 14 ? `${c.type.slice(0, 12)}…` : c.type.toLowerCase()}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && (
            <tr aria-hidden="true" style={{ height: `${first * line}px` }}>
              <td colSpan={result.columns.length + (moments ? 1 : 0)} />
            </tr>
          )}
          {rows.slice(first, last).map((row, i) => (
            <tr key={first + i} style={{ height: `${line}px` }}>
              {moments && (
                <td>
                  <a
                    href="#/timeline"
                    onClick={(e) => {
                      e.preventDefault();
                      void visit(row);
                    }}
                    aria-label="Show it in the timeline"
                    title="Show it in the timeline"
                  >
                    ⟶
                  </a>
                </td>
              )}
              {row.map((cell, c) => (
                <td key={c} class={`${numbers[c] ? "number" : ""} ${cell === null ? "null" : ""}`} title={typeof cell === "string" && cell.length > 40 ? cell : undefined}>
                  {cell === null ? "NULL" : text(cell)}
                </td>
              ))}
            </tr>
          ))}
          {last < result.rows.length && (
            <tr aria-hidden="true" style={{ height: `${(result.rows.length - last) * line}px` }}>
              <td colSpan={result.columns.length + (moments ? 1 : 0)} />
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

const asNumber = (cell: Cell): number | null => {
  if (cell === null || cell === "") return null;
  const n = Number(cell);
  return Number.isFinite(n) ? n : null;
};

/** One column along, others up. Text along makes bars, numbers make lines. */
export function ResultChart({ result }: { result: QueryResult }) {
  const names = result.columns.map((c) => c.name);
  const numeric = result.columns.map((c, i) => isNumber(c.type) || result.rows.slice(0, 20).every((r) => asNumber(r[i]) !== null));
  const [xColumn, setX] = useState("0");
  const [yColumn, setY] = useState("all");
  const seen = useRef(result.columns);
  useEffect(() => {
    if (names.join() !== seen.current.map((c) => c.name).join()) {
      setX("0");
      setY("all");
    }
    seen.current = result.columns;
  }, [result]);
  const chart = useMemo(() => {
    const xi = Math.min(Number(xColumn), result.columns.length - 1);
    const ys = (yColumn === "all" ? names.map((_, i) => i) : [Number(yColumn)]).filter((i) => i !== xi && numeric[i]).slice(0, 10);
    const bars = !numeric[xi];
    let order = result.rows.map((_, i) => i);
    if (!bars) order = order.filter((i) => asNumber(result.rows[i][xi]) !== null).sort((a, b) => asNumber(result.rows[a][xi])! - asNumber(result.rows[b][xi])!);
    else order = order.slice(0, 40);
    const x = order.map((i, n) => (bars ? n : asNumber(result.rows[i][xi])!));
    const lines: Line[] = ys.map((y, n) => ({
      label: names[y],
      color: palette[n % palette.length],
      values: order.map((i) => asNumber(result.rows[i][y])),
      points: !bars && order.length <= 200,
    }));
    const labels = order.map((i) => text(result.rows[i][xi]));
    return { bars, x, lines, labels, xName: names[xi] };
  }, [result, xColumn, yColumn]);
  if (!numeric.some(Boolean) || !chart.lines.length) return <Empty title="No numeric column to plot">Choose other columns in the query.</Empty>;
  return (
    <div class="result-chart">
      <div class="tools">
        <Select label="Along" value={xColumn} options={names.map((n, i) => ({ value: String(i), text: n }))} onChange={setX} />
        <Select label="Up" value={yColumn} options={[{ value: "all", text: "all numbers" }, ...names.flatMap((n, i) => (numeric[i] ? [{ value: String(i), text: n }] : []))]} onChange={setY} />
        {chart.bars && result.rows.length > 40 && <span class="fine">the first 40 rows</span>}
        <span class="legend">
          {chart.lines.map((l) => (
            <span key={l.label}>
              <i class="swatch" style={{ background: l.color }} />
              {l.label}
            </span>
          ))}
        </span>
      </div>
      {chart.bars ? <Bars labels={chart.labels} lines={chart.lines} /> : <Plot label="Chart of the result" x={chart.x} lines={chart.lines} unit="" height={22} xTitle={chart.xName} />}
    </div>
  );
}

function Bars({ labels, lines }: { labels: string[]; lines: Line[] }) {
  const shown = lines[0];
  const values = shown.values.map((v) => v ?? null);
  const most = Math.max(1e-300, ...values.map((v) => Math.abs(v ?? 0)));
  return (
    <ol class="bars" aria-label={`${shown.label} of each row`}>
      {labels.map((label, i) => (
        <li key={i}>
          <span title={label}>{label}</span>
          <i style={{ width: `${(Math.abs(values[i] ?? 0) / most) * 100}%`, background: shown.color }} />
          <b>{values[i] === null ? none : values[i]!.toLocaleString("en-US", { maximumFractionDigits: 3 })}</b>
        </li>
      ))}
    </ol>
  );
}
