// The statistics of a selected stretch: by name, as a tree of what lies in what, and rank by rank.

import { useMemo } from "preact/hooks";
import { get, query, trace } from "../api";
import { communicationKnown, sliceColor } from "../color";
import { count, duration, none, percent, plural } from "../format";
import { shortName } from "../names";
import { setParams, useRoute } from "../route";
import type { NameSum, Stats, TimelineInfo, Track } from "../types";
import { useStore } from "../store";
import { Failed, Switch, Table, useLoad } from "../ui";
import { FlameTab } from "./flame";
import type { Area } from "./model";
import { RangesTab } from "./ranges";

const mostTracks = 1024;
const mostRanks = 16;

interface Props {
  info: TimelineInfo;
  area: Area;
  offsets: ReadonlyMap<number, number>;
}

const asked = (area: Area, offset: number, tracks: Track[]): string =>
  `${query({ from: Math.max(0, Math.round(area.from + offset)), to: Math.max(1, Math.round(area.to + offset)), tracks: tracks.map((t) => t.id).join(",") })}`;

/** One answer for all ranks that are moved by as much. */
async function statsOf(info: TimelineInfo, area: Area, offsets: Props["offsets"], tracks: Track[], signal: AbortSignal): Promise<Stats> {
  const groups = new Map<number, Track[]>();
  for (const t of tracks) {
    const offset = t.rank === null ? 0 : (offsets.get(t.rank) ?? 0);
    groups.set(offset, [...(groups.get(offset) ?? []), t]);
  }
  const answers = await Promise.all([...groups].map(([offset, list]) => get<Stats>(`${trace(info.id)}/stats${asked(area, offset, list)}`, signal)));
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
  const tab = params.get("tab") ?? "names";
  const inside = info.tracks.slice(area.first, area.last + 1);
  const tracks = inside.slice(0, mostTracks);
  const moved = [...offsets.values()].some((x) => x !== 0);
  const key = `${Math.round(area.from)} ${Math.round(area.to)} ${area.first} ${area.last} ${moved ? [...offsets].join() : ""}`;
  const load = useLoad(`stats ${info.id} ${key}`, (signal) => statsOf(info, area, offsets, tracks, signal));
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
          {s?.busy_share != null && `, streams busy ${percent(s.busy_share)}`}
        </p>
        <Switch
          label="Statistics"
          value={tab}
          options={[
            { value: "names", text: "Names" },
            { value: "flame", text: "Flame" },
            { value: "ranges", text: "Modules" },
            ...(ranks.length > 1 ? [{ value: "ranks", text: "Ranks" }] : []),
          ]}
          onChange={(v) => setParams({ tab: v === "names" ? null : v })}
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
        <FlameTab id={`${info.id} ${key}`} ask={(signal) => get(`${trace(info.id)}/flame${asked(area, 0, tracks)}`, signal)} />
      ) : tab === "ranges" ? (
        <RangesTab info={info} id={`${info.id} ${key}`} from={area.from} to={area.to} tracks={tracks} trace={params.get("trace")} />
      ) : tab === "ranks" && ranks.length > 1 ? (
        <RanksTab info={info} area={area} offsets={offsets} tracks={tracks} ranks={ranks} id={`${info.id} ${key}`} />
      ) : s && s.by_name.length > 0 ? (
        <NamesTab stats={s} />
      ) : (
        <p class="fine pad">{load.loading ? "Counting …" : "No events here."}</p>
      )}
    </div>
  );
}

const NameCell = ({ name, type }: { name: string; type: string }) => (
  <span class="name-cell" title={name}>
    <i class="swatch" style={{ background: sliceColor(name, type) }} />
    {shortName(name)}
  </span>
);

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

interface Line {
  name: string;
  type: string;
  by: (NameSum | undefined)[];
  spread: number;
}

/** Names down, ranks along; of two ranks their difference. What differs most comes first. */
function RanksTab(props: { info: TimelineInfo; area: Area; offsets: Props["offsets"]; tracks: Track[]; ranks: number[]; id: string }) {
  const shown = props.ranks.slice(0, mostRanks);
  const load = useLoad(`ranks ${props.id}`, (signal) => Promise.all(shown.map((r) => statsOf(props.info, props.area, props.offsets, props.tracks.filter((t) => t.rank === r), signal))));
  const lines = useMemo(() => {
    const all = new Map<string, Line>();
    load.data?.forEach((s, i) => {
      for (const n of s.by_name) {
        const key = `${n.type} ${n.name}`;
        let line = all.get(key);
        if (!line) all.set(key, (line = { name: n.name, type: n.type, by: new Array(shown.length).fill(undefined), spread: 0 }));
        line.by[i] = n;
      }
    });
    for (const line of all.values()) {
      const totals = line.by.map((n) => n?.total_ns ?? 0);
      line.spread = Math.max(...totals) - Math.min(...totals);
    }
    return [...all.values()].sort((a, b) => b.spread - a.spread).slice(0, 200);
  }, [load.data]);
  if (load.error) return <Failed what="The statistics" error={load.error} retry={load.reload} />;
  if (!load.data) return <p class="fine pad">Counting …</p>;
  const difference = (l: Line): string => {
    const by = (l.by[1]?.total_ns ?? 0) - (l.by[0]?.total_ns ?? 0);
    return `${by >= 0 ? "+" : "−"}${duration(Math.abs(by))}`;
  };
  return (
    <Table<Line>
      label="Statistics by rank"
      rows={lines}
      id={(l) => `${l.type} ${l.name}`}
      columns={[
        { title: "name", cell: (l) => <NameCell name={l.name} type={l.type} /> },
        { title: "type", cell: (l) => l.type },
        ...shown.map((r, i) => ({
          title: `rank ${r}`,
          number: true,
          hint: "Total time, and how many",
          cell: (l: Line) => (l.by[i] ? <span title={`${count(l.by[i]!.count)} of ${duration(l.by[i]!.mean_ns)}`}>{duration(l.by[i]!.total_ns)}</span> : none),
        })),
        shown.length === 2
          ? { title: "difference", number: true, cell: difference }
          : { title: "spread", number: true, hint: "From the least to the most", cell: (l: Line) => duration(l.spread) },
      ]}
    />
  );
}
