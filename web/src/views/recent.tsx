// The metric of the grid over the last minutes: the spread over all GPUs.

import { useMemo } from "preact/hooks";
import { get, query } from "../api";
import { metricTitle, toMs } from "../format";
import { serverNow, type Live } from "../live";
import { unitOf, useMetricNames } from "../metricnames";
import { Plot } from "../plot";
import { link, useRoute } from "../route";
import type { Series } from "../types";
import { Empty, Panel, useLoad } from "../ui";
import { chosenMetric } from "./grid";
import { bands } from "./metrics";

const minutes = 15;

export function RecentSpread({ state }: { state: Live }) {
  const { params } = useRoute();
  const names = useMetricNames();
  const offered = Object.keys(state.latest?.devices[0]?.metrics ?? {}).sort();
  const metric = chosenMetric(params, offered);
  const load = useLoad(
    offered.length ? `recent ${metric}` : null,
    (signal) => {
      const now = serverNow();
      return get<Series>(`/api/v1/metrics/series${query({ metric, from: String(now - BigInt(minutes) * 60_000_000_000n), to: String(now), points: 300 })}`, signal);
    },
    5000,
  );
  const data = load.data?.metric === metric && load.data.series.length ? load.data : null;
  const drawn = useMemo(() => data && { x: data.times.map((t) => (toMs(data.t0) + t) / 1000), lines: bands(data) }, [data]);
  return (
    <Panel title={`${metricTitle(metric)}, last ${minutes} minutes`} aside={<a href={link("metrics", { metric })}>each GPU over time</a>} class="chart-panel">
      {drawn ? (
        <Plot label={`${metricTitle(metric)}: lowest, median and highest of all GPUs`} {...drawn} unit={data!.unit || unitOf(metric, names)} height={17} time fromZero />
      ) : (
        <Empty title={load.error ? "Unknown" : offered.length ? "Asking …" : "No telemetry yet"}>{load.error?.message}</Empty>
      )}
    </Panel>
  );
}
