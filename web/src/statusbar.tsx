// The line at the bottom: connection, clock, losses. Always there, so that nothing jumps when it has something to say.

import { useEffect, useState } from "preact/hooks";
import { get } from "./api";
import { bytes, count, duration, plural } from "./format";
import { live, type Live } from "./live";
import { useRoute } from "./route";
import { Store, useStore } from "./store";
import { retryAll, startCommand, useLoad } from "./ui";
import type { Loss, TimelineInfo } from "./types";

/** What the view shown knows of its trace: losses and the bound of its clock. */
export const traceState = new Store<{ losses: Loss[]; bound: number | null; notes: string[] } | null>(null);

export function StatusBar() {
  const state = useStore(live);
  const trace = useStore(traceState);
  const { view } = useRoute();
  const file = state.info?.mode === "file";
  const whole = useLoad(file ? "losses in the file" : null, (signal) => get<TimelineInfo>("/api/v1/traces/file/timeline", signal)).data;
  const ofFile = whole && { losses: whole.losses, bound: whole.clock_bound_ns, notes: [] };
  const ofTrace = file ? (trace ?? ofFile) : ["timeline", "ranks"].includes(view) ? trace : null;
  return (
    <footer class="status" aria-label="State">
      <ConnectionState state={state} />
      {ofTrace ? <TraceLosses losses={ofTrace.losses} /> : <ClusterLosses state={state} />}
      <span title="Largest possible difference between the clocks of two nodes">
        clock ± {duration(ofTrace ? ofTrace.bound : worstBound(state))}
      </span>
      {state.nodes?.stored_bytes != null && <span>{bytes(state.nodes.stored_bytes)} stored</span>}
      <span class="fill" />
      <Notes notes={[...new Set([...(ofTrace?.notes ?? []), ...(state.info?.notes ?? [])])]} />
      <span>{state.info ? `${state.info.role} · ${state.info.version}` : ""}</span>
    </footer>
  );
}

function ConnectionState({ state }: { state: Live }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  if (state.connection === "down") {
    const since = state.heard ? `for ${whole(Math.max(1, Math.round((performance.now() - state.heard) / 1000)))}` : "";
    return (
      <span class="down" role="alert">
        <b>Disconnected {since}</b>
        <span>
          {state.heard ? "the data shown is outdated; " : ""}start it again: <code>{startCommand()}</code>
        </span>
        <button type="button" class="quiet" onClick={retryAll}>
          try now
        </button>
      </span>
    );
  }
  if (state.connection === "locked") return <span class="down">a token is required</span>;
  if (state.connection === "connecting") return <span class="waiting">connecting …</span>;
  return <span class="up">{state.info?.mode === "file" ? "connected" : "live"}</span>;
}

const whole = (s: number): string => (s < 120 ? `${s} s` : duration(s * 1e9));

function worstBound(state: Live): number | null {
  const bounds = (state.nodes?.nodes ?? []).flatMap((n) => (n.clock ? [n.clock.bound_ns] : []));
  return bounds.length ? Math.max(...bounds) : null;
}

function ClusterLosses({ state }: { state: Live }) {
  const known = (state.nodes?.nodes ?? []).filter((n) => n.losses !== null);
  if (!state.nodes || (!known.length && state.nodes.nodes.length)) return <span>losses unknown</span>;
  const total = known.reduce((sum, n) => sum + n.losses!, 0);
  const text = known
    .filter((n) => n.losses)
    .map((n) => `${n.node}: ${count(n.losses)}`)
    .join("\n");
  return (
    <span class={total ? "lost" : ""} title={text || "No records lost"}>
      {plural(total, "record")} lost
    </span>
  );
}

const whose = (l: Loss): string => (l.rank !== null ? `rank ${l.rank}` : "node" in l ? l.node : null) ?? "all";

function TraceLosses({ losses }: { losses: Loss[] }) {
  const total = losses.reduce((sum, l) => sum + l.count, 0);
  const text = losses.map((l) => `${whose(l)}: ${l.cause} ${count(l.count)}`).join("\n");
  return (
    <span class={total ? "lost" : ""} title={text || "No records of this trace were lost"}>
      {plural(total, "record")} lost in this trace
    </span>
  );
}

function Notes({ notes }: { notes: string[] }) {
  if (!notes.length) return null;
  return (
    <span class="notes" title={notes.join("\n")}>
      {notes.length === 1 ? notes[0] : `${notes.length} notes: ${notes[0]}`}
    </span>
  );
}
