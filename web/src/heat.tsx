// A heat map on a canvas: rows with labels, columns along an axis. Drag selects columns, a click picks a cell.

import { useEffect, useRef, useState } from "preact/hooks";
import { useStore } from "./store";
import { dark, rem, variable } from "./theme";
import { useSize } from "./ui";

export interface HeatProps {
  label: string;
  rows: string[];
  columns: number;
  /** Pixel of a cell (color.ts), or 0 where nothing was measured. */
  color: (row: number, column: number) => number;
  tip: (row: number, column: number) => preact.ComponentChildren;
  axis: (column: number) => string;
  onPick?: (row: number, column: number) => void;
  onRange?: (first: number, last: number) => void;
  /** Rows that have their label even where there is no room for all, and stand out. */
  named?: ReadonlySet<number>;
  /** The least height of a row, in rem. */
  rowHeight?: number;
  maxHeight?: number;
}

export function HeatMap(props: HeatProps) {
  const [box, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const isDark = useStore(dark);
  const [tip, setTip] = useState<{ x: number; y: number; row: number; column: number } | null>(null);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const [focus, setFocus] = useState<[number, number]>([0, 0]);
  const u = rem();
  const gutter = Math.min(size.width / 3, Math.max(3, ...props.rows.slice(0, 600).map((r) => r.length)) * u * 0.52 + u);
  const line = Math.max(Math.min((props.rowHeight ?? 1.4) * u, ((props.maxHeight ?? 40) * u) / Math.max(1, props.rows.length)), 2);
  const height = Math.max(line * props.rows.length, 2) + 1.6 * u;
  const cell = Math.max(0.01, (size.width - gutter) / Math.max(1, props.columns));

  useEffect(() => {
    const c = canvas.current;
    if (!c || !size.width) return;
    const ratio = devicePixelRatio;
    c.width = Math.round(size.width * ratio);
    c.height = Math.round(height * ratio);
    const g = c.getContext("2d")!;
    const image = new ImageData(Math.max(1, props.columns), Math.max(1, props.rows.length));
    const cells = new Uint32Array(image.data.buffer);
    for (let r = 0, at = 0; r < props.rows.length; r++) for (let i = 0; i < props.columns; i++) cells[at++] = props.color(r, i);
    const small = document.createElement("canvas");
    small.width = image.width;
    small.height = image.height;
    small.getContext("2d")!.putImageData(image, 0, 0);
    g.scale(ratio, ratio);
    g.clearRect(0, 0, size.width, height);
    hatch(g, gutter, 0, size.width - gutter, line * props.rows.length);
    // Few columns may be drawn smooth-edged, many must not lose any.
    g.imageSmoothingEnabled = cell * ratio < 1;
    g.drawImage(small, gutter, 0, size.width - gutter, line * props.rows.length);
    if (cell > 6 && line > 8) {
      g.fillStyle = variable("--panel");
      for (let i = 1; i < props.columns; i++) g.fillRect(gutter + i * cell - 0.5, 0, 1, line * props.rows.length);
      for (let r = 1; r < props.rows.length; r++) g.fillRect(gutter, r * line - 0.5, size.width - gutter, 1);
    }
    g.font = `${0.88 * u}px ${getComputedStyle(document.body).fontFamily}`;
    g.textBaseline = "middle";
    g.fillStyle = variable("--ink-soft");
    g.textAlign = "right";
    const every = Math.max(1, Math.ceil((0.95 * u) / line));
    const middle = (r: number) => Math.max(0.55 * u, (r + 0.5) * line);
    g.save();
    g.fillStyle = variable("--bad");
    g.font = `600 ${g.font}`;
    for (const r of props.named ?? []) g.fillText(props.rows[r], gutter - 0.5 * u, middle(r), gutter - 0.6 * u);
    g.restore();
    for (let r = 0, last = -u; r < props.rows.length; r += every) {
      const y = middle(r);
      if (y - last < 0.95 * u || [...(props.named ?? [])].some((n) => Math.abs(middle(n) - y) < 0.95 * u)) continue;
      g.fillText(props.rows[r], gutter - 0.5 * u, y, gutter - 0.6 * u);
      last = y;
    }
    g.textAlign = "left";
    g.fillStyle = variable("--ink-faint");
    const step = Math.max(1, Math.ceil((6 * u) / cell));
    for (let i = 0; i < props.columns; i += step) {
      const text = props.axis(i);
      if (gutter + i * cell + g.measureText(text).width <= size.width) g.fillText(text, gutter + i * cell, height - 0.7 * u);
    }
  }, [props.rows, props.columns, props.color, props.named, size.width, height, isDark]);

  const at = (e: MouseEvent): { row: number; column: number } | null => {
    const rect = canvas.current!.getBoundingClientRect();
    const x = e.clientX - rect.left - gutter;
    const y = e.clientY - rect.top;
    if (x < 0 || y >= line * props.rows.length) return null;
    return { row: Math.min(props.rows.length - 1, Math.floor(y / line)), column: Math.min(props.columns - 1, Math.floor(x / cell)) };
  };
  const cellOf = (row: number, column: number) => {
    const rect = canvas.current!.getBoundingClientRect();
    return { row, column, x: rect.left + gutter + (column + 0.5) * cell, y: rect.top + (row + 0.5) * line };
  };
  return (
    <div class="heat" ref={box}>
      <canvas
        ref={canvas}
        style={{ width: "100%", height: `${height}px` }}
        role="img"
        tabIndex={0}
        aria-label={`${props.label}. Arrow keys move from cell to cell${props.onPick ? ", Enter opens a cell" : ""}`}
        onPointerDown={(e) => {
          const spot = at(e);
          if (spot && props.onRange) {
            setDrag([spot.column, spot.column]);
            canvas.current!.setPointerCapture(e.pointerId);
          }
        }}
        onPointerMove={(e) => {
          const spot = at(e);
          setTip(spot && { ...spot, x: e.clientX, y: e.clientY });
          if (drag && spot) setDrag([drag[0], spot.column]);
        }}
        onPointerUp={(e) => {
          const spot = at(e);
          if (drag && Math.abs(drag[1] - drag[0]) > 2) props.onRange!(Math.min(...drag), Math.max(...drag));
          else if (spot) props.onPick?.(spot.row, spot.column);
          setDrag(null);
        }}
        onPointerLeave={() => !drag && setTip(null)}
        onBlur={() => setTip(null)}
        onKeyDown={(e) => {
          const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
          const by = moves[e.key];
          if (by) {
            const next: [number, number] = [
              Math.min(Math.max(0, focus[0] + by[0]), props.rows.length - 1),
              Math.min(Math.max(0, focus[1] + by[1]), props.columns - 1),
            ];
            setFocus(next);
            setTip(cellOf(...next));
          } else if (e.key === "Enter") props.onPick?.(...focus);
          else return;
          e.preventDefault();
        }}
      />
      {drag && (
        <div
          class="heat-drag"
          style={{ left: `${gutter + Math.min(...drag) * cell}px`, width: `${(Math.abs(drag[1] - drag[0]) + 1) * cell}px`, height: `${line * props.rows.length}px` }}
        />
      )}
      {tip && !drag && tip.row < props.rows.length && tip.column < props.columns && (
        <div class="tip" role="status" style={tip.x > innerWidth * 0.65 ? { right: `${innerWidth - tip.x + 12}px`, top: `${tip.y + 12}px` } : { left: `${tip.x + 12}px`, top: `${tip.y + 12}px` }}>
          {props.tip(tip.row, tip.column)}
        </div>
      )}
    </div>
  );
}

/** What was not measured is hatched: it is neither low nor high. */
function hatch(g: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  g.save();
  g.beginPath();
  g.rect(x, y, width, height);
  g.clip();
  g.strokeStyle = variable("--line");
  g.lineWidth = 1;
  g.beginPath();
  for (let i = -height; i < width; i += 6) {
    g.moveTo(x + i, y + height);
    g.lineTo(x + i + height, y);
  }
  g.stroke();
  g.restore();
}
