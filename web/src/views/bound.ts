import type { Analysis } from "../types";

/** The farthest that clocks of two nodes can be off, ns; null: there is one clock, or nothing is known. */
export function clockBound(data: Analysis): number | null {
  const known = data.clock.flatMap((c) => (c.bound_ns === null ? [] : [c.bound_ns]));
  return data.clock.length > 1 && known.length ? Math.max(...known) : null;
}
