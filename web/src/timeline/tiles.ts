// Tiles of a trace: asked for by level of detail, kept, and found again.
// A tile of level L covers 1024 buckets of 2^L ns. A tile that came as slices is exact: it also answers for all finer levels within it.

import { get, query, Running, trace } from "../api";
import { noteCommunication } from "../color";
import type { Bucket, Slice, TileAnswer } from "../types";
import { infoOf, inSecond, numberOf, secondFrom, type Shown } from "./two";

export const tileBuckets = 1024;
const atOnce = 4;
const tracksPerCall = 48;
const kept = 16_000;

export interface SliceTile {
  detail: "slices";
  from: number;
  to: number;
  start: Float64Array;
  length: Float64Array;
  name: Int32Array;
  type: Uint8Array;
  depth: Uint8Array;
  row: string[];
  /** Length of the longest: one that begins so long before a window may still touch it. */
  longest: number;
  used: number;
}

export interface BucketTile {
  detail: "buckets";
  from: number;
  to: number;
  index: Uint16Array;
  busy: Float32Array;
  count: Float64Array;
  name: Int32Array;
  type: Uint8Array;
  depth: Uint8Array;
  /** Those that are long enough for their names. */
  over: SliceTile | null;
  used: number;
}

export type Tile = SliceTile | BucketTile;

export interface Want {
  level: number;
  index: number;
  tracks: number[];
}

export const span = (level: number): number => tileBuckets * 2 ** level;
const keyOf = (track: number, level: number, index: number): string => `${track}/${level}/${index}`;

function sliceTile(list: Slice[], ids: number[], from: number, to: number): SliceTile {
  const n = list.length;
  const tile: SliceTile = {
    detail: "slices",
    from,
    to,
    used: 0,
    longest: 0,
    start: new Float64Array(n),
    length: new Float64Array(n),
    name: new Int32Array(n),
    type: new Uint8Array(n),
    row: new Array<string>(n),
    depth: new Uint8Array(n),
  };
  for (let i = 0; i < n; i++) {
    const s = list[i];
    tile.start[i] = s[0];
    tile.length[i] = s[1];
    if (s[1] > tile.longest) tile.longest = s[1];
    tile.name[i] = ids[s[2]];
    tile.type[i] = s[3];
    tile.row[i] = s[4];
    tile.depth[i] = Math.min(255, s[5]);
  }
  return tile;
}

function bucketTile(list: Bucket[], long: Slice[], ids: number[], from: number, to: number): BucketTile {
  const n = list.length;
  const tile: BucketTile = {
    detail: "buckets",
    from,
    to,
    used: 0,
    index: new Uint16Array(n),
    busy: new Float32Array(n),
    count: new Float64Array(n),
    name: new Int32Array(n),
    type: new Uint8Array(n),
    depth: new Uint8Array(n),
    over: long.length ? sliceTile(long, ids, from, to) : null,
  };
  for (let i = 0; i < n; i++) {
    const b = list[i];
    tile.index[i] = b[0];
    tile.busy[i] = b[1];
    tile.count[i] = b[2];
    tile.name[i] = ids[b[3]];
    tile.type[i] = b[4];
    tile.depth[i] = b[5];
  }
  return tile;
}

