// The frame: navigation above, the state of the connection below, a view between.

import { useEffect, useState } from "preact/hooks";
import { get, tryToken } from "./api";
import { Help } from "./help";
import { live } from "./live";
import { link, useRoute } from "./route";
import { StatusBar } from "./statusbar";
import { emit, on, useStore } from "./store";
import { choice, setTheme } from "./theme";
import type { Hang as HangState } from "./types";
import { Dialog, Empty, Fence, useLoad } from "./ui";
import { Balance } from "./views/balance";
import { Compare } from "./views/compare";
import { Hang } from "./views/hang";
import { Metrics } from "./views/metrics";
import { Nodes } from "./views/nodes";
import { Overview } from "./views/overview";
import { Ranks } from "./views/ranks";
import { Sql } from "./views/sql";
import { TimelineView } from "./timeline/view";

const views = [
  { id: "overview", title: "Overview", component: Overview, file: true },
  { id: "metrics", title: "Metrics", component: Metrics, file: true },
  { id: "timeline", title: "Timeline", component: TimelineView, file: true },
  { id: "ranks", title: "Ranks", component: Ranks, file: true },
  { id: "sql", title: "SQL", component: Sql, file: true },
  { id: "compare", title: "Compare", component: Compare, file: true },
  { id: "hang", title: "Hang", component: Hang, file: false },
  { id: "nodes", title: "Nodes", component: Nodes, file: false },
  { id: "balance", title: "Balance", component: Balance, file: false },
];

export function App() {
  const { view, params } = useRoute();
  const { info } = useStore(live);
  const theme = useStore(choice);
  const [help, setHelp] = useState(false);
  const hang = useLoad(info?.mode === "cluster" ? "hang" : null, (signal) => get<HangState>("/api/v1/hang", signal), 5000).data;
  const stuck = info?.mode === "cluster" && hang?.state === "hang";
  const [locked, setLocked] = useState<string | null>(null);
  const file = info?.mode === "file";
  const shown = views.filter((v) => v.file || !file);
  const current = shown.find((v) => v.id === view);

  useEffect(() => on("unauthenticated", (why) => setLocked(why)), []);
  useEffect(() => {
    if (info) document.documentElement.dataset.mode = info.mode;
  }, [info?.mode]);
  useEffect(() => {
    document.title = `${stuck ? "⚠ Hang · " : ""}${current?.title ?? "TraceSmith"} · ${info?.title ?? "TraceSmith"}`;
  }, [current?.id, info?.title, stuck]);
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || typing(e.target)) return;
      if (e.key === "?") setHelp(true);
      const n = "123456789".indexOf(e.key);
      if (e.key.length === 1 && n >= 0 && n < shown.length) location.hash = link(shown[n].id, keep(shown[n].id, params));
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, [shown.length, params]);

  const next = theme === "system" ? "dark" : theme === "dark" ? "light" : "system";
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the view
      </a>
      <nav class="top" aria-label="Views">
        <a class="brand" href={link("overview")} aria-label="TraceSmith, overview">
          <span class="mark" aria-hidden="true">
            <i />
            <i />
            <i />
          </span>
          TraceSmith
        </a>
        {shown.map((v) => (
          <a key={v.id} class="tab" href={link(v.id, keep(v.id, params))} aria-current={v.id === view ? "page" : undefined}>
            {v.title}
            {v.id === "hang" && stuck && <span class="badge hangs">hangs</span>}
          </a>
        ))}
        {stuck && view !== "hang" && (
          <a class="hang-says" href={link("hang")} role="alert" title={hang.verdict}>
            {hang.verdict}
          </a>
        )}
        <span class="fill" />
        <span class="title" title={info?.title}>
          {info?.title ?? ""}
        </span>
        {info?.simulated && (
          <span class="badge simulated" title="These figures come from the simulator, not from measurements.">
            simulated data
          </span>
        )}
        <button type="button" class="quiet" onClick={() => setTheme(next)} aria-label={`Colours: ${theme}. Change to ${next}`} title={`Colours: ${theme}`}>
          {theme === "system" ? "◐ auto" : theme === "dark" ? "● dark" : "○ light"}
        </button>
        <button type="button" class="quiet" onClick={() => setHelp(true)} aria-label="Help and keys" title="Help and keys (?)">
          ?
        </button>
      </nav>
      <main id="main" tabIndex={-1} class={`view-${current?.id ?? "none"}`}>
        <h1 class="hidden">{current?.title ?? "TraceSmith"}</h1>
        {current ? (
          <Fence key={current.id}>
            <current.component />
          </Fence>
        ) : info || !["hang", "nodes", "balance"].includes(view) ? (
          <Empty title={file && views.some((v) => v.id === view) ? `A recorded trace has no view “${view}”: it needs a running cluster` : `There is no page “${view}”`}>
            The address may be misspelled, or from another version. There are:{" "}
            {shown.map((v, i) => (
              <span key={v.id}>
                {i > 0 && ", "}
                <a href={link(v.id)}>{v.title}</a>
              </span>
            ))}
          </Empty>
        ) : null}
      </main>
      <StatusBar />
      {help && <Help onClose={() => setHelp(false)} />}
      {locked !== null && (
        <TokenPrompt
          why={locked}
          done={() => {
            setLocked(null);
            emit("retry");
          }}
        />
      )}
    </>
  );
}

/** What goes along from view to view: the trace that is looked at. */
function keep(view: string, params: URLSearchParams): Record<string, string | null> {
  return ["timeline", "ranks", "sql"].includes(view) ? { trace: params.get("trace") } : {};
}

export function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

function TokenPrompt(props: { why: string; done: () => void }) {
  const [value, setValue] = useState("");
  const [error, setError] = useState("");
  const use = async (e: Event) => {
    e.preventDefault();
    setError("");
    try {
      if (await tryToken(value.trim())) props.done();
      else setError("The server does not accept this token. After ten wrong tokens it blocks this address for half a minute.");
    } catch (problem) {
      setError((problem as Error).message);
    }
  };
  return (
    <Dialog title="A token is required">
      <form class="form" onSubmit={use}>
        <p>
          The server says: {props.why}. A token is the second word of a line in the file given to <code>--token-file</code>. It is kept in this tab only.
        </p>
        <label class="field">
          <span>Token</span>
          <input type="password" name="token" autocomplete="off" autofocus required value={value} onInput={(e) => setValue(e.currentTarget.value)} />
        </label>
        <p class="error" role={error ? "alert" : undefined}>
          {error}
        </p>
        <div class="actions">
          <button type="submit" class="main">
            Use it
          </button>
        </div>
      </form>
    </Dialog>
  );
}
