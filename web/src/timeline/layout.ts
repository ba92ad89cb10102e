// Which rows there are, from top to bottom. A row is a node, a rank, or one of its tracks; nodes and ranks can be closed.

import type { Track } from "../types";
import type { Counter } from "./counters";
import { naturalOrder } from "../format";
import type { ResultTrack } from "./result";
import type { Aligned } from "./two";

export interface Row {
  kind: "node" | "group" | "track" | "counter" | "result";
  /** What it is called in the address: n0, g3, t17. */
  key: string;
  label: string;
  /** Tracks drawn in it: one, or the lanes of a closed rank or node. */
  lanes: Lane[];
  /** All tracks it stands for. */
  all: Track[];
  y: number;
  height: number;
  /** A rank or node that shows one lane for all its tracks, or a track whose levels are too thin for names. */
  closed: boolean;
  parent: Row | null;
  /** It stays at the top, however far the others are scrolled. */
  pinned: boolean;
  /** Of a counter: that of the tracks of its rank. */
  offset?: number;
  counter?: Counter;
  result?: ResultTrack;
}

export interface Lane {
  track: Track;
  y: number;
  height: number;
  /** Levels of nesting that are shown. */
  depth: number;
  /** What is added to a time of the window to get one of the track: ranks can be aligned. */
  offset: number;
}

/** How rows are chosen and ordered. */
export interface Arrangement {
  /** Ranks in order; the same track of all ranks together; ranks in the order of `order`. */
  by: "rank" | "track" | "cost";
  filter: string;
  /** Ids of tracks. */
  pinned: ReadonlySet<number>;
  order: number[];
  /** By track: what aligns it. */
  offsets: ReadonlyMap<number, number>;
  /** Where the step lies that two traces are aligned at. */
  steps: Aligned["steps"];
  result: ResultTrack | null;
}

export const plain: Arrangement = { by: "rank", filter: "", pinned: new Set(), order: [], offsets: new Map(), steps: null, result: null };

export interface Layout {
  rows: Row[];
  height: number;
  /** How much of it is pinned rows, which are the first ones. */
  pinnedHeight: number;
  pinnedRows: number;
  /** The row and lane in which a track is seen, also if its rank is closed. */
  where: Map<number, { row: Row; lane: Lane | null }>;
}

const maxDepth = 64;
const openAtMost = 4;
/** Deeper stacks are folded until they are opened, and so are Python's frames. */
const openDepth = 12;

/** So many of the same kind are rows of their own; more are lines in one row, of this height if there is room. */
const fewTogether = 8;
const togetherHeight = 220;
const mostTogether = 1024;
const stepsTogether = 32;

const foldedByDefault = (t: Track): boolean => t.depth > 1 && (t.kind === "python" || t.depth > openDepth);
export const canFold = (row: Row): boolean => row.kind === "track" && row.all[0].depth > 1;

const isMain = (t: Track): boolean => t.kind === "stream";
const busiest = (tracks: Track[]): Track | undefined => tracks.filter(isMain).sort((a, b) => b.events - a.events)[0] ?? tracks[0];

function groupBy<K>(tracks: Track[], key: (t: Track) => K): Map<K, Track[]> {
  const groups = new Map<K, Track[]>();
  for (const t of tracks) {
    const list = groups.get(key(t));
    if (list) list.push(t);
    else groups.set(key(t), [t]);
  }
  return groups;
}

/** Where a row is seen. */
export const topOf = (row: Row, scroll: number): number => (row.pinned ? row.y : row.y - scroll);

/** Whether a track has one of the names asked for: "rank 2, stream 7" has two. "rank 1" is not in "rank 10". */
export function isAskedFor(t: Track, filter: string): boolean {
  const terms = filter.toLowerCase().split(",").map((x) => x.trim()).filter(Boolean);
  if (!terms.length) return true;
  const name = `${t.group} ${t.name}`.toLowerCase();
  return terms.some((term) => {
    for (let at = name.indexOf(term); at >= 0; at = name.indexOf(term, at + 1)) if (!/\d$/.test(term) || !/\d/.test(name[at + term.length] ?? "")) return true;
    return false;
  });
}

