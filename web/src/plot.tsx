// uPlot as a component: sizes itself, follows the theme, zooms by dragging, and shares its cursor with the charts of the same key.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { withUnit } from "./format";
import { paintCrowd } from "./manylines";
import { useStore } from "./store";
import { dark, rem, variable } from "./theme";
import { useSize } from "./ui";

/** So many are painted by us. */
const manyLines = 40;

export interface Line {
  label: string;
  color: string;
  values: (number | null | undefined)[];
  width?: number;
  /** Fills up to the line with this place in the list. */
  fillTo?: number;
  /** Left out of the tip. */
  silent?: boolean;
  points?: boolean;
}

export interface PlotProps {
  label: string;
  x: number[];
  lines: Line[];
  unit: string;
  /** In rem. */
  height: number;
  time?: boolean;
  xTitle?: string;
  range?: [number, number] | null;
  sync?: string;
  /** Moments of x that have a name: when a session began. */
  marks?: { at: number; text: string }[];
  /** What lines are called, below them. */
  legend?: boolean;
  fromZero?: boolean;
  onZoom?: (from: number, to: number) => void;
  onReset?: () => void;
}

export function Plot(props: PlotProps) {
  const [box, size] = useSize<HTMLDivElement>();
  const plot = useRef<uPlot | null>(null);
  const isDark = useStore(dark);
  const latest = useRef(props);
  latest.current = props;
  const [tip, setTip] = useState<{ x: number; y: number; index: number; at: number } | null>(null);
  const shape = props.lines.map((l) => `${l.color}${l.fillTo ?? ""}${l.width ?? ""}${l.points ?? ""}`).join();
  const data = useMemo<uPlot.AlignedData>(() => [props.x, ...props.lines.map((l) => l.values)] as uPlot.AlignedData, [props.x, props.lines]);

  useEffect(() => {
    if (!box.current || !size.width) return;
    const u = rem();
    const ink = variable("--ink-faint");
    const grid = { stroke: variable("--grid"), width: 1 };
    const font = `${0.88 * u}px ${getComputedStyle(document.body).fontFamily}`;
    const p = latest.current;
    const crowd = p.lines.length > manyLines;
    const axis = { stroke: ink, grid, ticks: grid, font, labelFont: font };
    const options: uPlot.Options = {
      width: size.width,
      height: p.height * u,
      legend: { show: false },
      cursor: {
        drag: { x: !!p.onZoom, y: false, setScale: false },
        sync: p.sync ? { key: p.sync } : undefined,
        points: { show: p.lines.length <= 24 },
        bind: { dblclick: () => () => (latest.current.onReset?.(), null) },
      },
      scales: {
        x: { time: p.time ?? false, range: (_, min, max) => latest.current.range ?? (min === max ? [min - 1, max + 1] : [min, max]) },
        y: {
          range: (_, min, max) => {
            if (min === null || min === undefined) return [0, latest.current.unit === "%" ? 100 : 1];
            if (latest.current.unit === "%" && min >= 0 && max <= 100) return [0, 100];
            const low = latest.current.fromZero && min > 0 ? 0 : min;
            const room = (max - low || Math.abs(max) || 1) * 0.06;
            return [low === 0 ? 0 : low - room, max + room];
          },
        },
      },
      axes: [
        {
          ...axis,
          size: 2.2 * u,
          space: 7 * u,
          label: p.xTitle,
          labelSize: p.xTitle ? 1.5 * u : 0,
          ...(p.time ? { values: (_: uPlot, at: number[]) => timeTicks(at), incrs: timeSteps } : {}),
        },
        { ...axis, size: 6.4 * u, ...(/^B/.test(p.unit) ? { incrs: binarySteps } : {}), values: (_, values) => values.map((v) => axisText(v, latest.current.unit)) },
      ],
      series: [
        {},
        ...p.lines.map((l) => ({
          label: l.label,
          stroke: l.color,
          width: (l.width ?? 1.25) * (u / 13),
          points: l.points ? { show: true, size: 0.4 * u, fill: l.color } : { show: false },
          spanGaps: false,
          ...(crowd ? { paths: () => null } : {}),
        })),
      ],
      bands: p.lines.flatMap((l, i) => (l.fillTo === undefined ? [] : [{ series: [i + 1, l.fillTo + 1] as [number, number], fill: `${l.color}2e` }])),
      hooks: {
        draw: [
          ...(crowd ? [(self: uPlot) => paintCrowd(self, latest.current.lines.map((l) => l.values), latest.current.lines[0].color)] : []),
          (self: uPlot) => paintMarks(self, latest.current.marks ?? [], font),
        ],
        setSelect: [
          (self) => {
            const { left, width } = self.select;
            if (width > 4) latest.current.onZoom?.(self.posToVal(left, "x"), self.posToVal(left + width, "x"));
            self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        setCursor: [
          (self) => {
            const { left, top, idx } = self.cursor;
            const over = self.over.matches(":hover");
            if (!over || idx === null || idx === undefined || left === undefined || left < 0) {
              setTip(null);
              return;
            }
            const rect = self.over.getBoundingClientRect();
            setTip({ x: rect.left + left, y: rect.top + (top ?? 0), index: idx, at: self.posToVal(top ?? 0, "y") });
          },
        ],
      },
    };
    const chart = new uPlot(options, data, box.current);
    plot.current = chart;
    return () => {
      chart.destroy();
      plot.current = null;
    };
  }, [size.width > 0, shape, isDark, props.unit, props.height, props.time, props.xTitle, props.sync]);

  useEffect(() => plot.current?.setData(data), [data, props.range?.[0], props.range?.[1]]);
  useEffect(() => {
    if (size.width) plot.current?.setSize({ width: size.width, height: props.height * rem() });
  }, [size.width, props.height]);

  return (
    <>
      <div class="chart" ref={box} role="img" aria-label={props.label} style={{ height: `${props.height}rem` }}>
        {tip && tip.index < props.x.length && <PlotTip props={props} tip={tip} />}
      </div>
      {props.legend && (
        <p class="legend chart-legend" aria-label="Lines">
          {props.lines.map((l) => (
            <span key={l.label}>
              <i class="swatch" style={{ background: l.color }} />
              {l.label}
            </span>
          ))}
        </p>
      )}
    </>
  );
}

/** 1 KiB, 2 KiB, 4 KiB, ... */
const binarySteps = Array.from({ length: 60 }, (_, i) => 2 ** i);

/** Steps of a time axis, in seconds. */
const timeSteps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

const day = new Intl.DateTimeFormat("sv-SE", { month: "2-digit", day: "2-digit" });

/** As many digits as the step between them needs; the date where a day begins. */
function timeTicks(at: number[]): string[] {
  const step = at.length > 1 ? at[1] - at[0] : 1;
  const digits = step >= 0.999 ? 0 : Math.min(3, Math.ceil(-Math.log10(step * 1.0001)));
  return at.map((s) => {
    if (digits) return `${clock.format(Math.floor(s + 5e-4) * 1000)}${(s + 5e-7 - Math.floor(s + 5e-7)).toFixed(digits).slice(1)}`;
    const date = new Date(s * 1000);
    if (step >= 43_200 || (step >= 600 && date.getHours() === 0 && date.getMinutes() === 0)) return day.format(date);
    return (step < 60 ? clock : minutes).format(date);
  });
}

/** Lines through the chart, each with its name. */
function paintMarks(u: uPlot, marks: { at: number; text: string }[], font: string): void {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  ctx.save();
  ctx.font = font;
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  ctx.strokeStyle = variable("--accent");
  ctx.fillStyle = variable("--accent");
  ctx.setLineDash([4, 3]);
  let free = left;
  for (const m of [...marks].sort((a, b) => a.at - b.at)) {
    const x = Math.round(u.valToPos(m.at, "x", true));
    if (x < left || x > left + width) continue;
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
    // A name that would lie over the one before is left out.
    const w = ctx.measureText(m.text).width;
    const at = Math.min(x + 4, left + width - w);
    if (at < free) continue;
    ctx.fillText(m.text, at, top + 2);
    free = at + w + 6;
  }
  ctx.restore();
}

/** "80 %", not "80.0 %": an axis has round numbers. */
const axisText = (v: number, unit: string): string => withUnit(v, unit).replace(/\.0+(?=\s|$)/, "").replace(/(\.\d*?)0+(?=\s|$)/, "$1");

const minutes = new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit" });
const clock = new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** A time of a chart whose values are so many seconds apart. */
export const momentText = (s: number, step: number): string => `${clock.format(s * 1000)}${step < 0.5 ? (s - Math.floor(s)).toFixed(3).slice(1) : ""}`;

function PlotTip({ props, tip }: { props: PlotProps; tip: { x: number; y: number; index: number; at: number } }) {
  const x = props.x[tip.index];
  const near = props.lines
    .filter((l) => !l.silent && l.values[tip.index] !== null && l.values[tip.index] !== undefined)
    .map((l) => ({ line: l, value: l.values[tip.index] as number }))
    .sort((a, b) => Math.abs(a.value - tip.at) - Math.abs(b.value - tip.at));
  const shown = near.slice(0, 8).sort((a, b) => b.value - a.value);
  const style = tip.x > innerWidth * 0.65 ? { right: `${innerWidth - tip.x + 12}px`, top: `${tip.y + 12}px` } : { left: `${tip.x + 12}px`, top: `${tip.y + 12}px` };
  return (
    <div class="tip" style={style}>
      <b>{props.time ? momentText(x, props.x.length > 1 ? props.x[1] - props.x[0] : 1) : `${props.xTitle ?? ""} ${x}`}</b>
      {shown.map(({ line, value }) => (
        <div key={line.label}>
          <i class="swatch" style={{ background: line.color }} />
          {line.label}: {withUnit(value, props.unit)}
        </div>
      ))}
      {near.length > shown.length && <div class="fine">and {near.length - shown.length} more</div>}
      {!near.length && <div class="fine">nothing measured here</div>}
    </div>
  );
}
