// Is the job stuck, and who is missing? Asked every second.

import { useState } from "preact/hooks";
import { get, post } from "../api";
import { bytes, dateTime, none, seconds } from "../format";
import { live, refreshSessions, serverNow } from "../live";
import { link } from "../route";
import { useStore } from "../store";
import type { Stacks } from "../model";
import type { Hang as HangState, Session } from "../types";
import { Chip, Empty, Failed, Loading, Panel, Table, useLoad } from "../ui";
import { AlertList, merge } from "./alerts";
import { RecentSpread } from "./recent";
import { TrainingNow } from "./training";
import { sentence } from "./ranks";

const titles: Record<HangState["state"], string> = { ok: "The job is running", hang: "The job hangs", slow: "The job is slow", unknown: "Unknown" };

export function Hang() {
  const load = useLoad("hang", (signal) => get<HangState>("/api/v1/hang", signal), 1000);
  const state = useStore(live);
  const { alerts, sessions } = state;
  const h = load.data;
  if (!h) return load.error ? <Failed what="The verdict" error={load.error} retry={load.reload} /> : <Loading what="Checking who waits for whom" />;
  const kind = h.state === "ok" ? "good" : h.state === "hang" ? "bad" : "warn";
  return (
    <div class="hang">
      <div class={`verdict ${load.error ? "old" : kind}`} role="status">
        <p>
          <b>{titles[h.state] ?? h.state}.</b> {sentence(h.verdict)}
        </p>
        <div class="verdict-facts">
          {h.since && <Chip kind={kind}>since {dateTime(h.since)}</Chip>}
          {load.error && <Chip kind="warn">outdated: the server does not answer</Chip>}
          {h.culprits.map((c, i) => (
            <Chip key={i} kind="bad" title={c.reason}>
              {c.rank === null ? "" : `rank ${c.rank} `}
              {c.node ? `on ${c.node}` : ""}
            </Chip>
          ))}
        </div>
      </div>
      {h.culprits.some((c) => c.stack) && (
        <Panel title="Where they are" aside="ranks at the same place together">
          <ul class="where">
            {together(h.culprits).map((list) => (
              <Where key={list[0].where} culprits={list} stack={list[0].stack!} />
            ))}
          </ul>
        </Panel>
      )}
      <Panel title="Collectives in flight" aside={`${h.communicators.length}`}>
        {h.communicators.length ? (
          <Table
            label="Collectives in flight"
            rows={h.communicators}
            id={(c) => `${c.comm} ${c.seq}`}
            columns={[
              { title: "group", cell: (c) => c.comm },
              { title: "operation", cell: (c) => `${c.op}${c.seq === null ? "" : ` ${c.seq}`}` },
              { title: "bytes", number: true, cell: (c) => bytes(c.bytes) },
              { title: "waits for", number: true, cell: (c) => seconds(c.age_s) },
              { title: "ranks", wide: true, cell: (c) => <RankDots entered={c.entered} missing={c.missing} /> },
              { title: "differs", wide: true, cell: (c) => c.mismatch ?? none },
            ]}
          />
        ) : (
          <Empty title="No collective is waiting" command={h.state === "unknown" ? "tracesmith run --flight 30 -- torchrun train.py" : undefined}>
            {h.state === "unknown" ? "Watching needs a job that runs under the probe:" : "Ranks that wait in a collective are listed here, with the ranks that are missing."}
          </Empty>
        )}
      </Panel>
      <div class="two even">
        <div class="stack">
          {h.state === "hang" && <Frozen hang={h} sessions={sessions ?? []} />}
          <TrainingNow state={state} inside={insideOf(h)} />
        </div>
        <div class="stack">
          <RecentSpread state={state} />
          <Panel title="Alerts">
            {alerts.length + h.alerts.length ? <AlertList alerts={merge(alerts, h.alerts)} /> : <Empty title="No alert" />}
          </Panel>
        </div>
      </div>
    </div>
  );
}

type Culprit = HangState["culprits"][number];

/** Those whose programs are at the same place. */
function together(culprits: Culprit[]): Culprit[][] {
  const places = new Map<string, Culprit[]>();
  for (const c of culprits) if (c.stack) places.set(c.where ?? "", [...(places.get(c.where ?? "") ?? []), c]);
  return [...places.values()];
}

