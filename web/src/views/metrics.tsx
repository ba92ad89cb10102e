// Any metric of any GPU over time. All charts share their stretch of time.

import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, get, query } from "../api";
import { heatPixel, lines as palette } from "../color";
import { count, metricTitle, node_gpu, plural, toMs, withUnit } from "../format";
import { HeatMap } from "../heat";
import { live, serverNow } from "../live";
import { spanOf, unitOf, useMetricNames } from "../metricnames";
import { isMask, maskText, statePixel, states } from "../masks";
import { momentText, Plot, type Line } from "../plot";
import { setParams, useRoute } from "../route";
import { ScaleLegend } from "../scale";
import { useStore } from "../store";
import { dark } from "../theme";
import type { Series, Session, TraceList } from "../types";
import { Empty, Failed, Loading, Panel, Select, Switch, useLoad } from "../ui";
import { quantiles } from "./quantiles";

/** The master keeps an hour. */
const ranges = [
  { value: "60", text: "1 min" },
  { value: "300", text: "5 min" },
  { value: "900", text: "15 min" },
  { value: "3600", text: "1 h" },
] as const;
const first = ["gpu_utilization_percent", "gpu_power_watts", "gpu_sm_clock_mhz"];
/** So many lines can still be told apart. */
const fewLines = 16;
type Look = "auto" | "lines" | "bands" | "heat";

export function Metrics() {
  const { params } = useRoute();
  const state = useStore(live);
  const file = state.info?.mode === "file";
  const trace = file ? "file" : params.get("trace");
  const names = useMetricNames(trace);
  const [adding, setAdding] = useState("");
  const offered = names?.map((m) => m.name) ?? [];
  const asked = params.get("metric")?.split(",").filter(Boolean);
  const metrics = asked ?? (names ? first.filter((m) => offered.includes(m)).concat(offered).slice(0, Math.min(3, offered.length)) : []);
  const shown = [...new Set(metrics)];
  const nodes = state.nodes?.nodes.map((n) => n.node) ?? [];
  const node = params.get("node") ?? "";
  const gpu = params.get("gpu") ?? "";
  const gpus = [...new Set((state.nodes?.nodes ?? []).flatMap((n) => n.gpus.map((g) => String(g.index))))];
  const zoomed = params.get("from") !== null;
  const asking = useLoad(trace ? "traces" : null, (signal) => get<TraceList>("/api/v1/traces", signal)).data;
  const whole = asking?.traces.find((t) => t.id === trace);
  const span = useMemo((): [number, number] | null => (whole?.end ? [toMs(whole.start) / 1000, toMs(whole.end) / 1000] : null), [whole?.start, whole?.end]);
  if (!state.info || (!names && !asked)) return state.connection === "down" ? <Failed what="The metrics" error={new ApiError(0, "offline", state.problem)} /> : <Loading what="Asking for the metrics" />;
  return (
    <div class="metrics">
      <div class="tools">
        {!file && (
          <>
            <Select label="Node" value={node} options={[{ value: "", text: "all nodes" }, ...nodes.map((n) => ({ value: n, text: n }))]} onChange={(v) => setParams({ node: v })} />
            <Select label="GPU" value={gpu} options={[{ value: "", text: "all GPUs" }, ...gpus.map((g) => ({ value: g, text: `GPU ${g}` }))]} onChange={(v) => setParams({ gpu: v })} />
            <Switch
              label="Time shown"
              value={zoomed ? "" : (params.get("range") ?? "900")}
              options={ranges as readonly { value: string; text: string }[]}
              onChange={(v) => setParams({ range: v, from: null, to: null }, false)}
            />
          </>
        )}
        {!trace && <TimePicker />}
        <Switch
          label="Drawn as"
          value={(params.get("look") as Look | null) ?? "auto"}
          options={[
            { value: "auto", text: "Auto" },
            { value: "lines", text: "Lines" },
            { value: "bands", text: "Bands" },
            { value: "heat", text: "Heat map" },
          ]}
          onChange={(v) => setParams({ look: v === "auto" ? null : v })}
        />
        <span class="fill" />
        <button type="button" disabled={!zoomed} onClick={() => setParams({ from: null, to: null }, false)}>
          {file ? "Whole trace" : "Back to live"}
        </button>
        <Select
          label="Add a chart"
          hideLabel
          value={adding}
          options={[{ value: "", text: "Add a metric …" }, ...offered.filter((m) => !shown.includes(m)).map((m) => ({ value: m, text: `${metricTitle(m)} (${m})` }))]}
          onChange={(m) => {
            if (m) setParams({ metric: [...shown, m].join(",") });
            setAdding("");
          }}
        />
      </div>
      {names && !names.length && (
        <Empty title="No metrics yet" command={file ? "tracesmith run -o job.sbt -- torchrun train.py" : `tracesmith cluster agent --master ${location.hostname}:50051`}>
          {file ? "This trace has no telemetry. A trace recorded by this command has it:" : "Telemetry comes from the agents. Start one on each node:"}
        </Empty>
      )}
      {shown.map((m) => (
        <Chart key={m} metric={m} unit={unitOf(m, names)} trace={trace} span={span} node={node} gpu={gpu} onRemove={() => setParams({ metric: shown.filter((x) => x !== m).join(",") })} removable={shown.length > 1} />
      ))}
    </div>
  );
}

