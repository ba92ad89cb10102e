// The steps in sight, for the ruler: those of the first rank that is shown and has any.

import type { Track } from "../types";
import type { Layout } from "./layout";
import type { StepBand } from "./model";
import { span, type SliceTile, type Tiles, type Want } from "./tiles";

/** More steps than this are not told apart. */
const mostSteps = 400;

export interface Window {
  level: number;
  from: number;
  to: number;
}

export class Steps {
  private found: { layout: Layout; track: Track | undefined } | null = null;

  constructor(private readonly tiles: Tiles) {}

  private trackOf(layout: Layout): Track | undefined {
    if (this.found?.layout !== layout) {
      const row = layout.rows.find((r) => r.all.some((t) => t.kind === "steps"));
      this.found = { layout, track: row?.all.find((t) => t.kind === "steps") };
    }
    return this.found.track;
  }

  private offsetOf(layout: Layout, track: Track): number {
    const at = layout.where.get(track.id);
    return (at?.lane ?? at?.row.lanes[0])?.offset ?? 0;
  }

  /** In the time of the window; none while they are not here, or are too many. */
  bands(layout: Layout, window: Window): StepBand[] {
    const track = this.trackOf(layout);
    if (!track) return [];
    const offset = this.offsetOf(layout, track);
    const bands: StepBand[] = [];
    const seen = new Set<number>();
    const length = span(window.level);
    let last: SliceTile | null = null;
    for (let i = Math.max(0, Math.floor((window.from + offset) / length)); i <= Math.floor((window.to + offset) / length); i++) {
      const tile = this.tiles.exact(track.id, window.level, i);
      if (tile?.detail !== "slices" || tile === last) continue;
      last = tile;
      for (let k = 0; k < tile.start.length; k++) {
        if (tile.depth[k] || seen.has(tile.start[k])) continue;
        seen.add(tile.start[k]);
        bands.push({ start: tile.start[k] - offset, end: tile.start[k] - offset + tile.length[k], name: this.tiles.names[tile.name[k]] });
      }
      if (bands.length > mostSteps) return [];
    }
    return bands;
  }

  /** Their tiles, also when their track is not in sight. */
  wants(layout: Layout, window: Window, duration: number): Want[] {
    const track = this.trackOf(layout);
    if (!track) return [];
    const length = span(window.level);
    const offset = this.offsetOf(layout, track);
    const first = Math.max(0, Math.floor((window.from + offset) / length));
    const last = Math.min(Math.max(0, Math.ceil(duration / length) - 1), Math.floor((window.to + offset) / length));
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => ({ level: window.level, index: first + i, tracks: [track.id] }));
  }
}
