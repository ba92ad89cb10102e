// Mouse and keys, as in Perfetto: drag selects, Shift + drag moves, Ctrl + wheel zooms, WASD.

import type { Engine } from "./engine";
import { canFold } from "./layout";
import type { Area, Picked, Under } from "./model";

export interface Actions {
  hover: (under: Under, x: number, y: number) => void;
  pick: (picked: Picked | null) => void;
  select: (area: Area | null, done: boolean) => void;
  toggle: (key: string) => void;
  search: () => void;
  /** Marks a time. */
  mark: (t: number) => void;
}

export function listen(engine: Engine, parts: { tracks: HTMLCanvasElement; ruler: HTMLCanvasElement; minimap: HTMLCanvasElement; scroller: HTMLElement }, actions: Actions, order: (track: number) => number): () => void {
  const { tracks, ruler, minimap, scroller } = parts;
  const control = new AbortController();
  const { signal } = control;
  const share = (e: MouseEvent, element: HTMLElement) => {
    const box = element.getBoundingClientRect();
    return (e.clientX - box.left) / box.width;
  };
  const inside = (e: MouseEvent): [number, number] => {
    const box = tracks.getBoundingClientRect();
    return [e.clientX - box.left, e.clientY - box.top];
  };

  scroller.addEventListener(
    "wheel",
    (e) => {
      if (e.ctrlKey || e.metaKey) {
        e.preventDefault();
        engine.zoomBy(Math.exp(Math.max(-100, Math.min(100, e.deltaY)) * 0.004), Math.min(1, Math.max(0, share(e, tracks))));
      } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        e.preventDefault();
        engine.panBy((e.deltaX || e.deltaY) / tracks.clientWidth);
      }
    },
    { passive: false, signal },
  );

  let drag: { x: number; y: number; view: [number, number]; moving: boolean; began: boolean } | null = null;
  tracks.addEventListener(
    "pointerdown",
    (e) => {
      if (e.button > 1) return;
      const [x, y] = inside(e);
      drag = { x, y, view: [engine.from, engine.to], moving: e.shiftKey || e.button === 1, began: false };
      tracks.setPointerCapture(e.pointerId);
    },
    { signal },
  );
  tracks.addEventListener(
    "pointermove",
    (e) => {
      const [x, y] = inside(e);
      engine.anchor = Math.min(1, Math.max(0, x / tracks.clientWidth));
      if (!drag) {
        actions.hover(engine.at(x, y), e.clientX, e.clientY);
        return;
      }
      if (!drag.began && Math.hypot(x - drag.x, y - drag.y) < 4) return;
      drag.began = true;
      if (drag.moving) {
        const per = (drag.view[1] - drag.view[0]) / tracks.clientWidth;
        engine.setView(drag.view[0] - (x - drag.x) * per, drag.view[1] - (x - drag.x) * per);
        return;
      }
      actions.select(box(drag.x, drag.y, x, y), false);
    },
    { signal },
  );
  const box = (x1: number, y1: number, x2: number, y2: number): Area | null => {
    const a = engine.rowAt(Math.min(y1, y2));
    const b = engine.rowAt(Math.max(y1, y2));
    if (!a || !b) return null;
    const { rows } = engine.layout;
    // The heading of an open rank is not the rank.
    const touched = rows.slice(rows.indexOf(a), rows.indexOf(b) + 1).filter((r) => r.kind === "track" || r.closed);
    const places = touched.flatMap((r) => r.all).map((t) => order(t.id));
    if (!places.length) return null;
    return { from: engine.timeAt(Math.min(x1, x2)), to: engine.timeAt(Math.max(x1, x2)), first: Math.min(...places), last: Math.max(...places) };
  };
  tracks.addEventListener(
    "pointerup",
    (e) => {
      if (!drag) return;
      const [x, y] = inside(e);
      const was = drag;
      drag = null;
      if (was.began) {
        if (!was.moving) actions.select(box(was.x, was.y, x, y), true);
        return;
      }
      const under = engine.at(x, y);
      if (under?.kind === "slice") actions.pick(under.picked);
      else if (under?.kind === "result") engine.show(under.start, Math.max(under.length, 1000), null);
      else if (under?.kind === "bucket") engine.moveTo(under.from - (under.to - under.from) * 40, under.to + (under.to - under.from) * 40);
      else {
        const row = engine.rowAt(y);
        if (row && (row.kind === "group" || row.kind === "node") && (!under || under.kind === "gap")) actions.toggle(row.key);
      }
    },
    { signal },
  );
  tracks.addEventListener("pointerleave", () => actions.hover(null, 0, 0), { signal });

  // The ruler moves time, the minimap goes anywhere.
  let rulerDrag: { at: number; view: [number, number] } | null = null;
  ruler.addEventListener("pointerdown", (e) => ((rulerDrag = { at: share(e, ruler), view: [engine.from, engine.to] }), ruler.setPointerCapture(e.pointerId)), { signal });
  ruler.addEventListener(
    "pointermove",
    (e) => {
      if (!rulerDrag) return;
      const by = (rulerDrag.at - share(e, ruler)) * (rulerDrag.view[1] - rulerDrag.view[0]);
      engine.setView(rulerDrag.view[0] + by, rulerDrag.view[1] + by);
    },
    { signal },
  );
  ruler.addEventListener("pointerup", () => (rulerDrag = null), { signal });
  const jump = (e: PointerEvent) => {
    const t = share(e, minimap) * engine.duration;
    const half = (engine.to - engine.from) / 2;
    engine.setView(t - half, t + half);
  };
  minimap.addEventListener("pointerdown", (e) => (minimap.setPointerCapture(e.pointerId), jump(e)), { signal });
  minimap.addEventListener("pointermove", (e) => minimap.hasPointerCapture(e.pointerId) && jump(e), { signal });

  const held = new Set<string>();
  const speed = () => {
    engine.pan = ((held.has("d") ? 1 : 0) - (held.has("a") ? 1 : 0)) * 0.9;
    engine.zoom = ((held.has("s") ? 1 : 0) - (held.has("w") ? 1 : 0)) * 2.8;
    engine.redraw();
  };
  addEventListener(
    "keydown",
    (e) => {
      const target = e.target as HTMLElement;
      if (e.ctrlKey || e.metaKey || e.altKey || target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName) || target.closest("dialog")) return;
      const key = e.key.toLowerCase();
      if ("wasd".includes(key) && key.length === 1) {
        if (!held.has(key)) {
          held.add(key);
          // A short press moves by a fixed part, so that a tap always does the same.
          if (key === "w" || key === "s") engine.zoomBy(key === "w" ? 0.8 : 1.25, engine.anchor);
          else engine.panBy(key === "d" ? 0.08 : -0.08);
        }
        speed();
      } else if (key === "f") {
        if (engine.picked) engine.show(engine.picked.start, engine.picked.length, engine.picked.track);
        else if (engine.area) engine.moveTo(engine.area.from, engine.area.to);
      } else if (key === "0") engine.moveTo(0, engine.duration);
      else if (key === "/") actions.search();
      else if (key === "m") actions.mark(engine.timeAt(engine.anchor * tracks.clientWidth));
      else if (key === "escape") (actions.pick(null), actions.select(null, true));
      else if (key === "c" && engine.picked) {
        const row = engine.layout.where.get(engine.picked.track)?.row;
        if (row) actions.toggle((row.kind === "track" && !canFold(row) ? row.parent! : row).key);
      } else if (key.startsWith("arrow") && (target === scroller || target === document.body || target.id === "main")) {
        const next = !engine.picked ? engine.anyEvent() : key === "arrowleft" ? engine.neighbour(-1) : key === "arrowright" ? engine.neighbour(1) : key === "arrowup" ? engine.across(-1) : engine.across(1);
        if (!next && !engine.picked) return;
        if (next) {
          actions.pick(next);
          engine.reveal(next.track, next.depth);
          if (next.start < engine.from || next.start + next.length > engine.to) {
            const half = (engine.to - engine.from) / 2;
            engine.moveTo(next.start + next.length / 2 - half, next.start + next.length / 2 + half);
          }
        }
      } else return;
      e.preventDefault();
    },
    { signal },
  );
  addEventListener("keyup", (e) => (held.delete(e.key.toLowerCase()), speed()), { signal });
  addEventListener("blur", () => (held.clear(), speed()), { signal });
  return () => control.abort();
}
