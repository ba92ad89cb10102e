// Which rows there are, from top to bottom. A row is a node, a rank, or one of its tracks; nodes and ranks can be closed.

import type { Track } from "../types";
import type { Counter } from "./counters";

export interface Row {
  kind: "node" | "group" | "track" | "counter";
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
  counter?: Counter;
}

export interface Lane {
  track: Track;
  y: number;
  height: number;
  /** Levels of nesting that are shown. */
  depth: number;
}

export interface Layout {
  rows: Row[];
  height: number;
  /** The row and lane in which a track is seen, also if its rank is closed. */
  where: Map<number, { row: Row; lane: Lane | null }>;
}

const maxDepth = 64;
const openAtMost = 4;
/** Deeper stacks are folded until they are opened, and so are Python's frames. */
const openDepth = 12;

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

/** `toggled`: rows that are not as they are by default. Few ranks are open by default, many are closed. */
export function arrange(tracks: Track[], toggled: ReadonlySet<string>, unit: number, counters: Counter[] = []): Layout {
  const rows: Row[] = [];
  const where = new Map<number, { row: Row; lane: Lane | null }>();
  const nodes = groupBy(tracks, (t) => t.node ?? "");
  const groupCount = new Set(tracks.map((t) => t.group)).size;
  const closedByDefault = groupCount > openAtMost;
  const u = (n: number) => Math.round(n * unit);
  let y = 0;
  let group = 0;
  let nodeIndex = 0;

  const put = (row: Row): Row => {
    row.y = y;
    y += row.height;
    rows.push(row);
    for (const t of row.all) where.set(t.id, { row, lane: row.lanes.find((l) => l.track === t) ?? null });
    return row;
  };

  for (const [node, ofNode] of nodes) {
    const key = `n${nodeIndex++}`;
    let parent: Row | null = null;
    const groups = groupBy(ofNode, (t) => t.group);
    if (nodes.size > 1 || (groups.size > 1 && node)) {
      const closed = toggled.has(key);
      const lanes: Lane[] = [];
      if (closed) {
        const mains = [...groups.values()].map(busiest).filter((t): t is Track => !!t).slice(0, 16);
        const h = Math.max(u(3), Math.floor(u(26) / Math.max(1, mains.length)));
        mains.forEach((track, i) => lanes.push({ track, y: u(3) + i * h, height: Math.max(2, h - 1), depth: 1 }));
      }
      const height = closed ? Math.max(u(30), (lanes.at(-1)?.y ?? 0) + (lanes.at(-1)?.height ?? 0) + u(3)) : u(20);
      parent = put({ kind: "node", key, label: node || "node unknown", lanes, all: ofNode, y, height, closed, parent: null });
      if (closed) {
        group += groups.size;
        continue;
      }
    }
    for (const [name, ofGroup] of groups) {
      const groupKey = `g${group++}`;
      const closed = closedByDefault !== toggled.has(groupKey);
      const lanes: Lane[] = [];
      if (closed) {
        const main = busiest(ofGroup);
        const comm = ofGroup.find((t) => t.kind === "collectives");
        if (main) lanes.push({ track: main, y: u(2), height: u(12), depth: 1 });
        if (comm && comm !== main) lanes.push({ track: comm, y: u(15), height: u(4), depth: 1 });
      }
      const label = name.includes(" / ") && parent ? name.slice(name.indexOf(" / ") + 3) : name;
      const head = put({ kind: "group", key: groupKey, label, lanes, all: ofGroup, y, height: closed ? u(21) : u(18), closed, parent });
      if (closed) continue;
      // Under the last stream of a GPU, what was measured of it.
      const last = new Map<number, Track>();
      for (const t of ofGroup) if (t.kind === "stream" && t.device !== null) last.set(t.device, t);
      for (const track of ofGroup) {
        const depth = Math.min(maxDepth, Math.max(1, track.depth));
        const folded = depth > 1 && foldedByDefault(track) !== toggled.has(`t${track.id}`);
        const line = track.kind === "steps" || track.kind === "collectives" ? u(14) : u(15);
        const lane: Lane = { track, y: u(2), height: folded ? Math.max(u(12), Math.min(u(32), depth * u(3))) : line * depth, depth };
        put({ kind: "track", key: `t${track.id}`, label: track.name, lanes: [lane], all: [track], y, height: Math.max(u(19), lane.height + u(4)), closed: folded, parent: head });
        if (track.device === null || last.get(track.device) !== track) continue;
        for (const c of counters)
          if (c.node === (track.node ?? "") && c.device === track.device)
            put({ kind: "counter", key: c.key, label: last.size > 1 ? `GPU ${c.device} ${c.label.replace(/^GPU /, "")}` : c.label, lanes: [], all: [], y, height: u(30), closed: false, parent: head, counter: c });
      }
    }
  }
  return { rows, height: y, where };
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
