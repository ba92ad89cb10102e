// The timeline view: tool bar, minimap, ruler, tracks, and the dock below.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { downloadShown, get, query, trace as tracePath } from "../api";
import { bytes, duration, metricTitle, percent, plural, seconds } from "../format";
import { serverNow } from "../live";
import { shortName } from "../names";
import { route, setParams, useRoute } from "../route";
import { traceState } from "../statusbar";
import { on, useStore } from "../store";
import { dark } from "../theme";
import { titleOf, TracePicker, useTrace, type Chosen } from "../traces";
import type { EventDetail, Hit, TimelineInfo, TraceInfo } from "../types";
import { copyText, Empty, Failed, Loading, useLoad } from "../ui";
import { setPinned, useArrangement } from "./arrange";
import { counterNames, defaultCounters, loadCounters } from "./counters";
import { Dock } from "./dock";
import { Engine, type Report } from "./engine";
import { Gutter } from "./gutter";
import { listen } from "./input";
import { clampView, flowsOf, readArea, readMarkers, readPicked, readView, writeArea, writeMarkers, writePicked, type Area, type Marker, type Picked, type Under } from "./model";
import { Search } from "./search";
import { nodeOf, together, type Shown } from "./two";

export function TimelineView() {
  const chosen = useTrace();
  const t = chosen.trace;
  const running = t?.state === "recording" || t?.state === "collecting";
  const load = useLoad(t && `timeline ${t.id} ${t.state}`, (signal) => get<TimelineInfo>(`${tracePath(t!.id)}/timeline`, signal), running ? 4000 : 0);
  const own = load.data?.id === t?.id || chosen.traces.length === 1 ? load.data : null;
  const { params } = useRoute();
  const below = chosen.traces.find((x) => x.id === params.get("with") && x !== t) ?? null;
  const other = useLoad(below && `timeline ${below.id} ${below.state}`, (signal) => get<TimelineInfo>(`${tracePath(below!.id)}/timeline`, signal));
  const second = below && other.data?.id === below.id ? other.data : null;
  const info = useMemo(() => (own && (second || !below || other.error) ? together(own, second) : null), [own, second, below?.id, other.error]);
  useEffect(() => {
    if (info) traceState.set({ losses: info.losses, bound: info.clock_bound_ns, notes: info.notes });
    return () => traceState.set(null);
  }, [info]);
  if (!t) return chosen.instead;
  if (!info) return load.error ? <Failed what="The timeline" error={load.error} retry={load.reload} /> : <Loading what="Reading the trace" progress={load.progress} />;
  if (!info.tracks.length)
    return (
      <div class="timeline-empty">
        <div class="tools">
          <TracePicker chosen={chosen} />
        </div>
        <Empty title={running ? "No data yet" : "This trace has no events"} command="tracesmith run -- torchrun train.py">
          Events come from processes under the probe. Start the job with:
        </Empty>
      </div>
    );
  return <Tracks key={`${t.id} ${second?.id}`} chosen={chosen} trace={t} info={info} problem={other.error?.message ?? ""} />;
}

/** Opens and shows a rank that a link asked for. */
function openRank(e: Engine, info: Shown, rank: number): void {
  const ofRank = info.tracks.filter((t) => t.rank === rank);
  const at = ofRank[0] && e.layout.where.get(ofRank[0].id);
  if (!at) return;
  if (at.row.closed) {
    const next = toggledOf(route.get().params);
    if (!next.delete(at.row.key)) next.add(at.row.key);
    setParams({ x: [...next].join("_"), rank: null });
    e.setToggled(next);
  } else setParams({ rank: null });
  e.reveal(ofRank[ofRank.length - 1].id);
  e.reveal(ofRank[0].id);
}

/** A stretch of absolute time in a link becomes one relative to the start of the trace. */
function absoluteView(params: URLSearchParams, info: TimelineInfo): [number, number] | null {
  const from = params.get("abs_from");
  const to = params.get("abs_to");
  if (!from || !to || !/^\d+$/.test(from + to)) return null;
  const origin = BigInt(info.origin);
  return clampView(Number(BigInt(from) - origin), Number(BigInt(to) - origin), info.duration_ns);
}

