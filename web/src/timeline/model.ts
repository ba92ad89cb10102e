// What is looked at and what is selected; everything of it goes into the address.

import type { CollectiveDetail, EventDetail, Hit, TimelineInfo } from "../types";
import type { Layout } from "./layout";

export interface Picked {
  track: number;
  row: string;
  start: number;
  length: number;
  /** How many events it lies in. */
  depth: number;
  name: string;
  type: string;
}

export interface Area {
  from: number;
  to: number;
  /** Tracks by their place in the list: first and last. */
  first: number;
  last: number;
}

/** A place in time that somebody marked, with a note. */
export interface Marker {
  t: number;
  text: string;
}

export const readMarkers = (params: URLSearchParams): Marker[] =>
  (params.get("m") ?? "")
    .split("|")
    .map((part) => /^(-?\d+):(.*)$/s.exec(part))
    .flatMap((m) => (m ? [{ t: Number(m[1]), text: m[2] }] : []));

export const writeMarkers = (list: Marker[]): string | null =>
  list.length ? list.map((m) => `${Math.round(m.t)}:${m.text.replace(/\|/g, "/")}`).join("|") : null;

/** What the pointer is on. */
export type Under =
  | { kind: "slice"; picked: Picked }
  | { kind: "bucket"; track: number; from: number; to: number; busy: number; count: number; name: string; type: string }
  | { kind: "counter"; label: string; text: string }
  | { kind: "gap"; length: number }
  | { kind: "result"; start: number; length: number; text: string }
  | null;

export interface Flow {
  track: number;
  ts_rel: number;
  dur: number;
  depth: number | null;
}

export interface Scene {
  info: TimelineInfo;
  layout: Layout;
  from: number;
  to: number;
  scroll: number;
  width: number;
  height: number;
  unit: number;
  picked: Picked | null;
  area: Area | null;
  flows: Flow[];
  collective: CollectiveDetail | null;
  hits: Hit[];
  markers: Marker[];
  /** What is searched for, in small letters; events whose name has it are framed. */
  found: string;
  /** Steps of the rank that is looked at, in order; empty where they are too many to be seen. */
  steps: StepBand[];
}

/** A step in the ruler and behind the tracks. */
export interface StepBand {
  start: number;
  end: number;
  name: string;
}

export const minSpan = 20;

export function clampView(from: number, to: number, duration: number): [number, number] {
  const length = Math.min(Math.max(to - from, minSpan), duration * 1.1);
  const low = -duration * 0.05;
  const start = Math.min(Math.max(from, low), Math.max(low, duration * 1.05 - length));
  return [start, start + length];
}

const list = (text: string | null): number[] | null => {
  const parts = (text ?? "").split("_").map(Number);
  return text && parts.every(Number.isFinite) ? parts : null;
};

export function readView(params: URLSearchParams, duration: number): [number, number] {
  const from = Number(params.get("from") ?? NaN);
  const to = Number(params.get("to") ?? NaN);
  return Number.isFinite(from) && Number.isFinite(to) && to > from ? clampView(from, to, duration) : [0, duration];
}

export function readArea(params: URLSearchParams): Area | null {
  const a = list(params.get("area"));
  return a?.length === 4 ? { from: a[0], to: a[1], first: a[2], last: a[3] } : null;
}

export const writeArea = (a: Area | null): string | null => a && [a.from, a.to].map(Math.round).concat(a.first, a.last).join("_");

/** A selected event: track, start, duration, depth, and its row. */
export function readPicked(params: URLSearchParams): Picked | null {
  const text = params.get("sel");
  const match = text && /^(\d+)_(\d+)_(\d+)_(\d+)_(.+)$/.exec(text);
  return match ? { track: Number(match[1]), start: Number(match[2]), length: Number(match[3]), depth: Number(match[4]), row: match[5], name: "", type: "" } : null;
}

export const writePicked = (p: Picked | null): string | null => p && `${p.track}_${p.start}_${p.length}_${p.depth}_${p.row}`;

export const flowsOf = (detail: EventDetail | null): Flow[] => detail?.flow ?? [];

/** "ProfilerStep#12" is 12. */
export const stepNumber = (name: string): number => Number(/(\d+)\D*$/.exec(name)?.[1] ?? 0);
