// Below the tracks: the selected event, the statistics of a selected stretch, or what to do.

import { useEffect } from "preact/hooks";
import { get, trace } from "../api";
import { sliceColor, culprit } from "../color";
import { between, bytes, dateTime, duration, none, plural } from "../format";
import { shortName } from "../names";
import { setParams } from "../route";
import type { EventDetail } from "../types";
import { useLoad } from "../ui";
import { AreaPanel } from "./area";
import type { Area, Marker, Picked } from "./model";
import { RunsPanel } from "./runs";
import { infoOf, renumbered, type Aligned, type Shown } from "./two";

export function Dock(props: {
  info: Shown;
  aligned: Aligned;
  picked: Picked | null;
  area: Area | null;
  markers: Marker[];
  onMark: (list: Marker[]) => void;
  onShow: (t: number) => void;
  onDetail: (d: EventDetail | null) => void;
  onGo: (track: number, start: number, length: number, row: string | undefined, name: string) => void;
}) {
  return (
    <section class="dock" aria-label="Selection" aria-live="polite">
      {props.picked ? (
        <EventPanel info={props.info} picked={props.picked} onDetail={props.onDetail} onGo={props.onGo} />
      ) : props.area ? (
        <AreaPanel info={props.info} area={props.area} offsets={props.aligned.offsets} />
      ) : props.info.second && props.aligned.steps ? (
        <RunsPanel info={props.info} second={props.info.second} steps={props.aligned.steps} />
      ) : (
        <div class="dock-hint">
          {props.markers.length > 0 && <Markers list={props.markers} onChange={props.onMark} onShow={props.onShow} />}
          <p>
            <b>Click</b> an event for its details, <b>drag</b> over tracks to measure. <kbd>M</kbd> marks a time, <kbd>W</kbd> <kbd>S</kbd> zoom, <kbd>A</kbd> <kbd>D</kbd> move,{" "}
            <kbd>/</kbd> searches, <kbd>?</kbd> shows all keys.
          </p>
          <Legend />
        </div>
      )}
    </section>
  );
}

