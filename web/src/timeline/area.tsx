// The statistics of a selected stretch: by name, as a tree of what lies in what, and rank by rank.

import { useMemo } from "preact/hooks";
import { get, query, trace } from "../api";
import { communicationKnown } from "../color";
import { count, duration, percent, plural } from "../format";
import { setParams, useRoute } from "../route";
import type { NameSum, Stats, TimelineInfo, Track } from "../types";
import { useStore } from "../store";
import { Failed, Switch, Table, useLoad } from "../ui";
import { ByNames, NameCell } from "./bynames";
import { FlameTab } from "./flame";
import { isAskedFor } from "./layout";
import type { Area } from "./model";
import { RangesTab } from "./ranges";
import { ranksOf } from "./runs";
import { infoOf, inSecond, numberOf, type Shown } from "./two";

const mostTracks = 1024;
const mostRanks = 16;

interface Props {
  info: Shown;
  area: Area;
  offsets: ReadonlyMap<number, number>;
}

const asked = (area: Area, offset: number, tracks: Track[]): string =>
  `${query({ from: Math.max(0, Math.round(area.from + offset)), to: Math.max(1, Math.round(area.to + offset)), tracks: tracks.map((t) => numberOf(t.id)).join(",") })}`;

/** One answer for all tracks of a trace that are moved by as much. */
async function statsOf(info: Shown, area: Area, offsets: Props["offsets"], tracks: Track[], signal: AbortSignal): Promise<Stats> {
  const groups = new Map<string, Track[]>();
  for (const t of tracks) {
    const key = `${infoOf(info, t.id).id} ${offsets.get(t.id) ?? 0}`;
    const list = groups.get(key);
    if (list) list.push(t);
    else groups.set(key, [t]);
  }
  const answers = await Promise.all([...groups.values()].map((list) => get<Stats>(`${trace(infoOf(info, list[0].id).id)}/stats${asked(area, offsets.get(list[0].id) ?? 0, list)}`, signal)));
  if (!answers.length) return { span_ns: area.to - area.from, by_name: [], names: 0, by_type: [], busy_share: null };
  if (answers.length === 1) return answers[0];
  const sum = <T extends { count: number; total_ns: number; mean_ns: number; min_ns: number; max_ns: number }>(lists: T[][], key: (x: T) => string): T[] => {
    const all = new Map<string, T>();
    for (const x of lists.flat()) {
      const was = all.get(key(x));
      if (!was) all.set(key(x), { ...x });
      else {
        was.count += x.count;
        was.total_ns += x.total_ns;
        was.mean_ns = was.total_ns / was.count;
        was.min_ns = Math.min(was.min_ns, x.min_ns);
        was.max_ns = Math.max(was.max_ns, x.max_ns);
      }
    }
    return [...all.values()].sort((a, b) => b.total_ns - a.total_ns);
  };
  return { ...answers[0], by_name: sum(answers.map((a) => a.by_name), (n) => `${n.type} ${n.name}`), by_type: sum(answers.map((a) => a.by_type), (t) => t.type), busy_share: null };
}

