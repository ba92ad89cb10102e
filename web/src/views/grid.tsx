// Nodes × GPUs, coloured by the metric chosen.

import { useMemo } from "preact/hooks";
import { css, heat, inkOn } from "../color";
import { count, duration, metricTitle, none, plural, seconds, short, withUnit } from "../format";
import type { Live } from "../live";
import { defaultMetric, spanOf, unitOf, useMetricNames } from "../metricnames";
import { link, setParams, useRoute } from "../route";
import { ScaleLegend } from "../scale";
import { stateOf, type NodeInfo } from "../types";
import { Chip, Panel, Select } from "../ui";

const staleAfter = 10;

export function ClusterGrid({ state }: { state: Live }) {
  const { params } = useRoute();
  const names = useMetricNames();
  const nodes = state.nodes!.nodes;
  const devices = state.latest?.devices ?? [];
  const offered = useMemo(() => {
    const all = new Set<string>();
    for (const d of devices) for (const name of Object.keys(d.metrics)) all.add(name);
    return [...all].sort();
  }, [devices.length, devices[0] && Object.keys(devices[0].metrics).join()]);
  const metric = chosenMetric(params, offered);
  const unit = unitOf(metric, names);
  const byDevice = new Map(devices.map((d) => [`${d.node}\n${d.index}`, d]));
  const span = spanOf(unit, devices.map((d) => d.metrics[metric] ?? null));
  const healthy = nodes.filter((n) => stateOf(n) === "healthy").length;
  const gpus = nodes.reduce((sum, n) => sum + n.gpus.length, 0);
  const widest = Math.max(1, ...nodes.map((n) => n.gpus.length));
  return (
    <Panel
      title={
        <>
          {plural(nodes.length, "node")}, {plural(gpus, "GPU")}{" "}
          {healthy < nodes.length ? <Chip kind="bad">{nodes.length - healthy} not healthy</Chip> : <Chip kind="good">all healthy</Chip>}
        </>
      }
      aside={
        <>
          <ScaleLegend from={withUnit(span[0], unit)} to={withUnit(span[1], unit)} />
          <Select
            label="Coloured by"
            value={metric}
            options={(offered.length ? offered : [metric]).map((m) => ({ value: m, text: metricTitle(m) }))}
            onChange={(m) => setParams({ metric: m })}
          />
        </>
      }
      class="cluster"
    >
      <div class={`grid-rows ${nodes.length > 24 ? "many" : ""}`} role="table" aria-label={`${metricTitle(metric)} of every GPU`}>
        <div class="grid-row grid-head" role="row">
          <span role="columnheader">node</span>
          <span role="columnheader">{metricTitle(metric)} of each GPU{unit && `, ${unit.replace(/^B/, "GiB")}`}</span>
          <span role="columnheader" class="number" title="Error bound of its clock against the master's">
            clock ±
          </span>
          <span role="columnheader" class="number" title="Records lost, for any reason">
            lost
          </span>
        </div>
        {nodes.map((node) => (
          <div class={`grid-row ${stateOf(node)}`} role="row" key={node.node}>
            <NodeName node={node} />
            <span class="cells" role="cell" style={{ gridTemplateColumns: `repeat(${widest}, minmax(0, 1fr))` }}>
              {node.gpus.length === 0 && <span class="no-gpu">no GPU found</span>}
              {node.gpus.map((gpu) => {
                const device = byDevice.get(`${node.node}\n${gpu.index}`);
                const value = device?.metrics[metric] ?? null;
                const old = stateOf(node) === "disconnected" || (device?.age_s ?? 0) > staleAfter;
                const color = value === null ? null : heat((value - span[0]) / (span[1] - span[0] || 1));
                const text = `${node.node}, GPU ${gpu.index} (${gpu.name}): ${metricTitle(metric)} ${withUnit(value, unit)}${old ? `, ${seconds(device?.age_s ?? null)} old` : ""}`;
                return (
                  <a
                    key={gpu.index}
                    class={`cell ${value === null ? "unknown" : ""} ${old ? "old" : ""}`}
                    href={link("metrics", { metric, node: node.node, gpu: gpu.index })}
                    aria-label={text}
                    title={text}
                    style={color ? { background: css(color), color: inkOn(color) } : {}}
                  >
                    {value === null ? none : cellText(value, unit)}
                  </a>
                );
              })}
            </span>
            <span role="cell" class="number">
              {node.clock ? duration(node.clock.bound_ns) : none}
            </span>
            <span role="cell" class={`number ${node.losses ? "lost" : ""}`}>
              {count(node.losses)}
            </span>
          </div>
        ))}
      </div>
    </Panel>
  );
}

export function chosenMetric(params: URLSearchParams, offered: string[]): string {
  const asked = params.get("metric") ?? defaultMetric;
  return offered.includes(asked) ? asked : (offered.find((n) => n.startsWith("gpu_utilization")) ?? offered[0] ?? asked);
}

function cellText(value: number, unit: string): string {
  if (unit === "B" || unit === "B/s") return short(value / 2 ** 30);
  if (unit === "%") return value.toFixed(0);
  if (Math.abs(value) >= 1e5) return value.toExponential(0);
  return Math.abs(value) >= 10 || Number.isInteger(value) ? value.toFixed(0) : short(value);
}

function NodeName({ node }: { node: NodeInfo }) {
  const says =
    stateOf(node) === "healthy" ? "healthy" : stateOf(node) === "disconnected" ? `disconnected, silent for ${seconds(node.silent_s)}` : (node.problem ?? "unhealthy");
  return (
    <span role="rowheader" class="node-name">
      <i class={`dot ${stateOf(node)}`} aria-hidden="true" />
      <a href={link("nodes", { node: node.node })} title={says}>
        {node.node}
      </a>
      {stateOf(node) !== "healthy" && <span class="says">{says}</span>}
    </span>
  );
}
