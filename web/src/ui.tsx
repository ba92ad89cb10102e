// The few parts all views are made of.

import { Component, type ComponentChildren, type JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiError, Running } from "./api";
import { percent } from "./format";
import { emit, on } from "./store";

export function Chip(props: { kind?: "good" | "warn" | "bad" | "note" | "plain"; title?: string; children: ComponentChildren }) {
  return (
    <span class={`chip ${props.kind ?? "plain"}`} title={props.title}>
      {props.children}
    </span>
  );
}

export function Panel(props: { title: ComponentChildren; aside?: ComponentChildren; class?: string; children: ComponentChildren }) {
  const id = useId();
  return (
    <section class={`panel ${props.class ?? ""}`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{props.title}</h2>
        <div class="aside">{props.aside}</div>
      </header>
      {props.children}
    </section>
  );
}

/** Copies a text; pages that did not come over TLS or from this machine have only the old way. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** A command to type, with a button that copies it. */
export function Command(props: { children: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await copyText(props.children);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      // No clipboard here: the text can be marked by hand.
    }
  };
  return (
    <div class="command">
      <code>{props.children}</code>
      <button type="button" class="quiet" onClick={copy} aria-label={`Copy: ${props.children}`}>
        {copied ? "copied" : "copy"}
      </button>
    </div>
  );
}

/** Nothing to show, and what to do about it. */
export function Empty(props: { title: string; children?: ComponentChildren; command?: string }) {
  return (
    <div class="state" role="status">
      <p class="state-title">{props.title}</p>
      {props.children && <p>{props.children}</p>}
      {props.command && <Command>{props.command}</Command>}
    </div>
  );
}

