// Tiles as pictures: a strip is 1024 pixels wide and one pixel high for each level of nesting, many on a canvas.
// Canvases are small: one that was drawn from is copied when it is painted on again.
// Drawing a track that is dense is then a few stretched copies, whatever number of events is in it.

import { rgbOf, sliceColor } from "../color";
import { firstFrom, tileBuckets, type BucketTile, type SliceTile, type Tile } from "./tiles";

/** ms of a frame that may go into painting new strips; the others follow in the next frames. */
const budget = 8;
const pageRows = 64;
const pages = 192;

export interface Strip {
  canvas: HTMLCanvasElement;
  y: number;
  rows: number;
  alive: boolean;
}

export class Strips {
  private pages: { g: CanvasRenderingContext2D; strips: Strip[] }[] = [];
  private page = -1;
  private row = pageRows;
  private cache = new WeakMap<Tile, Map<string, Strip>>();
  private colors = new Map<number, [number, number, number]>();
  private spent = 0;
  /** Strips were left out of this frame: there has to be another. */
  behind = false;

  constructor(
    private readonly names: string[],
    private readonly types: string[],
  ) {}

  /** A frame begins. */
  begin(): void {
    this.spent = 0;
    this.behind = false;
  }

  /** The strip of a tile over [from, to), which lies in it; null: there is no time left for it in this frame. */
  of(tile: Tile, from: number, to: number, rows: number): Strip | null {
    let strips = this.cache.get(tile);
    if (!strips) this.cache.set(tile, (strips = new Map()));
    const key = `${from}/${to}/${rows}`;
    let strip = strips.get(key);
    if (strip?.alive) return strip;
    if (this.spent > budget) {
      this.behind = true;
      return null;
    }
    const began = performance.now();
    strip = this.place(rows);
    strips.set(key, strip);
    const image = new ImageData(tileBuckets, rows);
    if (tile.detail === "buckets") this.paintBuckets(tile, rows, image.data);
    else this.paintSlices(tile, from, to, rows, image.data);
    this.pages[this.page].g.putImageData(image, 0, strip.y);
    this.spent += performance.now() - began;
    return strip;
  }

  /** Room for a strip; when all pages are full, the oldest one gives its place. */
  private place(rows: number): Strip {
    if (this.row + rows > pageRows) {
      this.page = (this.page + 1) % pages;
      this.row = 0;
      const old = this.pages[this.page];
      if (old) {
        for (const s of old.strips) s.alive = false;
        old.strips = [];
      } else {
        const canvas = document.createElement("canvas");
        canvas.width = tileBuckets;
        canvas.height = pageRows;
        this.pages[this.page] = { g: canvas.getContext("2d")!, strips: [] };
      }
    }
    const page = this.pages[this.page];
    const strip: Strip = { canvas: page.g.canvas, y: this.row, rows, alive: true };
    page.strips.push(strip);
    this.row += rows;
    return strip;
  }

  private color(name: number, type: number): [number, number, number] {
    const key = name * 64 + type;
    let color = this.colors.get(key);
    if (!color) this.colors.set(key, (color = rgbOf(sliceColor(this.names[name], this.types[type] ?? "other"))));
    return color;
  }

  private dot(data: Uint8ClampedArray, at: number, name: number, type: number, busy: number): void {
    const [r, g, b] = this.color(name, type);
    data[at] = r;
    data[at + 1] = g;
    data[at + 2] = b;
    data[at + 3] = 255 * (0.3 + 0.7 * Math.min(1, Math.sqrt(busy)));
  }

  private paintBuckets(tile: BucketTile, rows: number, data: Uint8ClampedArray): void {
    for (let i = 0; i < tile.index.length; i++)
      if (tile.depth[i] < rows) this.dot(data, (tile.depth[i] * tileBuckets + tile.index[i]) * 4, tile.name[i], tile.type[i], tile.busy[i]);
  }

  private paintSlices(tile: SliceTile, from: number, to: number, rows: number, data: Uint8ClampedArray): void {
    const bucket = (to - from) / tileBuckets;
    const busy = new Float64Array(tileBuckets * rows);
    const most = new Float64Array(tileBuckets * rows);
    const which = new Int32Array(tileBuckets * rows).fill(-1);
    for (let i = firstFrom(tile, from - tile.longest); i < tile.start.length; i++) {
      const start = tile.start[i];
      if (start >= to) break;
      const end = start + tile.length[i];
      const depth = tile.depth[i];
      if (depth >= rows || end < from) continue;
      const first = Math.max(0, Math.floor((start - from) / bucket));
      const last = Math.min(tileBuckets - 1, Math.floor((end - from) / bucket));
      for (let b = first; b <= last; b++) {
        const part = Math.min(end, from + (b + 1) * bucket) - Math.max(start, from + b * bucket);
        const at = depth * tileBuckets + b;
        busy[at] += part;
        if (part >= most[at]) {
          most[at] = part;
          which[at] = i;
        }
      }
    }
    for (let at = 0; at < which.length; at++)
      if (which[at] >= 0) this.dot(data, at * 4, tile.name[which[at]], tile.type[which[at]], busy[at] / bucket);
  }
}