/** A stretch of time by the clock. */
function TimePicker() {
  const { params } = useRoute();
  const local = (ns: string | null): string => {
    if (!ns) return "";
    const date = new Date(Number(BigInt(ns) / 1_000_000n));
    return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  };
  const set = (key: "from" | "to", value: string) => {
    const now = serverNow();
    const both = { from: params.get("from") ?? String(now - 900_000_000_000n), to: params.get("to") ?? String(now) };
    const ms = Date.parse(value);
    if (Number.isNaN(ms)) return;
    both[key] = `${ms}000000`;
    if (BigInt(both.from) < BigInt(both.to)) setParams(both, false);
  };
  return (
    <span class="time-picker">
      <input type="datetime-local" step="1" aria-label="From" title="From" value={local(params.get("from"))} onChange={(e) => set("from", e.currentTarget.value)} />
      <span aria-hidden="true">–</span>
      <input type="datetime-local" step="1" aria-label="To" title="To" value={local(params.get("to"))} onChange={(e) => set("to", e.currentTarget.value)} />
    </span>
  );
}

/** When sessions began and ended. */
function marksOf(sessions: Session[] | null): { at: number; text: string }[] {
  return (sessions ?? []).flatMap((s) => [{ at: toMs(s.start) / 1000, text: s.name }, ...(s.end ? [{ at: toMs(s.end) / 1000, text: `end of ${s.name}` }] : [])]);
}

