// How the rows are chosen and ordered, as the address says; and what has to be asked for it.

import { useEffect, useState } from "preact/hooks";
import { get, trace as tracePath } from "../api";
import { setParams, useRoute } from "../route";
import type { Analysis, TimelineInfo } from "../types";
import { plain, type Arrangement } from "./layout";
import { loadResult, type ResultTrack } from "./result";
import { align, notAligned, type Aligned, type Shown } from "./two";

export const pinsOf = (params: URLSearchParams): Set<number> =>
  new Set((params.get("pin") ?? "").split("_").filter(Boolean).map(Number));

export function setPinned(params: URLSearchParams, track: number, pinned: boolean): void {
  const pins = pinsOf(params);
  if (pinned) pins.add(track);
  else pins.delete(track);
  setParams({ pin: [...pins].join("_") });
}

/** Ranks in the order of what they cost the job. */
async function byCost(info: TimelineInfo, signal: AbortSignal): Promise<number[]> {
  const { blame } = await get<Analysis>(`${tracePath(info.id)}/analysis`, signal);
  return [...blame].sort((a, b) => (b.cost_us ?? 0) - (a.cost_us ?? 0)).flatMap((b) => (b.rank === null ? [] : [b.rank]));
}

const tryAgainMs = 500;

/** Asks until there is an answer; an analysis takes its time. */
function useAsked<T>(key: string | null, nothing: T, ask: (signal: AbortSignal) => Promise<T>, onError: (text: string) => void): T {
  const [state, setState] = useState<{ key: string | null; value: T }>({ key: null, value: nothing });
  useEffect(() => {
    onError("");
    if (key === null) return;
    const control = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const run = () =>
      ask(control.signal)
        .then((value) => setState({ key, value }))
        .catch((e: Error) => {
          if (control.signal.aborted) return;
          if (e.constructor.name === "Running" || "progress" in e) timer = setTimeout(run, tryAgainMs);
          else onError(e.message);
        });
    void run();
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [key]);
  return state.key === key ? state.value : nothing;
}

const noOrder: number[] = [];

export function useArrangement(info: Shown, onError: (text: string) => void): Arrangement {
  const { params } = useRoute();
  const by = (["track", "cost"].includes(params.get("by") ?? "") ? params.get("by") : "rank") as Arrangement["by"];
  const filter = params.get("rows") ?? "";
  const pin = params.get("pin") ?? "";
  const step = params.get("align");
  const sql = params.get("dq");
  const order = useAsked(by === "cost" ? `cost ${info.id}` : null, noOrder, (signal) => byCost(info, signal), onError);
  const second = info.second?.id ?? "";
  const aligned = useAsked<Aligned>(step || second ? `align ${info.id} ${second} ${step}` : null, notAligned, (signal) => align(info, step, signal), onError);
  const result = useAsked<ResultTrack | null>(sql ? `result ${info.id} ${sql}` : null, null, (signal) => loadResult(info, sql!, params.get("trace"), signal), onError);
  const [how, setHow] = useState<Arrangement>(plain);
  useEffect(() => setHow({ by, filter, pinned: pinsOf(params), order, offsets: aligned.offsets, steps: aligned.steps, result }), [by, filter, pin, order, aligned, result]);
  return how;
}
