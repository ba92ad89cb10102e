// Which trace a view is about: the one in the address, else the newest.

import { get } from "./api";
import { shortTime } from "./format";
import { live } from "./live";
import { setParams, useRoute } from "./route";
import { useStore } from "./store";
import type { TraceInfo, TraceList } from "./types";
import { Empty, Failed, Loading, Select, useLoad } from "./ui";

export interface Chosen {
  traces: TraceInfo[];
  trace: TraceInfo | null;
  /** What to show instead of the view, when there is no trace. */
  instead: preact.JSX.Element | null;
}

export function useTrace(): Chosen {
  const { params } = useRoute();
  const { info, sessions } = useStore(live);
  const states = sessions?.map((s) => `${s.id} ${s.state}`).join() ?? "";
  const load = useLoad(`traces ${states}`, (signal) => get<TraceList>("/api/v1/traces", signal));
  // Sessions: the newest first. Files: the one that was opened, then the one to compare it with.
  const list = load.data?.traces ?? [];
  const traces = list[0]?.kind === "file" ? list : [...list].sort((a, b) => (BigInt(a.start) < BigInt(b.start) ? 1 : -1));
  const asked = params.get("trace");
  const trace = asked ? (traces.find((t) => t.id === asked) ?? null) : (traces[0] ?? null);
  let instead = null;
  if (!trace) {
    if (load.error) instead = <Failed what="The list of traces" error={load.error} retry={load.reload} />;
    else if (!load.data) instead = <Loading what="Loading the traces" />;
    else if (traces.length)
      instead = (
        <Empty title={`There is no trace “${asked}”`}>
          It may have been removed, or belong to another master. <a href={`#/${location.hash.replace(/^#\/?/, "").split("?")[0]}`}>Show the newest one</a>
        </Empty>
      );
    else
      instead = (
        <Empty title="Nothing recorded yet" command={info?.mode === "file" ? undefined : "tracesmith cluster start --name my-session"}>
          Start a session on the <a href="#/overview">overview</a>, or type:
        </Empty>
      );
  }
  return { traces, trace, instead };
}

/** What a trace is called; those of the same name are told apart by when they began. */
export function titleOf(t: TraceInfo, all: TraceInfo[]): string {
  return all.some((x) => x !== t && x.title === t.title) ? `${t.title}, ${shortTime(t.start)}` : t.title;
}

export function TracePicker({ chosen, keep = [] }: { chosen: Chosen; keep?: string[] }) {
  const { params } = useRoute();
  if (!chosen.trace) return null;
  if (chosen.traces.length === 1) return <h2 title={chosen.trace.title}>{chosen.trace.title}</h2>;
  const cleared = Object.fromEntries([...params.keys()].filter((k) => !keep.includes(k)).map((k) => [k, null]));
  return (
    <Select
      label="Trace"
      value={chosen.trace.id}
      options={chosen.traces.map((t) => ({ value: t.id, text: `${titleOf(t, chosen.traces)}${t.state === "recording" ? " (recording)" : ""}` }))}
      onChange={(id) => setParams({ ...cleared, trace: id }, false)}
    />
  );
}