function Chart(props: { metric: string; unit: string; trace: string | null; span: [number, number] | null; node: string; gpu: string; onRemove: () => void; removable: boolean }) {
  const { params } = useRoute();
  const { nodes, info, sessions } = useStore(live);
  const from = params.get("from");
  const to = params.get("to");
  const range = Number(params.get("range") ?? 900);
  const devices = (nodes?.nodes ?? []).filter((n) => !props.node || n.node === props.node).reduce((sum, n) => sum + (props.gpu ? 1 : n.gpus.length), 0);
  const look = (params.get("look") as Look | null) ?? "auto";
  // Of a file it is known when the first answer is there.
  const [seen, setSeen] = useState(0);
  const points = Math.min(1600, Math.max(200, Math.round(300_000 / Math.max(1, devices || seen || 500))));
  const follow = !from && !props.trace;
  const key = `series ${props.metric} ${props.node} ${props.gpu} ${from} ${to} ${range} ${props.trace} ${points}`;
  const load = useLoad(
    key,
    (signal) => {
      const now = serverNow();
      const ends = follow ? { from: String(now - BigInt(range) * 1_000_000_000n), to: String(now) } : { from, to };
      return get<Series>(`/api/v1/metrics/series${query({ metric: props.metric, node: props.node, gpu: props.gpu, ...ends, points, trace: props.trace })}`, signal);
    },
    // Not more often than there is a new point to be seen.
    follow ? Math.min(30_000, Math.max(2000, (range * 1000) / points)) : 0,
  );
  const data = load.data?.metric === props.metric ? load.data : null;
  const unit = data?.unit || props.unit;
  const n = data?.series.length ?? 0;
  useEffect(() => {
    if (n) setSeen((before) => Math.max(before, n));
  }, [n]);
  const mask = isMask(props.metric);
  const drawn = mask ? "states" : look !== "auto" ? look : n > fewLines ? "heat" : "lines";
  const x = useMemo(() => {
    const start = data ? toMs(data.t0) : 0;
    return data ? data.times.map((t) => (start + t) / 1000) : [];
  }, [data]);
  // All charts have the same time axis: what was asked for, or the whole trace.
  const span = useMemo((): [number, number] | null => {
    if (from && to) return [toMs(from) / 1000, toMs(to) / 1000];
    if (props.span && x.length) return [Math.min(props.span[0], x[0]), Math.max(props.span[1], x[x.length - 1])];
    if (!data || !follow) return null;
    const now = toMs(String(serverNow())) / 1000;
    // A master that has just been started has nothing older.
    return [Math.max(now - range, Math.min(x[0] ?? now, now - 30)), now];
  }, [data, from, to, range, props.span?.[0], props.span?.[1]]);
  const marks = useMemo(() => (props.trace ? [] : marksOf(sessions)), [sessions, props.trace]);
  const zoom = (a: number, b: number) => {
    const ns = (s: number) => String(BigInt(Math.round(s * 1000)) * 1_000_000n);
    setParams({ from: ns(a), to: ns(b) }, false);
  };
  const heading = (
    <>
      {metricTitle(props.metric)} <span class="fine">{props.metric}</span>
    </>
  );
  const aside = (
    <>
      {data && <span>{data.series.every((s) => s.index !== null) ? plural(n, "GPU") : `${n} series`}{load.error ? ", outdated: the server does not answer" : ""}</span>}
      {props.removable && (
        <button type="button" class="quiet" onClick={props.onRemove} aria-label={`Remove ${metricTitle(props.metric)}`}>
          ✕
        </button>
      )}
    </>
  );
  const empty = !data || !n || !x.length;
  return (
    <Panel title={heading} aside={aside} class="chart-panel">
      {empty ? (
        load.error ? (
          <Failed what="This metric" error={load.error} retry={load.reload} />
        ) : !data ? (
          <Loading what="Loading the values" />
        ) : (
          <Empty title="Nothing was measured in this time range">{info?.mode === "file" ? "" : "Choose a longer range above."}</Empty>
        )
      ) : drawn === "states" ? (
        <StateChart data={data} x={x} onZoom={zoom} />
      ) : drawn === "heat" ? (
        <HeatChart data={data} unit={unit} x={x} onZoom={zoom} />
      ) : (
        <Plot
          label={`${metricTitle(props.metric)} over time`}
          x={x}
          lines={drawn === "bands" ? bands(data) : lines(data)}
          unit={unit}
          height={17}
          time
          range={span}
          marks={marks}
          legend={n <= fewLines || drawn === "bands"}
          sync="metrics"
          fromZero={unit !== "°C" && unit !== "MHz"}
          onZoom={zoom}
          onReset={() => setParams({ from: null, to: null }, false)}
        />
      )}
    </Panel>
  );
}