export function AreaPanel({ info, area, offsets }: Props) {
  const { params } = useRoute();
  useStore(communicationKnown);
  // Tracks that are not shown are not meant.
  const inside = info.tracks.slice(area.first, area.last + 1).filter((t) => isAskedFor(t, params.get("rows") ?? ""));
  const two = inside.some((t) => inSecond(t.id)) && inside.some((t) => !inSecond(t.id)) ? info.second : null;
  const tab = params.get("tab") ?? (two ? "runs" : "names");
  const tracks = inside.slice(0, mostTracks);
  const moved = [...offsets.values()].some((x) => x !== 0);
  const key = `${Math.round(area.from)} ${Math.round(area.to)} ${area.first} ${area.last} ${params.get("rows") ?? ""} ${info.second?.id ?? ""} ${moved ? [...offsets].join() : ""}`;
  const load = useLoad(`stats ${info.id} ${key}`, (signal) => statsOf(info, area, offsets, tracks, signal));
  // What lies in what, and modules, are asked of one trace.
  const one = tracks.filter((t) => inSecond(t.id) === inSecond(tracks[0].id));
  const whose = infoOf(info, one[0]?.id ?? 0);
  const offset = offsets.get(one[0]?.id ?? -1) ?? 0;
  const ranks = [...new Set(tracks.flatMap((t) => (t.rank === null ? [] : [t.rank])))];
  if (load.error) return <Failed what="The statistics" error={load.error} retry={load.reload} />;
  const s = load.data;
  return (
    <div class={`dock-columns ${load.loading ? "loading" : ""}`}>
      <div class="area-summary">
        <h2>{duration(area.to - area.from)} selected</h2>
        <p class="fine">
          {plural(tracks.length, "track")}
          {inside.length > tracks.length ? ` of ${inside.length}` : ""}
          {two && (tab === "flame" || tab === "ranges") ? `, here those of ${whose.title}` : ""}
          {s?.busy_share != null && `, streams busy ${percent(s.busy_share)}`}
        </p>
        <Switch
          label="Statistics"
          value={tab}
          options={[
            { value: "names", text: "Names" },
            { value: "flame", text: "Flame" },
            { value: "ranges", text: "Modules" },
            ...(two ? [{ value: "runs", text: "Difference" }] : ranks.length > 1 ? [{ value: "ranks", text: "Ranks" }] : []),
          ]}
          onChange={(v) => setParams({ tab: v === (two ? "runs" : "names") ? null : v })}
        />
        <dl class="facts one">
          {s?.by_type.map((t) => (
            <div key={t.type}>
              <dt>{t.type}</dt>
              <dd>
                {count(t.count)}, {duration(t.total_ns)}
              </dd>
            </div>
          ))}
        </dl>
      </div>
      {tab === "flame" ? (
        <FlameTab id={`${info.id} ${key}`} ask={(signal) => get(`${trace(whose.id)}/flame${asked(area, offset, one)}`, signal)} />
      ) : tab === "ranges" ? (
        <RangesTab info={whose} id={`${info.id} ${key}`} from={area.from + offset} to={area.to + offset} tracks={one} trace={inSecond(one[0]?.id ?? 0) ? whose.id : params.get("trace")} />
      ) : tab === "runs" && two ? (
        <RunsTab info={info} second={two} area={area} offsets={offsets} tracks={tracks} id={`${info.id} ${key}`} />
      ) : tab === "ranks" && !two && ranks.length > 1 ? (
        <RanksTab info={info} area={area} offsets={offsets} tracks={tracks} ranks={ranks} id={`${info.id} ${key}`} />
      ) : s && s.by_name.length > 0 ? (
        <NamesTab stats={s} />
      ) : (
        <p class="fine pad">{load.loading ? "Counting …" : "No events here."}</p>
      )}
    </div>
  );
}

function NamesTab({ stats: s }: { stats: Stats }) {
  const totals = useMemo(() => new Map(s.by_type.map((t) => [t.type, t.total_ns])), [s]);
  return (
    <Table<NameSum>
      label="Statistics by name"
      rows={s.by_name}
      id={(n) => `${n.type} ${n.name}`}
      columns={[
        { title: "name", cell: (n) => <NameCell name={n.name} type={n.type} /> },
        { title: "type", cell: (n) => n.type },
        { title: "count", number: true, cell: (n) => count(n.count) },
        { title: "total", number: true, cell: (n) => duration(n.total_ns) },
        { title: "share", number: true, hint: "Of the time of its type: a kernel of a collective is a kernel, its collective is counted apart", cell: (n) => percent(totals.get(n.type) ? n.total_ns / totals.get(n.type)! : null, 1) },
        { title: "mean", number: true, cell: (n) => duration(n.mean_ns) },
        { title: "min", number: true, cell: (n) => duration(n.min_ns) },
        { title: "max", number: true, cell: (n) => duration(n.max_ns) },
      ]}
    />
  );
}

/** Names down, ranks along. */
function RanksTab(props: { info: Shown; area: Area; offsets: Props["offsets"]; tracks: Track[]; ranks: number[]; id: string }) {
  const shown = props.ranks.slice(0, mostRanks);
  const load = useLoad(`ranks ${props.id}`, (signal) =>
    Promise.all(shown.map(async (r) => ({ title: `rank ${r}`, stats: await statsOf(props.info, props.area, props.offsets, props.tracks.filter((t) => t.rank === r), signal), ranks: 1 }))),
  );
  if (load.error) return <Failed what="The statistics" error={load.error} retry={load.reload} />;
  if (!load.data) return <p class="fine pad">Counting …</p>;
  return <ByNames label="Statistics by rank" columns={load.data} />;
}

/** Names down, the two traces along. */
function RunsTab(props: { info: Shown; second: TimelineInfo; area: Area; offsets: Props["offsets"]; tracks: Track[]; id: string }) {
  const load = useLoad(`runs ${props.id}`, (signal) =>
    Promise.all(
      [props.info, props.second].map(async (of, i) => {
        const tracks = props.tracks.filter((t) => inSecond(t.id) === i > 0);
        return { title: i ? `${of.title} (below)` : of.title, stats: await statsOf(props.info, props.area, props.offsets, tracks, signal), ranks: ranksOf(tracks) };
      }),
    ),
  );
  if (load.error) return <Failed what="The statistics" error={load.error} retry={load.reload} />;
  if (!load.data) return <p class="fine pad">Counting …</p>;
  return <ByNames label="Difference by name" columns={load.data} />;
}
