// The editor: a text area with its own colours behind it, and a list of completions.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Schema } from "../types";
import { suggest, tokens, type Suggestion } from "./sqltext";

export function SqlEditor(props: { value: string; onInput: (sql: string) => void; onRun: () => void; schema: Schema | null }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const back = useRef<HTMLPreElement>(null);
  const [open, setOpen] = useState<{ from: number; list: Suggestion[]; at: number; moved: boolean; x: number; y: number } | null>(null);
  const cursor = useRef<number | null>(null);

  useLayoutEffect(() => {
    if (cursor.current !== null && area.current) {
      area.current.selectionStart = area.current.selectionEnd = cursor.current;
      cursor.current = null;
    }
  });
  const scroll = () => {
    if (back.current && area.current) {
      back.current.scrollTop = area.current.scrollTop;
      back.current.scrollLeft = area.current.scrollLeft;
    }
  };
  useEffect(scroll, [props.value]);

  const offer = (always: boolean) => {
    const a = area.current!;
    const { from, list } = suggest(a.value, a.selectionStart, props.schema);
    if (!list.length || (!always && a.selectionStart === from && a.value[from - 1] !== ".")) return setOpen(null);
    // A fixed-width font: the place of the cursor is counted.
    const before = a.value.slice(0, from).split("\n");
    setOpen({ from, list, at: 0, moved: always, x: before[before.length - 1].length, y: before.length });
  };
  const take = (s: Suggestion) => {
    const a = area.current!;
    const text = a.value.slice(0, open!.from) + s.text + a.value.slice(a.selectionStart);
    cursor.current = open!.from + s.text.length;
    setOpen(null);
    props.onInput(text);
    a.focus();
  };
  const key = (e: KeyboardEvent) => {
    if ((e.ctrlKey || e.metaKey) && e.key === "Enter") {
      setOpen(null);
      props.onRun();
    } else if (e.ctrlKey && e.key === " ") offer(true);
    else if (open && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
      const by = e.key === "ArrowDown" ? 1 : -1;
      setOpen({ ...open, moved: true, at: (open.at + by + open.list.length) % open.list.length });
    } else if (open && (e.key === "Tab" || (e.key === "Enter" && open.moved))) take(open.list[open.at]);
    else if (open && e.key === "Escape") setOpen(null);
    else return;
    e.preventDefault();
  };
  return (
    <div class="sql-editor">
      <pre ref={back} aria-hidden="true">
        {tokens(props.value).map((t, i) => (t.kind === "other" || t.kind === "name" ? t.text : <span key={i} class={`t-${t.kind}`}>{t.text}</span>))}
        {"\n"}
      </pre>
      <textarea
        ref={area}
        class="code"
        aria-label="SQL editor. Control and Enter runs the query, Control and Space completes; Escape, then Tab leaves the editor"
        aria-autocomplete="list"
        aria-controls="completions"
        spellcheck={false}
        autocapitalize="off"
        autocomplete="off"
        value={props.value}
        onInput={(e) => {
          props.onInput(e.currentTarget.value);
          offer(false);
        }}
        onKeyDown={key}
        onScroll={scroll}
        onBlur={() => setTimeout(() => setOpen(null), 150)}
        onClick={() => setOpen(null)}
      />
      {open && (
        <ul
          id="completions"
          class="completions"
          role="listbox"
          aria-label="Completions"
          style={{ left: `min(calc(${open.x}ch * 0.95 + 0.8rem), calc(100% - 26rem))`, top: `calc(${open.y} * 1.45rem + 0.9rem - ${area.current?.scrollTop ?? 0}px)` }}
        >
          {open.list.map((s, i) => (
            <li
              key={s.text}
              role="option"
              aria-selected={i === open.at}
              ref={(li) => {
                if (i === open.at) li?.scrollIntoView({ block: "nearest" });
              }}
              onMouseDown={(e) => {
                e.preventDefault();
                take(s);
              }}
            >
              <code>{s.text}</code>
              <span class="fine" title={s.doc}>
                {s.kind}
                {s.doc ? ` · ${s.doc}` : ""}
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