/** What tracks of several ranks have in common: "GPU stream 7", "thread 1". */
function commonName(t: Track, ordinals: Map<string, number>): string {
  if (t.kind === "stream" || t.kind === "gpu_ranges") return t.name.replace(/^GPU \d+\b/, "GPU");
  if (!/\d/.test(t.name)) return t.name;
  // Numbers of threads are those of their processes: the first one of each, the second, ...
  const key = `${t.group} ${t.kind}`;
  const n = (ordinals.get(key) ?? 0) + 1;
  ordinals.set(key, n);
  return `${t.name.replace(/\d+/, String(n))}`;
}

/** `toggled`: rows that are not as they are by default. Few ranks are open by default, many are closed. */
export function arrange(all: Track[], toggled: ReadonlySet<string>, unit: number, counters: Counter[] = [], how: Arrangement = plain): Layout {
  const rows: Row[] = [];
  const where = new Map<number, { row: Row; lane: Lane | null }>();
  const tracks = how.filter ? all.filter((t) => isAskedFor(t, how.filter)) : all;
  const u = (n: number) => Math.round(n * unit);
  const offsetOf = (t: Track) => how.offsets.get(t.id) ?? 0;
  const laneOf = (track: Track, y: number, height: number, depth: number): Lane => ({ track, y, height, depth, offset: offsetOf(track) });
  let y = 0;

  const put = (row: Omit<Row, "y">): Row => {
    const placed: Row = { ...row, y };
    y += row.height;
    rows.push(placed);
    for (const t of row.all) if (!placed.pinned || !where.has(t.id)) where.set(t.id, { row: placed, lane: row.lanes.find((l) => l.track === t) ?? null });
    return placed;
  };
  const putTrack = (track: Track, label: string, parent: Row | null, pinned: boolean): void => {
    const depth = Math.min(maxDepth, Math.max(1, track.depth));
    const folded = depth > 1 && foldedByDefault(track) !== toggled.has(`t${track.id}`);
    const line = track.kind === "steps" || track.kind === "collectives" ? u(14) : u(15);
    const lane = laneOf(track, u(2), folded ? Math.max(u(12), Math.min(u(32), depth * u(3))) : line * depth, depth);
    put({ kind: "track", key: `t${track.id}`, label, lanes: [lane], all: [track], height: Math.max(u(19), lane.height + u(4)), closed: folded, parent, pinned });
  };

  if (how.result) put({ kind: "result", key: "result", label: how.result.title, lanes: [], all: [], height: u(15) * how.result.depth + u(6), closed: false, parent: null, pinned: true, result: how.result });
  for (const t of all) if (how.pinned.has(t.id)) putTrack(t, `${t.group.replace(/^.* \/ /, "")} · ${t.name}`, null, true);
  const pinnedHeight = y;
  const pinnedRows = rows.length;
  if (how.by === "track") sameTogether();
  else byRank();
  return { rows, height: y, pinnedHeight, pinnedRows, where };

  /** The same track of all ranks together: closed, a thin line for each. */
  function sameTogether(): void {
    const ordinals = new Map<string, number>();
    const groups = groupBy(tracks, (t) => `${t.kind} ${commonName(t, ordinals)}`);
    ordinals.clear();
    const order = ["steps", "collectives", "gpu_ranges", "stream", "thread", "python", "stacks"];
    const sorted = [...groups.values()].sort((a, b) => order.indexOf(a[0].kind) - order.indexOf(b[0].kind) || naturalOrder(a[0].name, b[0].name));
    for (const list of sorted) {
      const key = `s${list[0].kind}${commonName(list[0], new Map())}`.replace(/[_\s]/g, "");
      const closed = list.length > fewTogether !== toggled.has(key);
      const lanes: Lane[] = [];
      if (closed) {
        // Steps look much the same on all ranks: some of them are enough.
        const some = list[0].kind === "steps" ? list.filter((_, i) => i % Math.ceil(list.length / stepsTogether) === 0) : list.slice(0, mostTogether);
        const height = Math.max(1, Math.min(u(10), Math.floor(u(togetherHeight) / list.length)));
        const gap = height > 4 ? 1 : 0;
        some.forEach((t, i) => lanes.push(laneOf(t, u(3) + i * height, height - gap, 1)));
      }
      const height = closed ? Math.max(u(21), lanes[lanes.length - 1].y + lanes[lanes.length - 1].height + u(3)) : u(18);
      const label = `${commonName(list[0], new Map())} of ${list.length} ${list.length === 1 ? "rank" : "ranks"}`;
      const head = put({ kind: "group", key, label, lanes, all: list, height, closed, parent: null, pinned: false });
      if (!closed) for (const t of list) putTrack(t, t.group.replace(/^(.*) \/ (.*)$/, "$2 · $1"), head, false);
    }
  }

  function byRank(): void {
    const place = new Map(how.order.map((rank, i) => [rank, i]));
    const cost = (list: Track[]) => (list[0].rank === null ? Infinity : (place.get(list[0].rank) ?? how.order.length));
    // By cost nodes do not matter.
    const nodes = groupBy(tracks, (t) => (how.by === "cost" ? "" : (t.node ?? "")));
    const groupCount = new Set(tracks.map((t) => t.group)).size;
    const closedByDefault = groupCount > openAtMost;
    // A group keeps its number, whatever is filtered or how it is ordered: it is in links.
    const numbers = new Map([...new Set(all.map((t) => t.group))].map((name, i) => [name, i]));
    const nodeNumbers = new Map([...new Set(all.map((t) => t.node ?? ""))].map((name, i) => [name, i]));
    for (const [node, ofNode] of nodes) {
      const key = `n${nodeNumbers.get(node)}`;
      let parent: Row | null = null;
      const found = groupBy(ofNode, (t) => t.group);
      const groups = how.by === "cost" ? new Map([...found].sort((a, b) => cost(a[1]) - cost(b[1]))) : found;
      if (how.by !== "cost" && (nodes.size > 1 || (groups.size > 1 && node))) {
        const closed = toggled.has(key);
        const lanes: Lane[] = [];
        if (closed) {
          const mains = [...groups.values()].map(busiest).filter((t): t is Track => !!t).slice(0, 16);
          const h = Math.max(u(3), Math.floor(u(26) / Math.max(1, mains.length)));
          mains.forEach((track, i) => lanes.push(laneOf(track, u(3) + i * h, Math.max(2, h - 1), 1)));
        }
        const height = closed ? Math.max(u(30), (lanes.at(-1)?.y ?? 0) + (lanes.at(-1)?.height ?? 0) + u(3)) : u(20);
        parent = put({ kind: "node", key, label: node || "node unknown", lanes, all: ofNode, height, closed, parent: null, pinned: false });
        if (closed) continue;
      }
      for (const [name, ofGroup] of groups) {
        const groupKey = `g${numbers.get(name)}`;
        const closed = closedByDefault !== toggled.has(groupKey);
        const lanes: Lane[] = [];
        if (closed) {
          const main = busiest(ofGroup);
          const comm = ofGroup.find((t) => t.kind === "collectives");
          if (main) lanes.push(laneOf(main, u(2), u(12), 1));
          if (comm && comm !== main) lanes.push(laneOf(comm, u(15), u(4), 1));
        }
        const label = name.includes(" / ") && parent ? name.slice(name.indexOf(" / ") + 3) : name;
        const head = put({ kind: "group", key: groupKey, label, lanes, all: ofGroup, height: closed ? u(21) : u(18), closed, parent, pinned: false });
        if (closed) continue;
        // Under the last stream of a GPU, what was measured of it.
        const last = new Map<number, Track>();
        for (const t of ofGroup) if (t.kind === "stream" && t.device !== null) last.set(t.device, t);
        for (const track of ofGroup) {
          putTrack(track, track.name, head, false);
          if (track.device === null || last.get(track.device) !== track) continue;
          for (const c of counters)
            if (c.node === (track.node ?? "") && c.device === track.device)
              put({ kind: "counter", key: c.key, label: last.size > 1 ? `GPU ${c.device} ${c.label.replace(/^GPU /, "")}` : c.label, lanes: [], all: [], height: u(30), closed: false, parent: head, pinned: false, offset: offsetOf(track), counter: c });
        }
      }
    }
  }
}

/** The first row that reaches below `y`. */
export function rowAt(layout: Layout, y: number): number {
  let low = 0;
  let high = layout.rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (layout.rows[middle].y + layout.rows[middle].height <= y) low = middle + 1;
    else high = middle;
  }
  return low;
}
