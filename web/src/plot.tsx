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
            if (min === null || min === undefined) return [0, 1];
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
          ...(p.time ? { values: (_: uPlot, at: number[]) => at.map((s) => (s % 60 ? clock : minutes).format(s * 1000)) } : {}),
        },
        { ...axis, size: 6.4 * u, values: (_, values) => values.map((v) => axisText(v, latest.current.unit)) },
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
        draw: crowd ? [(self) => paintCrowd(self, latest.current.lines.map((l) => l.values), latest.current.lines[0].color)] : [],
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
    <div class="chart" ref={box} role="img" aria-label={props.label} style={{ height: `${props.height}rem` }}>
      {tip && tip.index < props.x.length && <PlotTip props={props} tip={tip} />}
    </div>
  );
}

/** "80 %", not "80.0 %": an axis has round numbers. */
const axisText = (v: number, unit: string): string => withUnit(v, unit).replace(/\.0+(?=\s|$)/, "").replace(/(\.\d*?)0+(?=\s|$)/, "$1");

const minutes = new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit" });
const clock = new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

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
      <b>{props.time ? clock.format(x * 1000) : `${props.xTitle ?? ""} ${x}`}</b>
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