const toggledOf = (params: URLSearchParams): Set<string> => new Set((params.get("x") ?? "").split("_").filter(Boolean));

function Tracks({ chosen, trace, info, problem }: { chosen: Chosen; trace: TraceInfo; info: Shown; problem: string }) {
  const { params } = useRoute();
  const isDark = useStore(dark);
  const tracks = useRef<HTMLCanvasElement>(null);
  const ruler = useRef<HTMLCanvasElement>(null);
  const minimap = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const search = useRef<HTMLInputElement>(null);
  const engine = useRef<Engine | null>(null);
  const [report, setReport] = useState<Report | null>(null);
  const [picked, setPicked] = useState<Picked | null>(() => readPicked(params));
  const [area, setArea] = useState<Area | null>(() => readArea(params));
  const [markers, setMarkers] = useState<Marker[]>(() => readMarkers(params));
  const [tip, setTip] = useState<{ under: Under; x: number; y: number } | null>(null);
  const [copied, setCopied] = useState(false);
  const hits = useRef<Hit[]>([]);
  const found = useRef("");
  const spanWritten = useRef(0);
  const writing = useRef<ReturnType<typeof setTimeout>>();

  const pick = (p: Picked | null) => {
    setPicked(p);
    if (p) setArea(null);
    setParams({ sel: writePicked(p), ...(p ? { area: null } : {}) });
  };
  const select = (a: Area | null, done: boolean) => {
    setArea(a);
    if (a) setPicked(null);
    if (engine.current) engine.current.area = a;
    engine.current?.redraw();
    if (done) setParams({ area: writeArea(a), ...(a ? { sel: null } : {}) });
  };
  const mark = (list: Marker[]) => {
    setMarkers(list);
    setParams({ m: writeMarkers(list) });
  };
  const toggle = (key: string) => {
    const next = toggledOf(route.get().params);
    if (!next.delete(key)) next.add(key);
    setParams({ x: [...next].join("_") });
    engine.current?.setToggled(next);
  };

  useEffect(() => {
    const parts = { tracks: tracks.current!, ruler: ruler.current!, minimap: minimap.current!, scroller: scroller.current! };
    const e = new Engine(info, parts, absoluteView(params, info) ?? readView(params, info.duration_ns), toggledOf(params), (r) => {
      setReport(r);
      clearTimeout(writing.current);
      writing.current = setTimeout(() => {
        if (route.get().view !== "timeline") return;
        const whole = r.from === 0 && r.to === e.duration;
        // A zoom can be undone with the browser's back; moving along cannot, or back would take for ever.
        const zoomed = Math.abs((r.to - r.from) / spanWritten.current - 1) > 0.01;
        spanWritten.current = r.to - r.from;
        setParams({ from: whole ? null : Math.round(r.from), to: whole ? null : Math.round(r.to), y: Math.round(r.scroll) || null, abs_from: null, abs_to: null }, !zoomed);
      }, 250);
    });
    engine.current = e;
    spanWritten.current = e.to - e.from;
    e.hits = hits.current;
    e.found = found.current;
    e.picked = picked;
    e.area = area;
    e.markers = markers;
    parts.scroller.scrollTop = Number(params.get("y") ?? 0);
    const rank = params.get("rank");
    if (rank !== null) requestAnimationFrame(() => engine.current === e && openRank(e, info, Number(rank)));
    const order = new Map(info.tracks.map((t, i) => [t.id, i]));
    const stop = listen(
      e,
      parts,
      {
        hover: (under, x, y) => setTip(under ? { under, x, y } : null),
        pick,
        select,
        toggle,
        search: () => search.current?.select(),
        mark: (t) => {
          pick(null);
          select(null, true);
          mark([...readMarkers(route.get().params), { t: Math.round(t), text: "" }].sort((a, b) => a.t - b.t));
        },
      },
      (track) => order.get(track) ?? 0,
    );
    const stopRetry = on("retry", () => e.retry());
    return () => {
      clearTimeout(writing.current);
      stop();
      stopRetry();
      e.close();
      engine.current = null;
    };
  }, [info.id]);

  useEffect(() => engine.current?.update(info), [info]);
  const [arrangeError, setArrangeError] = useState("");
  const how = useArrangement(info, setArrangeError);
  useEffect(() => engine.current?.arrangeBy(how), [how, info.id]);
  // Metrics under their GPUs: those in the link, else power and clock; "none" is none.
  const asked = params.get("c");
  const known = useLoad(`counters ${info.id}`, (signal) => counterNames(info.id, signal)).data ?? [];
  const counters = asked === null ? defaultCounters(known) : asked.split("_and_").filter((n) => known.includes(n));
  useEffect(() => {
    if (!counters.length) return engine.current?.setCounters([]);
    const control = new AbortController();
    Promise.all([info, info.second].map(async (of, i) => (of ? (await loadCounters(of, counters, control.signal)).map((c) => ({ ...c, node: nodeOf(info.titles[i], c.node) ?? "" })) : [])))
      .then((lists) => engine.current?.setCounters(lists.flat()))
      .catch(() => {}); // the tracks say what is wrong
    return () => control.abort();
  }, [info.id, info.duration_ns, counters.join()]);
  useEffect(() => engine.current?.redraw(), [isDark]);
  useEffect(() => {
    const e = engine.current;
    if (!e) return;
    e.picked = picked;
    e.area = area;
    e.markers = markers;
    if (!picked) {
      e.flows = [];
      e.collective = null;
    }
    e.redraw();
  }, [picked, area, markers]);

  // Somebody changed the address: back, forward, or a link within the page.
  useEffect(() => {
    const changed = () => {
      const { view, params: p } = route.get();
      const e = engine.current;
      if (view !== "timeline" || !e) return;
      const [from, to] = readView(p, e.duration);
      e.setView(from, to);
      spanWritten.current = e.to - e.from;
      e.setToggled(toggledOf(p));
      setPicked(readPicked(p));
      setArea(readArea(p));
      setMarkers(readMarkers(p));
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);

  const showHits = (list: Hit[], text: string) => {
    hits.current = list;
    found.current = text;
    if (!engine.current) return;
    engine.current.hits = list;
    engine.current.found = text;
    engine.current.redraw();
  };
  const detail = (d: EventDetail | null) => {
    const e = engine.current;
    if (!e) return;
    e.flows = flowsOf(d);
    const p = e.picked;
    if (d && p && d.row_id === p.row && d.depth !== p.depth) {
      // A hit or a link told its track, but not how deep it lies.
      pick({ ...p, depth: d.depth });
      e.reveal(p.track, d.depth);
    }
    e.collective = d?.collective ?? null;
    e.redraw();
  };
  const goTo = (track: number, start: number, length: number, row: string | undefined, name: string) => {
    if (row) pick({ track, row, start, length, depth: 0, name, type: "" });
    // A closed node or rank is opened, so that the track itself is seen.
    for (let i = 0; i < 2; i++) {
      const at = engine.current?.layout.where.get(track);
      if (at && !at.lane && at.row.closed) toggle(at.row.key);
    }
    engine.current?.reveal(track);
    const e = engine.current;
    if (!e) return;
    const span = e.to - e.from;
    // What is too small or too large to be seen is zoomed to; what is only elsewhere is moved to.
    const begin = start - e.offsetOf(track);
    if (!row || length < span / 300 || length > span) e.show(start, length, track);
    else if (begin < e.from || begin + length > e.to) e.moveTo(begin + length / 2 - span / 2, begin + length / 2 + span / 2);
  };
  const share = async () => {
    try {
      await copyText(location.href);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      // The address bar has it too.
    }
  };
  const [exportError, setExportError] = useState("");
  const [saving, setSaving] = useState("");
  const part = report !== null && report.to - report.from < 0.98 * info.duration_ns;
  const save = () => {
    setExportError("");
    const window = part ? { from: Math.floor(report!.from), to: Math.ceil(report!.to) } : {};
    downloadShown(`${tracePath(info.id)}/export${query({ format: "perfetto", ...window })}`, `${trace.title.replace(/\.(sbt|json(\.gz)?)$/, "")}.pftrace`, (n) => setSaving(n === null ? "Writing …" : bytes(n)))
      .catch((e: Error) => setExportError(e.message))
      .finally(() => setSaving(""));
  };

  const recording = trace.state === "recording";
  const behind = useMemo(() => (recording ? Number(serverNow() - BigInt(info.origin) - BigInt(info.duration_ns)) / 1e9 : 0), [info, recording]);
  // A frame of a move changes neither: they are not made anew for it.
  const names = useMemo(() => report && <Gutter report={report} losses={info.losses} onToggle={toggle} onPin={(track, on) => setPinned(route.get().params, track, on)} />, [info, report?.rows, report?.firstRow, report?.lastRow, report?.scroll]);
  const center = (t: number) => {
    const e = engine.current;
    if (e) e.setView(t - (e.to - e.from) / 2, t + (e.to - e.from) / 2);
  };
  const aligned = useMemo(() => ({ offsets: how.offsets, steps: how.steps }), [how.offsets, how.steps]);
  const dock = useMemo(
    () => <Dock info={info} aligned={aligned} picked={picked} area={area} markers={markers} onMark={mark} onShow={center} onDetail={detail} onGo={goTo} />,
    [info, picked, area, markers, aligned],
  );
  const several = new Set(info.tracks.map((t) => t.group)).size > 1;
  const arrangeAs = (value: string) => {
    if (value === "align") {
      const step = engine.current?.stepInSight();
      if (step) setParams({ align: step });
      else setArrangeError("There is no step here to align ranks at");
    } else setParams({ by: value === "rank" ? null : value, align: null });
  };

  return (
    <div
      class="timeline"
      data-from={report?.from}
      data-to={report?.to}
      data-missing={report?.missing}
      data-slices={report?.slices}
      data-rows={report?.rows.length}
      data-steps={report?.steps}
    >
      <div class="tools">
        <TracePicker chosen={chosen} />
        {chosen.traces.length > 1 && (
          <select aria-label="Trace below" title="A second trace below this one, aligned at a step that both have" value={info.second?.id ?? ""} onChange={(e) => setParams({ with: e.currentTarget.value, area: null, sel: null, align: null, tab: null, x: null, pin: null, y: null }, false)}>
            <option value="">alone</option>
            {chosen.traces
              .filter((x) => x !== trace)
              .map((x) => (
                <option key={x.id} value={x.id}>
                  above {titleOf(x, chosen.traces)}
                </option>
              ))}
          </select>
        )}
        <Search info={info} input={search} view={() => [engine.current?.from ?? 0, engine.current?.to ?? info.duration_ns]} onHits={showHits} onGo={goTo} />
        <span class="fill" />
        {exportError && <span class="form-says">{exportError}</span>}
        {report?.failed && <span class="form-says">{report.failed.message}</span>}
        {problem && <span class="form-says">{problem}</span>}
        {arrangeError && <span class="form-says">{arrangeError}</span>}
        {several && (
          <select aria-label="Order of the tracks" title="How the tracks are ordered" value={params.get("align") ? "align" : how.by} onChange={(e) => arrangeAs(e.currentTarget.value)}>
            <option value="rank">by rank</option>
            <option value="cost">costliest rank first</option>
            <option value="track">same track of all ranks</option>
            <option value="align">{params.get("align") ? `aligned at ${params.get("align")}` : "aligned at this step"}</option>
          </select>
        )}
        {known.length > 0 && (
          <select
            aria-label="Metric under each GPU"
            title="Metrics under the streams of each GPU; choose one again to remove it"
            value=""
            onChange={(e) => {
              const name = e.currentTarget.value;
              e.currentTarget.value = "";
              if (!name) return;
              const next = counters.includes(name) ? counters.filter((n) => n !== name) : [...counters, name];
              setParams({ c: next.join("_and_") || "none" });
            }}
          >
            <option value="">Metrics …</option>
            {known.map((n) => (
              <option key={n} value={n}>
                {counters.includes(n) ? "✓ " : ""}
                {metricTitle(n)}
              </option>
            ))}
          </select>
        )}
        <button type="button" onClick={() => engine.current?.moveTo(0, info.duration_ns)} title="Show the whole trace (0)">
          Whole trace
        </button>
        <button type="button" onClick={share} title="Copy a link to this view">
          {copied ? "Copied" : "Copy link"}
        </button>
        <button type="button" onClick={save} disabled={!!saving} title={part ? `Download the ${duration(report.to - report.from)} shown, of all tracks, for ui.perfetto.dev. Zoom out (0) to download the whole trace` : "Download the whole trace for ui.perfetto.dev"}>
          {saving || "Perfetto file"}
        </button>
      </div>
      <div class="time-head" style={{ paddingRight: `${report?.bar ?? 0}px` }}>
        <div class="corner">
          <span>
            <b>{duration(report ? report.to - report.from : info.duration_ns)}</b> <span class="fine">of {duration(info.duration_ns)}</span>
          </span>
          {recording && (
            <span class="live-lag" title="This session is being recorded. What happens now is seen so much later">
              live, {seconds(Math.max(0, behind))} behind
            </span>
          )}
          <input
            type="search"
            class="track-filter"
            placeholder="Show tracks …"
            aria-label="Show only some tracks"
            title="Only ranks and tracks with one of these names, such as: rank 2, rank 5 stream 7"
            value={params.get("rows") ?? ""}
            onInput={(e) => setParams({ rows: e.currentTarget.value })}
          />
        </div>
        <canvas ref={minimap} class="minimap" aria-label="The whole trace; click to go to a position" role="img" />
        <canvas ref={ruler} class="ruler" aria-hidden="true" />
      </div>
      <div ref={scroller} class="scroller" tabIndex={0} role="application" aria-label={`Timeline of ${info.title}: ${plural(info.tracks.length, "track")}. W, A, S, D move; question mark shows all keys`}>
        <div class="spacer" style={{ height: `${report?.height ?? 0}px` }}>
          <div class="pane">
            <div class="gutter">{names}</div>
            <canvas ref={tracks} class="tracks" />
          </div>
        </div>
      </div>
      {dock}
      {tip && <Tip tip={tip} />}
    </div>
  );
}

function Tip({ tip }: { tip: { under: Under; x: number; y: number } }) {
  const { under, x, y } = tip;
  if (!under) return null;
  const style = x > innerWidth * 0.65 ? { right: `${innerWidth - x + 12}px`, top: `${y + 14}px` } : { left: `${x + 12}px`, top: `${y + 14}px` };
  return (
    <div class="tip" style={style} role="tooltip">
      {under.kind === "result" ? (
        <>
          <b>{under.text}</b>
          <div>{under.length ? duration(under.length) : "a moment"} · row of the query</div>
        </>
      ) : under.kind === "gap" ? (
        <>
          <b>Not recorded</b>
          <div>for {duration(under.length)}: only summaries, or nothing, were kept of this GPU. It may have been busy</div>
        </>
      ) : under.kind === "counter" ? (
        <>
          {under.label}: <b>{under.text}</b>
        </>
      ) : under.kind === "slice" ? (
        <>
          <b title={under.picked.name}>{shortName(under.picked.name)}</b>
          <div>
            {duration(under.picked.length)} · {under.picked.type}
          </div>
        </>
      ) : (
        <>
          <b>{plural(under.count, "event")}</b> in {duration(under.to - under.from)}, busy {percent(under.busy)}
          <div>most: {shortName(under.name)}</div>
          <div class="fine">click to zoom in</div>
        </>
      )}
    </div>
  );
}