/** Marks, with notes to write and the time between them. */
function Markers(props: { list: Marker[]; onChange: (list: Marker[]) => void; onShow: (t: number) => void }) {
  const { list } = props;
  return (
    <ul class="markers" aria-label="Marks">
      {list.map((m, i) => (
        <li key={`${m.t} ${i}`}>
          <button type="button" class="link" onClick={() => props.onShow(m.t)}>
            {duration(m.t)}
          </button>
          <input
            aria-label={`Note at ${duration(m.t)}`}
            placeholder="note"
            value={m.text}
            onChange={(e) => props.onChange(list.map((x, k) => (k === i ? { ...x, text: e.currentTarget.value.trim() } : x)))}
          />
          <span class="fine">{i > 0 ? `${duration(m.t - list[i - 1].t)} after the one before` : ""}</span>
          <button type="button" class="quiet" aria-label={`Remove the mark at ${duration(m.t)}`} onClick={() => props.onChange(list.filter((_, k) => k !== i))}>
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}

function Legend() {
  const kinds: [string, string, string][] = [
    ["communication", "x", "collective"],
    ["copies", "Memcpy", "memcpy"],
    ["runtime calls", "cudaLaunchKernel", "runtime"],
    ["operators", "aten::add", "cpu_op"],
    ["ranges and steps", "x", "annotation"],
    ["waiting", "x", "sync"],
    ["collectives in flight", "x", "in flight"],
  ];
  return (
    <p class="legend" aria-label="Colours">
      {kinds.map(([text, name, type]) => (
        <span key={text}>
          <i class="swatch" style={{ background: sliceColor(name, type) }} />
          {text}
        </span>
      ))}
      <span>
        {["a", "b", "e", "f"].map((n) => (
          <i key={n} class="swatch tight" style={{ background: sliceColor(n, "kernel") }} />
        ))}
        kernels, by name
      </span>
    </p>
  );
}

const hiddenKeys = new Set(["name", "type", "ts", "dur", "node", "rank", "flow", "collective", "row_id", "track", "depth"]);

function show(key: string, value: unknown): string {
  if (typeof value === "number" && /bytes|shared/.test(key)) return bytes(value);
  if (Array.isArray(value)) return value.join(" × ");
  if (value && typeof value === "object") return JSON.stringify(value);
  return String(value);
}

interface EventProps {
  info: Shown;
  picked: Picked;
  onDetail: (d: EventDetail | null) => void;
  onGo: (track: number, start: number, length: number, row: string | undefined, name: string) => void;
}

function EventPanel({ info, picked, onDetail, onGo }: EventProps) {
  const { id } = infoOf(info, picked.track);
  const load = useLoad(picked.row ? `event ${id} ${picked.row}` : null, async (signal) =>
    renumbered(await get<EventDetail>(`${trace(id)}/events/${encodeURIComponent(picked.row)}`, signal), picked.track),
  );
  const current = load.data && !load.loading ? load.data : null;
  useEffect(() => onDetail(current), [current]);
  const d = current ?? load.data;
  const track = info.tracks.find((t) => t.id === picked.track);
  const name = d?.name ?? picked.name;
  const facts: [string, string][] = [
    ["duration", duration(d?.dur ?? picked.length)],
    ["starts at", duration(picked.start)],
    ["track", track ? `${track.group} · ${track.name}` : none],
  ];
  if (d) {
    facts.push(["time", dateTime(d.ts)]);
    for (const [key, value] of Object.entries(d))
      if (!hiddenKeys.has(key) && !key.startsWith("ts_") && value !== null && value !== undefined && value !== "") facts.push([key.replace(/_/g, " "), show(key, value)]);
  }
  const c = d?.collective;
  // Clocks of one node are one clock.
  const nodes = new Set((c?.arrivals ?? []).map((a) => info.tracks.find((t) => t.id === a.track)?.node));
  const bound = nodes.size > 1 ? infoOf(info, picked.track).clock_bound_ns : null;
  return (
    <div class="dock-columns">
      <div class="event">
        <h2>
          <i class="swatch" style={{ background: sliceColor(name, d?.type ?? picked.type) }} />
          {shortName(name) || "Loading …"}
        </h2>
        <span class="fine">
          {d?.type ?? picked.type}
          {shortName(name) !== name && ` · ${name}`}
        </span>
        {load.error && <p class="form-says">{load.error.message}</p>}
        {track?.kind === "steps" && new Set(info.tracks.map((t) => t.rank)).size > 1 && name && (
          <button type="button" class="small" onClick={() => setParams({ align: name, by: null })} title="Move the ranks in time so that this step begins on all of them together">
            Align all ranks at this step
          </button>
        )}
        <dl class="facts">
          {facts.map(([k, v]) => (
            <div key={k}>
              <dt>{k}</dt>
              <dd title={v}>{v}</dd>
            </div>
          ))}
        </dl>
      </div>
      {d?.flow && d.flow.length > 0 && (
        <div class="dock-list">
          <h3>{plural(d.flow.length, "event")} it belongs to</h3>
          <ul>
            {d.flow.slice(0, 50).map((f) => (
              <li key={`${f.track} ${f.ts_rel}`}>
                <button type="button" class="link" onClick={() => onGo(f.track, f.ts_rel, f.dur, f.row_id, f.name)} title={f.name}>
                  {f.name}
                </button>
                <span class="fine">
                  {duration(f.dur)}, {duration(Math.abs(f.ts_rel - picked.start))} {f.ts_rel >= picked.start ? "later" : "earlier"}
                </span>
              </li>
            ))}
          </ul>
        </div>
      )}
      {c && (
        <div class="dock-list collective">
          <h3>
            {c.op} {c.seq ?? ""} of {c.group}: {bytes(c.bytes)}, {plural(c.arrivals.length, "rank")}
            {c.busbw_gbps !== null && `, ${c.busbw_gbps.toFixed(1)} GB/s bus bandwidth`}
          </h3>
          <ul>
            {[...c.arrivals]
              .sort((a, b) => (a.wait_ns ?? 0) - (b.wait_ns ?? 0))
              .map((a) => (
                <li key={a.rank}>
                  <button type="button" class="link" onClick={() => a.track !== null && onGo(a.track, a.ts_rel, a.end_rel - a.ts_rel, undefined, c.op)}>
                    rank {a.rank}
                  </button>
                  {a.rank === c.culprit_rank ? (
                    <span style={{ color: culprit }}>
                      <b>arrived last</b>
                    </span>
                  ) : (
                    <span class="fine">waited {between(a.wait_ns, bound)}</span>
                  )}
                </li>
              ))}
          </ul>
        </div>
      )}
    </div>
  );
}

