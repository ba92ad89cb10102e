// A second trace under the first: its tracks come after those of the first, with numbers of their own.

import { get, query, trace } from "../api";
import type { EventDetail, Hit, SearchAnswer, TimelineInfo, Track } from "../types";

/** Numbers of the tracks of the second trace begin here. */
export const secondFrom = 1_000_000;

/** What the timeline shows: a trace, or two of them one above the other. */
export interface Shown extends TimelineInfo {
  second: TimelineInfo | null;
  /** What the two are called where a node or process is named; empty: there is one. */
  titles: [string, string] | [];
}

export const inSecond = (track: number): boolean => track >= secondFrom;
/** The number that the server knows a track by. */
export const numberOf = (track: number): number => track % secondFrom;
export const infoOf = (info: Shown, track: number): TimelineInfo => (inSecond(track) && info.second ? info.second : info);

/** A node of one of two traces. */
export const nodeOf = (title: string | undefined, name: string | null): string | null => (!title ? name : name ? `${title} · ${name}` : title);

const groupOf = (title: string, node: string | null, group: string): string => `${nodeOf(title, node)} / ${group.replace(/^.* \/ /, "")}`;

/** The tracks of both; the node that a track is under names its trace too. */
export function together(first: TimelineInfo, second: TimelineInfo | null): Shown {
  if (!second) return { ...first, second: null, titles: [] };
  const [a, b] = first.title === second.title ? [`${first.title} (before)`, `${second.title} (after)`] : [first.title, second.title];
  const tracks = (title: string, list: Track[], from: number) =>
    list.map((t) => ({ ...t, id: t.id + from, node: nodeOf(title, t.node), group: groupOf(title, t.node, t.group) }));
  const losses = (title: string, of: TimelineInfo) => of.losses.map((l) => ({ ...l, node: nodeOf(title, l.node), ts_rel: of === first ? l.ts_rel : null }));
  const gaps = (title: string, of: TimelineInfo) => of.gaps.map((g) => ({ ...g, group: groupOf(title, of.tracks.find((t) => t.group === g.group)?.node ?? null, g.group) }));
  return {
    ...first,
    duration_ns: Math.max(first.duration_ns, second.duration_ns),
    tracks: [...tracks(a, first.tracks, 0), ...tracks(b, second.tracks, secondFrom)],
    losses: [...losses(a, first), ...losses(b, second)],
    gaps: [...gaps(a, first), ...gaps(b, second)],
    notes: [...first.notes.map((n) => `${a}: ${n}`), ...second.notes.map((n) => `${b}: ${n}`)],
    second,
    titles: [a, b],
  };
}

/** What an answer about an event of the second trace says of tracks, as the page numbers them. */
export function renumbered(d: EventDetail, track: number): EventDetail {
  if (!inSecond(track)) return d;
  const collective = d.collective && { ...d.collective, arrivals: d.collective.arrivals.map((a) => ({ ...a, track: a.track + secondFrom })) };
  return { ...d, flow: d.flow?.map((f) => ({ ...f, track: f.track + secondFrom })), collective };
}

/** Where one step lies in a trace, by its first rank. */
export interface StepOf {
  name: string;
  from: number;
  to: number;
}

export interface Aligned {
  /** By track: what is added to a time of the window to get one of the track. */
  offsets: ReadonlyMap<number, number>;
  /** The step that two traces are aligned at, in each of them; null: there is one trace, or no step in both. */
  steps: [StepOf, StepOf] | null;
}

export const notAligned: Aligned = { offsets: new Map(), steps: null };

const search = (info: TimelineInfo, q: string, tracks: number[] | null, signal: AbortSignal): Promise<Hit[]> =>
  get<SearchAnswer>(`${trace(info.id)}/search${query({ q, type: "step", tracks: tracks?.join(",") ?? null, limit: 10_000 })}`, signal).then((a) => a.hits);

/** The steps of the first rank that has any. */
async function stepsOf(info: TimelineInfo, signal: AbortSignal): Promise<Hit[]> {
  const track = info.tracks.find((t) => t.kind === "steps" && t.id < secondFrom);
  return track ? search(info, "step", [track.id], signal) : [];
}

/** One that both have, in the middle of those; of steps with other names the first ones. */
async function commonStep(info: Shown, asked: string | null, signal: AbortSignal): Promise<[StepOf, StepOf] | null> {
  const [first, second] = await Promise.all([stepsOf(info, signal), stepsOf(info.second!, signal)]);
  const byName = new Map(second.map((h) => [h.name, h]));
  const both = first.filter((h) => byName.has(h.name));
  const a = both.find((h) => h.name === asked) ?? both[both.length >> 1] ?? first[0];
  const b = a && (byName.get(a.name) ?? second[0]);
  const place = (h: Hit): StepOf => ({ name: h.name, from: h.ts_rel, to: h.ts_rel + h.dur });
  return a && b ? [place(a), place(b)] : null;
}

/** When a step begins on each rank of a trace. */
async function beginnings(info: TimelineInfo, step: string, signal: AbortSignal): Promise<{ first: number | null; byRank: Map<number, number> }> {
  const ranks = new Map(info.tracks.flatMap((t) => (t.rank === null || t.id >= secondFrom ? [] : [[t.id, t.rank] as [number, number]])));
  const byRank = new Map<number, number>();
  let first: number | null = null;
  for (const h of await search(info, step, null, signal)) {
    const rank = ranks.get(h.track);
    if (h.name !== step || rank === undefined || byRank.has(rank)) continue;
    first ??= h.ts_rel;
    byRank.set(rank, h.ts_rel);
  }
  return { first, byRank };
}

/** `step`: begins on all ranks together; null: ranks lie as they ran, and two traces at a step that both have. */
export async function align(info: Shown, step: string | null, signal: AbortSignal): Promise<Aligned> {
  const steps = info.second ? await commonStep(info, step, signal) : null;
  const offsets = new Map<number, number>();
  const between = steps ? steps[1].from - steps[0].from : 0;
  for (const t of info.tracks) if (inSecond(t.id)) offsets.set(t.id, between);
  if (step === null) return { offsets, steps };
  const [a, b] = await Promise.all([beginnings(info, step, signal), info.second ? beginnings(info.second, step, signal) : null]);
  const zero = a.first ?? b?.first ?? 0;
  for (const t of info.tracks) {
    const at = t.rank === null ? undefined : (inSecond(t.id) ? b : a)?.byRank.get(t.rank);
    if (at !== undefined) offsets.set(t.id, at - zero);
  }
  return { offsets, steps };
}
