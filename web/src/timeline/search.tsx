// The search for events by name: counted, in the order of time, and all of them within reach.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, query, trace as tracePath } from "../api";
import { count, naturalOrder } from "../format";
import { setParams, useRoute } from "../route";
import type { Hit, SearchAnswer } from "../types";
import { inSecond, type Shown } from "./two";

const atOnce = 500;
const mostNames = 200;

interface Props {
  info: Shown;
  input: preact.RefObject<HTMLInputElement>;
  /** What is looked at, for the next hit from there. */
  view: () => [number, number];
  onHits: (hits: Hit[], text: string) => void;
  onGo: (track: number, start: number, length: number, row: string | undefined, name: string) => void;
}

/** "1.5 ms" → 1500000; a number alone is in µs; null: neither. */
export function parseDuration(text: string): number | null {
  const match = /^\s*([\d.]+)\s*(ns|us|µs|ms|s)?\s*$/.exec(text);
  const unit = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 }[match?.[2] ?? "us"];
  return match && unit && Number.isFinite(Number(match[1])) ? Math.round(Number(match[1]) * unit) : null;
}

export function Search(props: Props) {
  const { info } = props;
  const { params } = useRoute();
  const q = params.get("q") ?? "";
  const type = params.get("qt") ?? "";
  const rank = params.get("qr") ?? "";
  const least = params.get("qd") ?? "";
  const on = params.get("qk") ?? "";
  const [text, setText] = useState(q);
  const [filters, setFilters] = useState(!!(type || rank || least || on));
  const [found, setFound] = useState<SearchAnswer | null>(null);
  const [error, setError] = useState("");
  const [at, setAt] = useState(-1);
  const control = useRef<AbortController>();

  const ask = async (where: { from?: number; to?: number }): Promise<SearchAnswer | null> => {
    control.current?.abort();
    const own = (control.current = new AbortController());
    const searched = info.tracks.filter((t) => !inSecond(t.id) && (!rank || String(t.rank) === rank) && (!on || t.name === on));
    const tracks = rank || on ? searched.map((t) => t.id).join(",") : null;
    if (tracks === "") return { total: 0, before: 0, hits: [], truncated: false };
    try {
      const answer = await get<SearchAnswer>(
        `${tracePath(info.id)}/search${query({ q, type, tracks, min_ns: least ? parseDuration(least) : null, limit: atOnce, from: where.from === undefined ? null : Math.round(where.from), to: where.to === undefined ? null : Math.round(where.to) })}`,
        own.signal,
      );
      setError("");
      return answer;
    } catch (e) {
      if (!own.signal.aborted) setError((e as Error).message);
      return null;
    }
  };
  const show = (answer: SearchAnswer | null) => {
    setFound(answer);
    setAt(-1);
    props.onHits(answer?.hits ?? [], answer ? q.toLowerCase() : "");
  };

  useEffect(() => {
    if (!q) {
      control.current?.abort();
      setError("");
      return show(null);
    }
    void (async () => {
      const from = props.view()[0];
      let answer = await ask({ from });
      if (answer && !answer.hits.length && answer.total) answer = await ask({ from: 0 });
      if (answer) show(answer);
    })();
  }, [info.id, q, type, rank, least, on]);
  useEffect(() => {
    const timer = setTimeout(() => text.trim() !== q && setParams({ q: text.trim() }), 300);
    return () => clearTimeout(timer);
  }, [text]);

  const select = (answer: SearchAnswer, i: number) => {
    if (answer !== found) {
      setFound(answer);
      props.onHits(answer.hits, q.toLowerCase());
    }
    setAt(i);
    const h = answer.hits[i];
    props.onGo(h.track, h.ts_rel, h.dur, h.row_id, h.name);
  };
  const step = async (by: 1 | -1) => {
    if (!found?.total) return;
    const [from, to] = props.view();
    const current = found.hits[at];
    const seen = current && current.ts_rel < to && current.ts_rel + current.dur >= from;
    if (seen && found.hits[at + by]) return select(found, at + by);
    // Past the hits that are here, or somewhere else by now: the next ones from there, and around at the ends.
    const edge = seen ? current.ts_rel : by > 0 ? from : to;
    let answer = await ask(by > 0 ? { from: edge } : { to: edge });
    let i = answer && by > 0 && seen ? answer.hits.findIndex((h) => h.row_id === current.row_id) + 1 : 0;
    if (answer && i >= answer.hits.length) {
      answer = await ask(by > 0 ? { from: 0 } : { to: info.duration_ns + 1 });
      i = 0;
    }
    if (answer?.hits.length) select(answer, by > 0 ? i : answer.hits.length - 1);
  };

  const ranks = [...new Set(info.tracks.flatMap((t) => (t.rank === null ? [] : [t.rank])))];
  const names = [...new Set(info.tracks.map((t) => t.name))].sort(naturalOrder).slice(0, mostNames);
  const says = !q ? "" : error || (!found ? "…" : `${at >= 0 ? `${count(found.before + at + 1)} of ` : ""}${count(found.total)} ${found.total === 1 ? "hit" : "hits"}${info.second ? ` in ${info.title}` : ""}`);
  return (
    <form
      class="search"
      role="search"
      onSubmit={(e) => {
        e.preventDefault();
        void step(1);
      }}
    >
      <input
        ref={props.input}
        type="search"
        name="q"
        placeholder="Search names ( / )"
        aria-label="Search events by name"
        value={text}
        onInput={(e) => setText(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && e.shiftKey) {
            e.preventDefault();
            void step(-1);
          } else if (e.key === "Escape") {
            setText("");
            e.currentTarget.blur();
          }
        }}
      />
      <button type="button" class="quiet" aria-expanded={filters} title={`Search only some ranks, tracks, types, or durations${info.second ? `. The search is in ${info.title}` : ""}`} onClick={() => setFilters(!filters)}>
        Filter{type || rank || least || on ? " ●" : ""}
      </button>
      {filters && (
        <span class="filters">
          <select aria-label="Type of events" value={type} onChange={(e) => setParams({ qt: e.currentTarget.value })}>
            <option value="">all types</option>
            {info.types.map((t) => (
              <option key={t} value={t} selected={t === type}>
                {t}
              </option>
            ))}
          </select>
          {ranks.length > 1 && (
            <select aria-label="Rank of events" value={rank} onChange={(e) => setParams({ qr: e.currentTarget.value })}>
              <option value="">all ranks</option>
              {ranks.map((r) => (
                <option key={r} value={String(r)} selected={String(r) === rank}>
                  rank {r}
                </option>
              ))}
            </select>
          )}
          <select aria-label="Track of events" value={on} onChange={(e) => setParams({ qk: e.currentTarget.value })}>
            <option value="">all tracks</option>
            {names.map((n) => (
              <option key={n} value={n} selected={n === on}>
                {n}
              </option>
            ))}
          </select>
          <input
            class="least"
            aria-label="Shortest duration"
            placeholder="at least, e.g. 1 ms"
            value={least}
            onChange={(e) => {
              const value = e.currentTarget.value.trim();
              if (value && parseDuration(value) === null) setError(`“${value}” is not a duration: write 20 µs or 1 ms`);
              else setParams({ qd: value });
            }}
          />
        </span>
      )}
      <span class="search-says" role="status">
        {says}
      </span>
      <button type="button" onClick={() => void step(-1)} disabled={!found?.total} aria-label="Previous hit">
        ↑
      </button>
      <button type="submit" disabled={!found?.total} aria-label="Next hit">
        ↓
      </button>
    </form>
  );
}
