// Where the program of a rank spends its time, as a flame graph; of two ranks, what they do differently.

import { useMemo, useState } from "preact/hooks";
import { ApiError, get, trace as pathOf } from "../api";
import { count, percent } from "../format";
import { setParams, useRoute } from "../route";
import type { FlameGraph, TraceInfo } from "../types";
import { Failed, Loading, Panel, useLoad } from "../ui";

const rowHeight = 18;
const least = 0.0008; // of the width

interface Box {
  call: number;
  depth: number;
  from: number;
  width: number;
}

/** Of each call, what it called. */
function below(graph: FlameGraph): number[][] {
  const all: number[][] = graph.calls.map(() => []);
  graph.calls.forEach((c, i) => i > 0 && all[c[1]].push(i));
  return all;
}

/** How much of the whole a call is: of two ranks, the mean of their shares. */
function weights(graph: FlameGraph): (call: number) => number {
  const [a, b] = [graph.looks_a, graph.looks_b];
  if (a === null || b === null) return (call) => graph.calls[call][4] + graph.calls[call][5];
  return (call) => graph.calls[call][4] / Math.max(1, a) + graph.calls[call][5] / Math.max(1, b);
}

function layout(graph: FlameGraph, root: number): Box[] {
  const called = below(graph);
  const weight = weights(graph);
  const boxes: Box[] = [];
  const place = (call: number, depth: number, from: number, width: number): void => {
    if (width < least) return;
    boxes.push({ call, depth, from, width });
    const all = weight(call);
    let at = from;
    for (const c of [...called[call]].sort((x, y) => graph.names[graph.calls[x][0]].localeCompare(graph.names[graph.calls[y][0]]))) {
      const part = all > 0 ? (width * weight(c)) / all : 0;
      place(c, depth + 1, at, part);
      at += part;
    }
  };
  place(root, 0, 0, 1);
  return boxes;
}

/** A share of each rank's time, where two are compared. */
function shares(graph: FlameGraph, call: number): [number, number] {
  const c = graph.calls[call];
  return [c[4] / Math.max(1, graph.looks_a ?? 0), c[5] / Math.max(1, graph.looks_b ?? 0)];
}

function colorOf(graph: FlameGraph, call: number): string {
  if (graph.looks_a !== null) {
    const [a, b] = shares(graph, call);
    const strength = Math.min(1, Math.abs(b - a) * 4 + (Math.abs(b - a) > 0.002 ? 0.15 : 0));
    return `color-mix(in srgb, var(${b > a ? "--bad" : "--accent"}) ${Math.round(strength * 70)}%, var(--panel))`;
  }
  const c = graph.calls[call];
  const cpu = c[4] + c[5] > 0 ? c[4] / (c[4] + c[5]) : 0;
  return `color-mix(in srgb, var(--warn) ${Math.round(20 + cpu * 45)}%, var(--panel))`;
}

function sentenceOf(graph: FlameGraph, call: number, ranks: [string, string]): string {
  const c = graph.calls[call];
  const name = graph.names[c[0]];
  if (graph.looks_a !== null) {
    const [a, b] = shares(graph, call);
    return `${name}: ${percent(a, 1)} of the time of rank ${ranks[0]}, ${percent(b, 1)} of that of rank ${ranks[1]}`;
  }
  const all = graph.calls[0][4] + graph.calls[0][5];
  return `${name}: ${count(c[4] + c[5])} samples, ${percent((c[4] + c[5]) / Math.max(1, all), 1)} of all; ${percent(c[4] / Math.max(1, c[4] + c[5]), 0)} of them on the CPU`;
}

function Drawing({ graph, ranks }: { graph: FlameGraph; ranks: [string, string] }) {
  const [root, setRoot] = useState(0);
  const [told, setTold] = useState<number | null>(null);
  const boxes = useMemo(() => layout(graph, root < graph.calls.length ? root : 0), [graph, root]);
  const deepest = boxes.reduce((most, b) => Math.max(most, b.depth), 0);
  return (
    <>
      <div class="stack-flame" style={{ height: `${(deepest + 1) * rowHeight}px` }} onMouseLeave={() => setTold(null)}>
        {boxes.map((b) => (
          <button
            type="button"
            key={b.call}
            class="flame-call"
            style={{ left: `${b.from * 100}%`, width: `${b.width * 100}%`, top: `${b.depth * rowHeight}px`, background: colorOf(graph, b.call) }}
            title={sentenceOf(graph, b.call, ranks)}
            onMouseEnter={() => setTold(b.call)}
            onFocus={() => setTold(b.call)}
            onClick={() => setRoot(b.call === root ? 0 : b.call)}
          >
            {b.width > 0.02 ? graph.names[graph.calls[b.call][0]] : ""}
          </button>
        ))}
      </div>
      <p class="fine" role="status">
        {told !== null && told < graph.calls.length ? sentenceOf(graph, told, ranks) : root !== 0 ? "Click the uppermost call to see everything again." : "Click a call to see it alone. What calls is above what is called."}
        {graph.looks_a !== null && ` Red: rank ${ranks[1]} does more of it; blue: rank ${ranks[0]}.`}
        {graph.idle_threads > 0 && ` ${count(graph.idle_threads)} idle ${graph.idle_threads === 1 ? "thread is" : "threads are"} left out.`}
      </p>
    </>
  );
}

function Choice(props: { label: string; value: string; values: [string, string][]; choose: (value: string) => void }) {
  return (
    <label class="field-inline">
      {props.label}{" "}
      <select value={props.value} onChange={(e) => props.choose(e.currentTarget.value)}>
        {props.values.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

export function StacksPanel({ trace }: { trace: TraceInfo }) {
  const { params } = useRoute();
  const [rank, other, state] = [params.get("stack-rank") ?? "", params.get("stack-with") ?? "", params.get("stack-state") ?? ""];
  const query = new URLSearchParams();
  if (rank) query.set("rank", rank);
  if (rank && other && other !== rank) query.set("with", other);
  if (state) query.set("state", state);
  const { data, error, reload } = useLoad(`flame ${trace.id} ${trace.state} ${query}`, (signal) => get<FlameGraph>(`${pathOf(trace.id)}/stacks?${query}`, signal));
  const all = useLoad(`flame ${trace.id} ${trace.state}`, (signal) => get<FlameGraph>(`${pathOf(trace.id)}/stacks`, signal)).data;
  if (error instanceof ApiError && error.status < 500 && !rank && !state) return null; // the trace has no stacks
  const ranks: [string, string][] = (all?.ranks ?? []).map((r) => [String(r), `rank ${r}`]);
  const aside = (
    <>
      {ranks.length > 0 && <Choice label="of" value={rank} values={[["", "all ranks"], ...ranks]} choose={(v) => setParams({ "stack-rank": v, "stack-with": v ? other : "" })} />}
      {rank && ranks.length > 1 && (
        <Choice label="compared with" value={other} values={[["", "nothing"], ...ranks.filter(([r]) => r !== rank)]} choose={(v) => setParams({ "stack-with": v })} />
      )}
      <Choice
        label="while"
        value={state}
        values={[
          ["", "on the CPU or waiting"],
          ["on-cpu", "on the CPU"],
          ["waiting", "waiting"],
        ]}
        choose={(v) => setParams({ "stack-state": v })}
      />
    </>
  );
  return (
    <Panel title="Where the program spends its time" aside={aside} class="stacks-panel">
      {error ? <Failed what="The stacks" error={error} retry={reload} /> : data ? <Drawing key={query.toString()} graph={data} ranks={[rank, other]} /> : <Loading what="Reading the stacks" />}
    </Panel>
  );
}