export function Failed(props: { error: Error; what: string; retry?: () => void }) {
  const offline = props.error instanceof ApiError && props.error.offline;
  return (
    <div class="state" role="alert">
      <p class="state-title">{offline ? "The server does not answer" : `${props.what} could not be shown`}</p>
      <p>{offline ? "The page reconnects automatically. If the server was stopped, start it again:" : props.error.message}</p>
      {offline && <Command>{startCommand()}</Command>}
      {props.retry && (
        <button type="button" onClick={props.retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** A fault of ours in one view leaves the rest of the page alive. */
export class Fence extends Component<{ children: ComponentChildren }, { error: Error | null }> {
  state = { error: null as Error | null };
  componentDidCatch(error: Error): void {
    console.error(error);
    this.setState({ error });
  }
  render() {
    if (!this.state.error) return this.props.children;
    return (
      <div class="state" role="alert">
        <p class="state-title">This view failed because of an error in the page</p>
        <p>{this.state.error.message}</p>
        <button type="button" onClick={() => this.setState({ error: null })}>
          Show it again
        </button>
      </div>
    );
  }
}

/** The command that serves this page's address. */
export function startCommand(): string {
  const port = location.port || "8091";
  return document.documentElement.dataset.mode === "file"
    ? `tracesmith view FILE.sbt --web --port ${port}`
    : `tracesmith cluster master --http-port ${port}`;
}

export function Loading(props: { what: string; progress?: number | null }) {
  return (
    <div class="state loading" role="status">
      <p>
        {props.what}
        {props.progress != null && `: ${percent(props.progress)}`} …
      </p>
    </div>
  );
}

export interface Loaded<T> {
  data: T | null;
  error: Error | null;
  loading: boolean;
  /** How far the server is with a long answer. */
  progress: number | null;
  reload: () => void;
}

/** Asks when `key` changes, keeps the last answer while the next is on its way; null asks nothing. */
export function useLoad<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>, everyMs = 0): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; error: Error | null }>({ key: null, data: null, error: null });
  const [loading, setLoading] = useState(false);
  const [progress, setProgress] = useState<number | null>(null);
  const [turn, setTurn] = useState(0);
  const asked = useRef(ask);
  asked.current = ask;
  useEffect(() => on("retry", () => setTurn((n) => n + 1)), []);
  useEffect(() => {
    if (key === null) return;
    const control = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async () => {
      setLoading(true);
      try {
        const data = await asked.current(control.signal);
        if (control.signal.aborted) return;
        setProgress(null);
        setState({ key, data, error: null });
        if (everyMs) timer = setTimeout(run, everyMs);
      } catch (error) {
        if (control.signal.aborted) return;
        if (error instanceof Running) {
          setProgress(error.progress);
          timer = setTimeout(run, 400);
          return;
        }
        setState((old) => ({ key, data: old.key === key ? old.data : null, error: error as Error }));
        // A server that is away is asked again; what it refuses is not.
        if (error instanceof ApiError && (error.status === 401 || error.status === 403)) return setLoading(false);
        if (everyMs || (error instanceof ApiError && (error.offline || error.status === 503))) timer = setTimeout(run, Math.max(everyMs, 2000));
      }
      setLoading(false);
    };
    void run();
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [key, turn, everyMs]);
  const current = state.key === key;
  return { data: state.data, error: current ? state.error : null, loading, progress, reload: () => setTurn((n) => n + 1) };
}

export function Select<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (T | { value: T; text: string })[];
  onChange: (value: T) => void;
  hideLabel?: boolean;
}) {
  return (
    <label class="field">
      <span class={props.hideLabel ? "hidden" : ""}>{props.label}</span>
      <select value={props.value} aria-label={props.label} onChange={(e) => props.onChange(e.currentTarget.value as T)}>
        {props.options.map((o) => {
          const option = typeof o === "string" ? { value: o, text: o } : o;
          return (
            <option key={option.value} value={option.value} selected={option.value === props.value}>
              {option.text}
            </option>
          );
        })}
      </select>
    </label>
  );
}

/** One of a few: buttons side by side. */
export function Switch<T extends string>(props: { label: string; value: T; options: readonly { value: T; text: string }[]; onChange: (v: T) => void }) {
  return (
    <div class="switch" role="group" aria-label={props.label}>
      {props.options.map((o) => (
        <button type="button" key={o.value} aria-pressed={o.value === props.value} onClick={() => props.onChange(o.value)}>
          {o.text}
        </button>
      ))}
    </div>
  );
}

export function Dialog(props: { title: string; onClose?: () => void; children: ComponentChildren; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current!;
    if (!dialog.open) dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog
      ref={ref}
      class={props.wide ? "wide" : ""}
      aria-labelledby={id}
      onCancel={(e) => {
        e.preventDefault();
        props.onClose?.();
      }}
      onClick={(e) => e.target === ref.current && props.onClose?.()}
    >
      <div class="dialog-body">
        <header>
          <h2 id={id}>{props.title}</h2>
          {props.onClose && (
            <button type="button" class="quiet" onClick={props.onClose} aria-label="Close">
              ✕
            </button>
          )}
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

export interface Column<Row> {
  title: string;
  /** Text or a small element. */
  cell: (row: Row) => ComponentChildren;
  number?: boolean;
  hint?: string;
  wide?: boolean;
}

export function Table<Row>(props: {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  id: (row: Row) => string | number;
  chosen?: string | number | null;
  onChoose?: (row: Row) => void;
}) {
  return (
    <div class="table" role="region" aria-label={props.label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {props.columns.map((c) => (
              <th key={c.title} class={c.number ? "number" : ""} scope="col" title={c.hint}>
                {c.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => {
            const id = props.id(row);
            const choose = props.onChoose;
            const more: JSX.HTMLAttributes<HTMLTableRowElement> = choose
              ? {
                  tabIndex: 0,
                  onClick: () => choose(row),
                  onKeyDown: (e) => {
                    if (e.key === "Enter" && e.target === e.currentTarget) choose(row);
                  },
                  "aria-selected": props.chosen === id,
                }
              : {};
            return (
              <tr key={id} class={choose ? "pick" : ""} {...more}>
                {props.columns.map((c) => (
                  <td key={c.title} class={`${c.number ? "number" : ""} ${c.wide ? "wide" : ""}`}>
                    {c.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** The size of an element, followed. */
export function useSize<E extends HTMLElement>(): [preact.RefObject<E>, { width: number; height: number }] {
  const ref = useRef<E>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      const width = element.clientWidth;
      const height = element.clientHeight;
      setSize((old) => (old.width === width && old.height === height ? old : { width, height }));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, size];
}

export const retryAll = (): void => emit("retry");
