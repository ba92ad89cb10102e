import { get } from "../api";
import { clockTime } from "../format";
import type { Live } from "../live";
import { link } from "../route";
import type { Alert, Hang } from "../types";
import { Chip, Empty, Panel, useLoad } from "../ui";

/** The alerts of the hang watch, and those that came as events since the page was opened. */
export function Alerts({ state }: { state: Live }) {
  const hang = useLoad("hang", (signal) => get<Hang>("/api/v1/hang", signal), 3000).data;
  const alerts = merge(state.alerts, hang?.alerts ?? []);
  return (
    <Panel
      title="Alerts"
      class="alerts"
      aside={hang && <a href={link("hang")}>{hang.state === "hang" ? <Chip kind="bad">the job hangs</Chip> : hang.state === "slow" ? <Chip kind="warn">slow</Chip> : "watch"}</a>}
    >
      {alerts.length ? <AlertList alerts={alerts} /> : <Empty title="No alert">Collectives that wait too long, lost nodes and bad clocks appear here.</Empty>}
    </Panel>
  );
}

export function merge(...lists: Alert[][]): Alert[] {
  const seen = new Map<string, Alert>();
  for (const a of lists.flat()) seen.set(`${a.t} ${a.text}`, a);
  return [...seen.values()].sort((a, b) => (BigInt(a.t) < BigInt(b.t) ? 1 : -1));
}

export function AlertList({ alerts }: { alerts: Alert[] }) {
  return (
    <ul class="alert-list">
      {alerts.map((a) => (
        <li key={`${a.t} ${a.text}`}>
          <time>{clockTime(a.t)}</time>
          <Chip kind={/crit|error|bad|high/.test(a.severity) ? "bad" : /warn/.test(a.severity) ? "warn" : "note"}>{a.kind}</Chip>
          <span>{a.text}</span>
        </li>
      ))}
    </ul>
  );
}
