// Each node, and how well its clock is known.

import { ApiError, get } from "../api";
import { lines as palette } from "../color";
import { bytes, count, duration, none, plural, seconds, toMs } from "../format";
import { live } from "../live";
import { Plot } from "../plot";
import { link, setParams, useRoute } from "../route";
import { useStore } from "../store";
import { stateOf, type ClockHistory, type NodeInfo, type RankMetrics } from "../types";
import { Chip, Empty, Failed, Loading, Panel, Table, useLoad } from "../ui";
import { useMemo } from "preact/hooks";

export function Nodes() {
  const { params } = useRoute();
  const state = useStore(live);
  const nodes = state.nodes?.nodes;
  if (!nodes) return state.connection === "down" ? <Failed what="The nodes" error={new ApiError(0, "offline", state.problem)} /> : <Loading what="Asking for the nodes" />;
  if (!nodes.length)
    return (
      <Empty title="No node has joined yet" command={`tracesmith cluster agent --master ${location.hostname}:50051`}>
        Start an agent on each node:
      </Empty>
    );
  const chosen = nodes.find((n) => n.node === params.get("node")) ?? nodes[0];
  return (
    <div class="nodes">
      <Panel title={plural(nodes.length, "node")} aside={`${count(nodes.filter((n) => stateOf(n) === "healthy").length)} healthy`} class="node-list">
        <Table<NodeInfo>
          label="Nodes"
          rows={nodes}
          id={(n) => n.node}
          chosen={chosen.node}
          onChoose={(n) => setParams({ node: n.node })}
          columns={[
            { title: "node", cell: (n) => <b>{n.node}</b> },
            {
              title: "state",
              cell: (n) => (
                <>
                  <Chip kind={stateOf(n) === "healthy" ? "good" : stateOf(n) === "unhealthy" ? "warn" : "bad"}>{stateOf(n)}</Chip> {n.simulated && <Chip kind="warn">simulated</Chip>}
                </>
              ),
            },
            { title: "heard", number: true, hint: "Since its last report", cell: (n) => `${seconds(n.silent_s)} ago` },
            { title: "GPUs", number: true, cell: (n) => n.gpus.length },
            { title: "processes", number: true, hint: "Under the probe", cell: (n) => count(n.processes) },
            { title: "records", number: true, hint: "Read from the rings since its agent started", cell: (n) => count(n.records) },
            { title: "lost", number: true, cell: (n) => <span class={n.losses ? "lost" : ""}>{count(n.losses)}</span> },
            { title: "spool", number: true, hint: "On its disk, not yet stored by the master", cell: (n) => bytes(n.spool_bytes) },
            { title: "stored", number: true, hint: "On the master's disk", cell: (n) => bytes(n.stored_bytes) },
            { title: "drift", number: true, cell: (n) => (n.clock ? `${n.clock.drift_ppm.toFixed(2)} ppm` : none) },
            { title: "±", number: true, hint: "Error bound of its clock against the master's", cell: (n) => duration(n.clock?.bound_ns) },
            { title: "problem", wide: true, cell: (n) => <span class="bad-text">{n.problem ?? ""}</span> },
          ]}
        />
      </Panel>
      <Processes node={chosen.node} />
      <Details node={chosen} />
    </div>
  );
}

/** What is recorded on a node, and how fast it trains. */
function Processes({ node }: { node: string }) {
  const ranks = useStore(live).latest?.ranks.filter((r) => r.node === node) ?? [];
  if (!ranks.length) return null;
  const rate = (v: number | null) => (v === null ? none : v.toFixed(v < 100 ? 1 : 0));
  return (
    <Panel title={plural(ranks.length, "recorded process", "recorded processes")}>
      <Table<RankMetrics>
        label="Recorded processes"
        rows={ranks}
        id={(r) => String(r.pid)}
        columns={[
          { title: "rank", number: true, cell: (r) => r.rank ?? none },
          { title: "role", cell: (r) => r.role ?? none },
          { title: "process", number: true, cell: (r) => <>{r.pid} {r.simulated && <Chip kind="warn">simulated</Chip>}</> },
          { title: "step", number: true, cell: (r) => r.step ?? none },
          { title: "for", number: true, hint: "Since this step began", cell: (r) => seconds(r.step_age_s) },
          { title: "MFU", number: true, hint: "Of its GPU's peak", cell: (r) => (r.mfu_percent === null ? none : `${r.mfu_percent.toFixed(1)} %`) },
          { title: "samples/s", number: true, cell: (r) => rate(r.samples_per_s) },
          { title: "tokens/s", number: true, cell: (r) => rate(r.tokens_per_s) },
        ]}
      />
    </Panel>
  );
}

function Details({ node }: { node: NodeInfo }) {
  const load = useLoad(`clock ${node.node}`, (signal) => get<ClockHistory>(`/api/v1/nodes/${encodeURIComponent(node.node)}/clock`, signal), 5000);
  const data = load.data?.node === node.node ? load.data.points : null;
  const x = useMemo(() => data?.map((p) => toMs(p.t) / 1000) ?? [], [data]);
  const offset = useMemo(() => {
    const middle = data?.length ? BigInt(data[data.length - 1].offset_ns) : 0n;
    const from = (bound: number) => data?.map((p) => Number(BigInt(p.offset_ns) - middle) + bound * p.bound_ns) ?? [];
    return [
      { label: "at most", color: palette[0], values: from(1), width: 0.5, fillTo: 2 },
      { label: "offset", color: palette[0], values: from(0), width: 1.75 },
      { label: "at least", color: palette[0], values: from(-1), width: 0.5 },
    ];
  }, [data]);
  const drift = useMemo(() => [{ label: "drift", color: palette[1], values: data?.map((p) => p.drift_ppm) ?? [], width: 1.5 }], [data]);
  const facts: [string, string][] = [
    ["host", node.hostname || none],
    ["address", node.address || none],
    ["version", node.version || none],
    ["GPUs", [...new Set(node.gpus.map((g) => g.name))].join(", ") || "none found"],
    ["GPU memory", node.gpus[0] ? bytes(node.gpus[0].memory_bytes) : none],
    ["captures", count(node.captures)],
    ["stored events", count(node.stored_events)],
    ["clock method", node.clock?.method ?? none],
    ["round trip", duration(node.clock?.delay_ns)],
    ["clock faults", count(node.clock?.faults)],
  ];
  return (
    <div class="two even node-details">
      <Panel title={node.node} aside={<a href={link("metrics", { node: node.node })}>Metrics of {node.node}</a>}>
        <dl class="facts one pad">
          {facts.map(([k, v]) => (
            <div key={k}>
              <dt>{k}</dt>
              <dd title={v}>{v}</dd>
            </div>
          ))}
        </dl>
      </Panel>
      <Panel title="Clock against the master's" aside="offset, relative to now, with its bound">
        {load.error && !data ? (
          <Failed what="The history of the clock" error={load.error} />
        ) : !data ? (
          <Loading what="Loading the history" />
        ) : data.length < 2 ? (
          <Empty title="No history yet">A point is added every five seconds.</Empty>
        ) : (
          <div class="clock-charts">
            <Plot label="Clock offset with bound" x={x} lines={offset} unit="ns" height={15} time sync="clock" />
            <Plot label="Clock drift" x={x} lines={drift} unit="ppm" height={9} time sync="clock" />
          </div>
        )}
      </Panel>
    </div>
  );
}