/** Which ranks have come to the operation at the root, and which have not. */
function insideOf(h: HangState): ReadonlyMap<number, boolean> | undefined {
  const root = h.communicators[0];
  if (!root || h.state === "ok") return undefined;
  const known = (ranks: (number | null)[], here: boolean) => ranks.flatMap((r) => (r === null ? [] : [[r, here] as [number, boolean]]));
  return new Map([...known(root.entered, true), ...known(root.missing, false)]);
}

/** The session that was recorded when the hang was noticed, or how to get one: what the ranks did just before. */
function Frozen({ hang, sessions }: { hang: HangState; sessions: Session[] }) {
  const [error, setError] = useState("");
  const since = hang.since ? BigInt(hang.since) : null;
  const covers = (s: Session) => since !== null && BigInt(s.start) <= since && (s.end === null || BigInt(s.end) >= since);
  const found = [...sessions].filter(covers).sort((a, b) => (BigInt(a.start) < BigInt(b.start) ? 1 : -1));
  const around = since === null ? {} : { abs_from: String(since - 2_000_000_000n), abs_to: String(since + 2_000_000_000n) };
  const freeze = async () => {
    setError("");
    try {
      const now = serverNow();
      const back = since === null ? 10 : Number((now - since) / 1_000_000_000n) + 10;
      await post("/api/v1/sessions", { name: "hang", last_s: back, duration_s: 1 });
      await refreshSessions();
    } catch (e) {
      setError((e as Error).message);
    }
  };
  return (
    <Panel title="What the ranks did before" aside={found.length ? "recordings that have the moment it began" : "nothing recorded that moment yet"}>
      {found.length ? (
        <ul class="frozen">
          {found.slice(0, 4).map((s) => (
            <li key={s.id}>
              <b>{s.name}</b>
              <a href={link("timeline", { trace: s.id, ...around })}>the moment it began</a>
              {hang.culprits.map((c) => c.rank !== null && (
                <a key={c.rank} href={link("timeline", { trace: s.id, rank: c.rank, ...around })}>
                  timeline of rank {c.rank}
                </a>
              ))}
              <a href={link("ranks", { trace: s.id })}>analysis</a>
            </li>
          ))}
        </ul>
      ) : (
        <p class="pad frozen-none">
          <button type="button" onClick={() => void freeze()}>
            Save the last seconds
          </button>
          <span class="fine">as a session, from before it began: the rings of the ranks still have them</span>
          {error && (
            <span class="form-says" role="alert">
              {error}
            </span>
          )}
        </p>
      )}
    </Panel>
  );
}

/** The line that some ranks are at; the stack of the first of them unfolds. */
function Where(props: { culprits: Culprit[]; stack: Stacks }) {
  const { culprits, stack } = props;
  const names = culprits.map((c) => `${c.rank === null ? `process ${c.stack?.pid}` : `rank ${c.rank}`}${c.node ? ` on ${c.node}` : ""}`);
  const frames = stack.threads.flatMap((t) => t.frames);
  return (
    <li>
      <details>
        <summary>
          <b>{names.slice(0, 4).join(", ")}</b>
          {names.length > 4 && ` and ${names.length - 4} more`} {names.length > 1 ? "are" : "is"} in <code>{culprits[0].where}</code>
        </summary>
        <ol>
          {frames.map((f, i) => (
            <li key={i}>
              <code>{f.function ?? "?"}</code>{" "}
              <span class="quiet">
                {f.file}
                {f.line === null ? "" : `:${f.line}`}
                {f.more > 0 ? `, ${f.more + 1} times in a row` : ""}
              </span>
            </li>
          ))}
        </ol>
      </details>
    </li>
  );
}

/** Ranks that nobody knows the number of are "?". */
function RankDots(props: { entered: (number | null)[]; missing: (number | null)[] }) {
  const [entered, missing] = [props.entered, props.missing].map((ranks) => ranks.map((r) => r ?? "?"));
  const all = [...entered.map((r) => ({ r, here: true })), ...missing.map((r) => ({ r, here: false }))].sort((a, b) => Number(a.r) - Number(b.r));
  return (
    <span class="rank-dots" aria-label={`${entered.length} entered; missing: ${missing.join(", ") || "none"}`}>
      {all.slice(0, 512).map(({ r, here }) => (
        <i key={r} class={here ? "" : "missing"} title={`rank ${r} ${here ? "has entered" : "is missing"}`}>
          {all.length <= 64 || !here ? r : ""}
        </i>
      ))}
    </span>
  );
}