function lines(data: Series): Line[] {
  const faint = data.series.length > fewLines;
  return data.series.map((s, i) => ({
    label: node_gpu(s.node, s.index),
    color: palette[i % palette.length],
    values: s.values,
    width: faint ? 0.75 : 1.25,
  }));
}

/** The spread over all GPUs: lowest, 10 %, median, 90 %, highest. */
export function bands(data: Series): Line[] {
  const [low, lower, middle, upper, high] = quantiles(data.series.map((s) => s.values), data.times.length, [0, 0.1, 0.5, 0.9, 1]);
  const color = palette[0];
  return [
    { label: "highest", color, values: high, width: 0.75, fillTo: 4 },
    { label: "90 % are below", color, values: upper, width: 0.5, fillTo: 3 },
    { label: "median", color: palette[1], values: middle, width: 2 },
    { label: "10 % are below", color, values: lower, width: 0.5 },
    { label: "lowest", color, values: low, width: 0.75 },
  ];
}

const stepOf = (x: number[]): number => (x.length > 1 ? x[1] - x[0] : 1);

/** A bit mask has no height: rows of states. */
function StateChart({ data, x, onZoom }: { data: Series; x: number[]; onZoom: (a: number, b: number) => void }) {
  const rows = useMemo(() => data.series.map((s) => node_gpu(s.node, s.index)), [data]);
  const isDark = useStore(dark);
  const color = useMemo(
    () => (r: number, c: number) => {
      const v = data.series[r].values[c];
      return v === null || v === undefined ? 0 : statePixel(v, isDark);
    },
    [data, isDark],
  );
  return (
    <div class="heat-chart">
      <HeatMap
        label={`${data.metric} of ${count(rows.length)} GPUs over time`}
        rows={rows}
        columns={x.length}
        color={color}
        axis={(c) => momentText(x[c], (x[x.length - 1] - x[0]) / 20)}
        tip={(r, c) => (
          <>
            <b>{rows[r]}</b> {maskText(data.series[r].values[c])}
            <div class="fine">{momentText(x[c], stepOf(x))}</div>
          </>
        )}
        onRange={(a, b) => onZoom(x[a], x[b])}
        maxHeight={34}
        rowHeight={1.3}
      />
      <p class="legend" aria-label="States">
        {states.map((s) => (
          <span key={s.text}>
            <i class="swatch" style={{ background: isDark ? s.dark : s.light }} />
            {s.text}
          </span>
        ))}
      </p>
    </div>
  );
}

function HeatChart({ data, unit, x, onZoom }: { data: Series; unit: string; x: number[]; onZoom: (a: number, b: number) => void }) {
  const span = useMemo(() => spanOf(unit, ...data.series.map((s) => s.values)), [data, unit]);
  const rows = useMemo(() => data.series.map((s) => node_gpu(s.node, s.index)), [data]);
  const color = useMemo(
    () => (r: number, c: number) => {
      const v = data.series[r].values[c];
      return v === null || v === undefined ? 0 : heatPixel((v - span[0]) / (span[1] - span[0] || 1));
    },
    [data, span],
  );
  return (
    <div class="heat-chart">
      <HeatMap
        label={`${data.metric} of ${count(rows.length)} GPUs over time`}
        rows={rows}
        columns={x.length}
        color={color}
        axis={(c) => momentText(x[c], (x[x.length - 1] - x[0]) / 20)}
        tip={(r, c) => (
          <>
            <b>{rows[r]}</b> {withUnit(data.series[r].values[c], unit)}
            <div class="fine">{momentText(x[c], stepOf(x))}</div>
          </>
        )}
        onPick={(r) => setParams({ node: data.series[r].node, gpu: data.series[r].index }, false)}
        onRange={(a, b) => onZoom(x[a], x[b])}
        maxHeight={34}
        rowHeight={1.3}
      />
      <ScaleLegend from={withUnit(span[0], unit)} to={withUnit(span[1], unit)} />
    </div>
  );
}
