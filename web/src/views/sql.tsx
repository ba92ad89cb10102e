// Any question, in SQL.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, request, saveBlob } from "../api";
import { count, seconds } from "../format";
import { live } from "../live";
import { hasMoments } from "../moments";
import { playbooks } from "../playbooks";
import { link, setParams, useRoute } from "../route";
import { useStore } from "../store";
import { titleOf } from "../traces";
import type { QueryResult, Schema, TraceList } from "../types";
import { Empty, Select, Switch, useLoad } from "../ui";
import { SqlEditor } from "./sqleditor";
import { ResultChart, ResultTable } from "./sqlresult";

const savedKey = "tracesmith.queries";
const examples: { name: string; sql: string }[] = [
  { name: "Kernels by time", sql: "SELECT name, count(*) AS calls, round(sum(dur) / 1e6, 2) AS ms, round(avg(dur) / 1e3, 1) AS us_each\nFROM events\nWHERE type = 'kernel'\nGROUP BY name\nORDER BY ms DESC\nLIMIT 50" },
  { name: "Collectives by group", sql: "SELECT comm, op, count(*) AS operations, round(avg(dur) / 1e3, 1) AS us_each, sum(bytes) AS bytes\nFROM collectives\nGROUP BY comm, op\nORDER BY operations DESC" },
  { name: "Steps of each rank", sql: "SELECT rank, count(*) AS steps, round(avg(dur) / 1e6, 3) AS ms_each, round(max(dur) / 1e6, 3) AS ms_longest\nFROM steps\nGROUP BY rank\nORDER BY rank" },
  { name: "Mean of each metric", sql: "SELECT name, count(*) AS samples, round(avg(value), 2) AS mean, min(value) AS least, max(value) AS most\nFROM metrics\nGROUP BY name\nORDER BY name" },
  { name: "What was lost", sql: "SELECT * FROM losses" },
];

interface Saved {
  name: string;
  sql: string;
}

function readSaved(): Saved[] {
  try {
    const list = JSON.parse(localStorage.getItem(savedKey) ?? "[]") as Saved[];
    return Array.isArray(list) ? list.filter((s) => typeof s?.name === "string" && typeof s?.sql === "string") : [];
  } catch {
    return [];
  }
}

