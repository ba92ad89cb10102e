// Named sessions: start, stop, look at.

import { useState } from "preact/hooks";
import { download, post, trace } from "../api";
import { bytes, dateTime, duration, shortTime, toMs } from "../format";
import { refreshSessions, type Live } from "../live";
import { link } from "../route";
import type { Session } from "../types";
import { Chip, Empty, Panel } from "../ui";

export function Sessions({ state }: { state: Live }) {
  const sessions = [...(state.sessions ?? [])].sort((a, b) => (BigInt(a.start) < BigInt(b.start) ? 1 : -1));
  const may = state.info?.role !== "viewer";
  return (
    <Panel title="Sessions" class="sessions" aside={`${sessions.filter((s) => s.state === "recording").length} recording`}>
      <StartForm may={may} sessions={sessions} />
      {sessions.length === 0 ? (
        <Empty title="No session yet" command="tracesmith cluster start --name my-session">
          Give it a name above and start it, or type:
        </Empty>
      ) : (
        <ul class="session-list">
          {sessions.map((s) => (
            <SessionLine key={s.id} session={s} now={state.nodes?.now ?? null} may={may} />
          ))}
        </ul>
      )}
    </Panel>
  );
}

function StartForm({ may, sessions }: { may: boolean; sessions: Session[] }) {
  const [name, setName] = useState("");
  const [last, setLast] = useState("");
  const [length, setLength] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const start = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await post("/api/v1/sessions", {
        name: name.trim(),
        ...(last ? { last_s: Number(last) } : {}),
        ...(length ? { duration_s: Number(length) } : {}),
      });
      setName("");
      await refreshSessions();
    } catch (e) {
      setError((e as Error).message);
    }
    setBusy(false);
  };
  const same = sessions.find((s) => s.name === name.trim());
  const hint = !may ? "You are a viewer: starting and stopping sessions needs an operator's token." : same ? `There is a session of that name, of ${shortTime(same.start)}: lists will tell the two apart by their times.` : "";
  return (
    <form class="start-session" onSubmit={start} aria-label="Start a session">
      <input
        name="name"
        placeholder="name of a new session"
        aria-label="Name of a new session"
        required
        maxLength={200}
        value={name}
        disabled={!may}
        onInput={(e) => (setName(e.currentTarget.value), setError(""))}
      />
      <input
        name="last"
        type="number"
        min="0"
        step="any"
        placeholder="last … s"
        aria-label="Start this many seconds in the past"
        title="Start this many seconds in the past (the rings keep the last seconds)"
        value={last}
        disabled={!may}
        onInput={(e) => setLast(e.currentTarget.value)}
      />
      <input
        name="duration"
        type="number"
        min="0"
        step="any"
        placeholder="for … s"
        aria-label="Stop automatically after this many seconds"
        title="Stop automatically after this many seconds; empty: until stopped"
        value={length}
        disabled={!may}
        onInput={(e) => setLength(e.currentTarget.value)}
      />
      <button type="submit" class="main" disabled={!may || busy} title={may ? "" : "Starting a session needs the operator role"}>
        Start
      </button>
      <p class={`form-says ${error ? "" : "hint"}`} role={error ? "alert" : undefined}>
        {error || hint}
      </p>
    </form>
  );
}

function SessionLine({ session: s, now, may }: { session: Session; now: string | null; may: boolean }) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const stop = async () => {
    setBusy(true);
    setError("");
    try {
      await post(`/api/v1/sessions/${encodeURIComponent(s.id)}/stop`, {});
      await refreshSessions();
    } catch (e) {
      setError((e as Error).message);
    }
    setBusy(false);
  };
  const end = s.end ?? now;
  const length = end ? (toMs(end) - toMs(s.start)) * 1e6 : null;
  const missing = s.nodes.filter((n) => !n.complete);
  const kind = s.state === "recording" ? "note" : s.state === "complete" ? "good" : "warn";
  return (
    <li class="session">
      <div class="session-line">
        <b title={s.name}>{s.name}</b>
        <Chip kind={kind} title={missing.length ? `still missing: ${missing.map((n) => n.node).join(", ")}` : undefined}>
          {s.state}
        </Chip>
      </div>
      <div class="session-line fine">
        <span title={`Started ${dateTime(s.start)}`}>{shortTime(s.start)}</span>
        <span>{duration(length)}</span>
        <span>{bytes(s.bytes)}</span>
        <span class="fill" />
        <a href={link("timeline", { trace: s.id })} aria-label={`Timeline of ${s.name}`}>
          Timeline
        </a>
        <a href={link("ranks", { trace: s.id })} aria-label={`Ranks of ${s.name}`}>
          Ranks
        </a>
        {s.state === "recording" ? (
          <button type="button" class="small" onClick={stop} disabled={!may || busy} aria-label={`Stop ${s.name}`}>
            Stop
          </button>
        ) : (
          <button
            type="button"
            class="small"
            onClick={() => download(`${trace(s.id)}/export?format=perfetto`, `${s.id}.pftrace`).catch((e: Error) => setError(e.message))}
            aria-label={`Download ${s.name} for Perfetto`}
          >
            Download
          </button>
        )}
      </div>
      {error && (
        <p class="form-says" role="alert">
          {error}
        </p>
      )}
    </li>
  );
}
