// Values that components follow, and the few events of the page.

import { useEffect, useRef, useState } from "preact/hooks";

export class Store<T> {
  private listeners = new Set<() => void>();
  constructor(private value: T) {}
  get(): T {
    return this.value;
  }
  set(value: T): void {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const f of [...this.listeners]) f();
  }
  patch(part: Partial<T>): void {
    this.set({ ...this.value, ...part });
  }
  follow(f: () => void): () => void {
    this.listeners.add(f);
    return () => this.listeners.delete(f);
  }
}

export function useStore<T>(store: Store<T>): T {
  const [, redraw] = useState(0);
  const seen = useRef(store.get());
  seen.current = store.get();
  useEffect(() => {
    const check = () => {
      if (!Object.is(seen.current, store.get())) redraw((n) => n + 1);
    };
    check();
    return store.follow(check);
  }, [store]);
  return store.get();
}

type EventName = "unauthenticated" | "retry";
const handlers = new Map<EventName, Set<(detail: string) => void>>();

export function on(name: EventName, f: (detail: string) => void): () => void {
  let set = handlers.get(name);
  if (!set) handlers.set(name, (set = new Set()));
  set.add(f);
  return () => set.delete(f);
}

export function emit(name: EventName, detail = ""): void {
  for (const f of [...(handlers.get(name) ?? [])]) f(detail);
}