export function Sql() {
  const { params } = useRoute();
  const { info } = useStore(live);
  const [sql, setSql] = useState(params.get("q") ?? examples[0].sql);
  const [result, setResult] = useState<QueryResult | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [saved, setSaved] = useState(readSaved);
  const [naming, setNaming] = useState("");
  const control = useRef<AbortController | null>(null);
  const schema = useLoad("schema", (signal) => get<Schema>("/api/v1/schema", signal)).data;
  const asked = useLoad("traces", (signal) => get<TraceList>("/api/v1/traces", signal));
  const traces = [...(asked.data?.traces ?? [])].sort((a, b) => (BigInt(a.start) < BigInt(b.start) ? 1 : -1));
  const file = info?.mode === "file";
  const trace = file ? "" : (params.get("trace") ?? traces[0]?.id ?? "");
  const nothing = !file && !!asked.data && !traces.length;
  const look = params.get("look") === "chart" ? "chart" : "table";
  const body = () => ({ sql, ...(trace ? { trace } : {}) });

  const run = async (text = sql) => {
    control.current?.abort();
    const own = new AbortController();
    control.current = own;
    setBusy(true);
    setError("");
    setParams({ q: text });
    try {
      const answer = await post<QueryResult>("/api/v1/query", { ...body(), sql: text, max_rows: 10_000, timeout_s: 30 }, own.signal);
      if (!own.signal.aborted) setResult(answer);
    } catch (e) {
      if (own.signal.aborted) return;
      setResult(null);
      setError((e as Error).message);
    }
    setBusy(false);
  };
  // A link to a query shows its answer.
  const ready = !!info && (file || !!trace);
  const first = useRef(params.get("q") !== null);
  useEffect(() => {
    if (!ready || !first.current) return;
    first.current = false;
    void run();
  }, [ready]);
  useEffect(() => () => control.current?.abort(), []);
  const take = (text: string) => {
    setSql(text);
    if (!nothing) void run(text);
  };
  const stop = () => {
    control.current?.abort();
    setBusy(false);
  };
  const save = async (format: "csv" | "arrow") => {
    try {
      const response = await request("/api/v1/query", { method: "POST", body: JSON.stringify({ ...body(), format, max_rows: 1_000_000 }) });
      saveBlob(await response.blob(), `result.${format === "csv" ? "csv" : "arrows"}`);
      if (response.headers.get("X-Truncated") === "true")
        setError(`The file has the first ${count(Number(response.headers.get("X-Row-Count")))} rows of the result; there are more. Ask for fewer rows, or use tracesmith query on the trace.`);
    } catch (e) {
      setError((e as Error).message);
    }
  };
  const keep = (list: Saved[]) => {
    localStorage.setItem(savedKey, JSON.stringify(list));
    setSaved(list);
  };
  return (
    <div class="sql">
      <aside class="sql-side" aria-label="Queries and tables">
        <h3>Examples</h3>
        <QueryList list={examples} onTake={take} />
        {playbooks.length > 0 && <h3>Playbooks</h3>}
        {playbooks.map((book) => (
          <details key={book.question}>
            <summary>{book.question}</summary>
            <QueryList list={book.parts} onTake={take} />
          </details>
        ))}
        <h3>Saved here</h3>
        {saved.length ? <QueryList list={saved} onTake={take} onRemove={(s) => keep(saved.filter((x) => x !== s))} /> : <p class="fine">Queries you save stay in this browser.</p>}
        <h3>Tables</h3>
        <ul class="schema">
          {schema?.tables.map((t) => (
            <li key={t.name}>
              <details>
                <summary>{t.name}</summary>
                <ul>
                  {t.columns.map((c) => (
                    <li key={c.name} title={c.doc}>
                      <code>{c.name}</code> <span class="fine">{c.type.length > 16 ? c.type.slice(0, 4).toLowerCase() : c.type.toLowerCase()}</span>
                    </li>
                  ))}
                </ul>
              </details>
            </li>
          ))}
        </ul>
      </aside>
      <div class="sql-main">
        <div class="tools">
          <button type="button" class="main" onClick={busy ? stop : () => void run()} disabled={!sql.trim() || nothing} title="Ctrl + Enter">
            {busy ? "Stop" : "Run"}
          </button>
          {traces.length > 0 && !file && (
            <Select
              label="Over"
              value={trace}
              options={traces.map((t) => ({ value: t.id, text: titleOf(t, traces) }))}
              onChange={(v) => setParams({ trace: v })}
            />
          )}
          <form
            class="save-query"
            onSubmit={(e) => {
              e.preventDefault();
              if (naming.trim()) keep([...saved.filter((s) => s.name !== naming.trim()), { name: naming.trim(), sql }]);
              setNaming("");
            }}
          >
            <input name="query-name" placeholder="save as …" aria-label="Name to save this query under" value={naming} onInput={(e) => setNaming(e.currentTarget.value)} />
            <button type="submit" disabled={!naming.trim()}>
              Save
            </button>
          </form>
          <span class="fill" />
          <span class="fine" role="status">
            {busy ? "running …" : result ? `${count(result.row_count)} rows${result.truncated ? `, the first ${count(result.rows.length)} shown` : ""} in ${seconds(result.seconds)}` : ""}
          </span>
          <Switch
            label="Show as"
            value={look}
            options={[
              { value: "table", text: "Table" },
              { value: "chart", text: "Chart" },
            ]}
            onChange={(v) => setParams({ look: v === "chart" ? v : null })}
          />
          {result && hasMoments(result) && (
            <a class="button" href={link("timeline", { trace: file ? null : trace, dq: params.get("q") })} title="Show the rows of the result as a track above the others">
              As a track
            </a>
          )}
          <button type="button" onClick={() => save("csv")} disabled={!result}>
            CSV
          </button>
          <button type="button" onClick={() => save("arrow")} disabled={!result} title="An Arrow IPC stream: pyarrow.ipc.open_stream reads it">
            Arrow
          </button>
        </div>
        <SqlEditor value={sql} onInput={setSql} onRun={() => void run()} schema={schema ?? null} />
        <div class="sql-answer">
          {error ? (
            <pre class="sql-error" role="alert">
              {error}
            </pre>
          ) : !result && nothing ? (
            <Empty title="Nothing recorded yet" command="tracesmith cluster start --name my-session">
              SQL asks the rows of a session. Start one on the <a href="#/overview">overview</a>, or type:
            </Empty>
          ) : !result ? (
            <Empty title={busy ? "Running …" : "Write a query"}>Ctrl + Enter runs the query. Statements can only read.</Empty>
          ) : result.columns.length === 0 || result.rows.length === 0 ? (
            <Empty title="The result has no rows" />
          ) : look === "chart" ? (
            <ResultChart result={result} />
          ) : (
            <ResultTable result={result} trace={file ? null : trace} info={traces.find((t) => t.id === (file ? "file" : trace)) ?? null} />
          )}
        </div>
        {result?.notes && result.notes.length > 0 && <p class="fine sql-notes">{result.notes.join(" · ")}</p>}
      </div>
    </div>
  );
}

function QueryList({ list, onTake, onRemove }: { list: Saved[]; onTake: (sql: string) => void; onRemove?: (s: Saved) => void }) {
  return (
    <ul class="query-list">
      {list.map((s) => (
        <li key={s.name}>
          <button type="button" class="link" title={s.sql} onClick={() => onTake(s.sql)}>
            {s.name}
          </button>
          {onRemove && (
            <button type="button" class="quiet" aria-label={`Remove ${s.name}`} onClick={() => onRemove(s)}>
              ✕
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}