/** The first event that begins at `t` or later. */
export function firstFrom(tile: SliceTile, t: number): number {
  let low = 0;
  let high = tile.start.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tile.start[middle] < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Tiles {
  readonly names: string[] = [];
  private nameIds = new Map<string, number>();
  private tiles = new Map<string, Tile>();
  private asked = new Map<string, number>();
  /** The tracks of each are of one trace. */
  private queue: Want[] = [];
  private running = 0;
  private clock = 0;
  private control = new AbortController();
  failed: Error | null = null;

  constructor(
    private readonly info: Shown,
    private readonly topLevel: () => number,
    private readonly arrived: () => void,
  ) {}

  close(): void {
    this.control.abort();
    this.queue = [];
  }

  /** Of a trace that grows: what reaches beyond `end` is asked again. */
  forgetAfter(end: number): void {
    for (const [key, tile] of this.tiles) if (tile.to > end) this.tiles.delete(key);
  }

  clear(): void {
    this.tiles.clear();
    this.asked.clear();
    this.failed = null;
  }

  /** The tile itself, or one of slices that covers it. */
  exact(track: number, level: number, index: number): Tile | null {
    const own = this.tiles.get(keyOf(track, level, index));
    if (own) return this.touch(own);
    for (let l = level + 1, i = index; l <= this.topLevel(); l++) {
      i = Math.floor(i / 2);
      const tile = this.tiles.get(keyOf(track, l, i));
      if (tile?.detail === "slices") return this.touch(tile);
    }
    return null;
  }

  /** The next coarser tile there is, to be seen until the exact one comes. */
  coarser(track: number, level: number, index: number): { tile: Tile; level: number; index: number } | null {
    for (let l = level + 1, i = index; l <= this.topLevel(); l++) {
      i = Math.floor(i / 2);
      const tile = this.tiles.get(keyOf(track, l, i));
      if (tile) return { tile: this.touch(tile), level: l, index: i };
    }
    return null;
  }

  private touch<T extends Tile>(tile: T): T {
    tile.used = ++this.clock;
    return tile;
  }

  /** What is wanted now, most urgent first. What was wanted before and was not sent yet is forgotten. Returns how many are missing. */
  want(list: Want[]): number {
    this.queue = [];
    let missing = 0;
    const now = performance.now();
    for (const w of list) {
      const tracks = w.tracks.filter((t) => {
        if (this.exact(t, w.level, w.index)) return false;
        missing++;
        const at = this.asked.get(keyOf(t, w.level, w.index));
        return at === undefined || now - at > 20_000;
      });
      for (const list of [tracks.filter((t) => !inSecond(t)), tracks.filter(inSecond)])
        for (let i = 0; i < list.length; i += tracksPerCall) this.queue.push({ ...w, tracks: list.slice(i, i + tracksPerCall) });
    }
    this.pump();
    return missing;
  }

  private pump(): void {
    while (this.running < atOnce && this.queue.length && !this.control.signal.aborted) void this.ask(this.queue.shift()!);
  }

  private async ask(w: Want): Promise<void> {
    this.running++;
    const now = performance.now();
    for (const t of w.tracks) this.asked.set(keyOf(t, w.level, w.index), now);
    const from = w.index * span(w.level);
    try {
      const path = `${trace(infoOf(this.info, w.tracks[0]).id)}/tiles${query({ from, to: from + span(w.level), width: tileBuckets, tracks: w.tracks.map(numberOf).join(",") })}`;
      this.take(w, await get<TileAnswer>(path, this.control.signal), from);
      this.failed = null;
    } catch (error) {
      if (this.control.signal.aborted) return;
      const running = error instanceof Running;
      this.failed = running ? null : (error as Error);
      // Asked again, but not at once.
      setTimeout(() => {
        for (const t of w.tracks) this.asked.delete(keyOf(t, w.level, w.index));
        this.arrived();
      }, running ? 400 : 2000);
      this.running--;
      this.arrived();
      return;
    }
    this.running--;
    for (const t of w.tracks) this.asked.delete(keyOf(t, w.level, w.index));
    this.arrived();
    this.pump();
  }

  private take(w: Want, answer: TileAnswer, from: number): void {
    const ids = answer.names.map((n) => this.intern(n));
    noteCommunication(answer.communication.map((i) => answer.names[i]));
    const to = from + span(w.level);
    const seen = new Set<number>();
    const more = inSecond(w.tracks[0]) ? secondFrom : 0;
    for (const t of answer.tracks) {
      const id = t.id + more;
      seen.add(id);
      const tile = t.detail === "slices" ? sliceTile(t.slices, ids, from, to) : bucketTile(t.buckets, t.slices, ids, from, to);
      this.tiles.set(keyOf(id, w.level, w.index), this.touch(tile));
    }
    // A track the answer leaves out has nothing here.
    for (const id of w.tracks)
      if (!seen.has(id))
        this.tiles.set(
          keyOf(id, w.level, w.index),
          this.touch(sliceTile([], ids, from, to)),
        );
    if (this.tiles.size > kept) this.trim();
  }

  private trim(): void {
    const byUse = [...this.tiles].sort((a, b) => a[1].used - b[1].used);
    for (const [key] of byUse.slice(0, kept / 4)) this.tiles.delete(key);
  }

  private intern(name: string): number {
    let id = this.nameIds.get(name);
    if (id === undefined) {
      id = this.names.length;
      this.names.push(name);
      this.nameIds.set(name, id);
    }
    return id;
  }
}
