// Just enough of SQL's text to colour it and to know what can come next.

import type { Schema } from "../types";

const keywords = new Set(
  (
    "select from where group by order having limit offset join left right inner outer full cross on using as and or not in is null like ilike between case when then else end " +
    "union all distinct with over partition desc asc cast describe show tables explain sample values interval filter qualify exists true false asof lateral unnest pivot"
  ).split(" "),
);
const functions = (
  "count sum avg min max median quantile_cont stddev arg_max arg_min any_value list string_agg round floor ceil abs coalesce date_trunc time_bucket to_timestamp epoch_ns " +
  "row_number lag lead first last regexp_matches regexp_extract contains starts_with length lower upper histogram approx_count_distinct busbw_gbps algbw_gbps is_communication"
).split(" ");

export type Token = { text: string; kind: "keyword" | "string" | "number" | "comment" | "name" | "other" };

export function tokens(sql: string): Token[] {
  const result: Token[] = [];
  const pattern = /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*'?)|(\b\d[\d_.]*(?:e[+-]?\d+)?\b)|([A-Za-z_]\w*)|(\s+|.)/gi;
  for (const m of sql.matchAll(pattern)) {
    const [text, comment, string, number, word] = m;
    const kind = comment ? "comment" : string ? "string" : number ? "number" : word ? (keywords.has(word.toLowerCase()) ? "keyword" : "name") : "other";
    result.push({ text, kind });
  }
  return result;
}

export interface Suggestion {
  text: string;
  kind: string;
  doc: string;
}

/** What could stand at the cursor, best first. Columns come from the tables the text names; after "alias." only its own. */
export function suggest(sql: string, cursor: number, schema: Schema | null): { from: number; list: Suggestion[] } {
  const before = sql.slice(0, cursor);
  const word = /[A-Za-z_]\w*$/.exec(before)?.[0] ?? "";
  const from = cursor - word.length;
  const rest = before.slice(0, from);
  const quotes = rest.replace(/''/g, "").split("'").length - 1;
  if (quotes % 2 || /--[^\n]*$/.test(rest)) return { from, list: [] };
  const tables = schema?.tables ?? [];
  const named = new Map<string, (typeof tables)[number]>();
  for (const m of sql.matchAll(/\b(?:from|join)\s+([A-Za-z_]\w*)(?:\s+(?:as\s+)?([A-Za-z_]\w*))?/gi)) {
    const table = tables.find((t) => t.name === m[1].toLowerCase());
    if (!table) continue;
    named.set(table.name, table);
    if (m[2] && !keywords.has(m[2].toLowerCase())) named.set(m[2], table);
  }
  const dot = /([A-Za-z_]\w*)\.$/.exec(rest)?.[1];
  const columns = (list: typeof tables): Suggestion[] => list.flatMap((t) => t.columns.map((c) => ({ text: c.name, kind: `${t.name} · ${c.type.toLowerCase()}`, doc: c.doc })));
  let all: Suggestion[];
  if (dot) all = columns([named.get(dot) ?? tables.find((t) => t.name === dot)].filter((t) => !!t));
  else {
    const tableList = tables.map((t) => ({ text: t.name, kind: "table", doc: t.columns.map((c) => c.name).slice(0, 8).join(", ") }));
    const columnList = columns(named.size ? [...new Set(named.values())] : tables);
    const words = [...keywords].map((k) => ({ text: k.toUpperCase(), kind: "keyword", doc: "" }));
    const calls = functions.map((f) => ({ text: `${f}(`, kind: "function", doc: "" }));
    all = /\b(from|join|describe|into)\s+$/i.test(rest) ? tableList : [...columnList, ...calls, ...tableList, ...words];
  }
  const low = word.toLowerCase();
  const seen = new Set<string>();
  const fits = all.filter((s) => {
    const ok = s.text.toLowerCase().startsWith(low) && s.text.toLowerCase() !== low && !seen.has(s.text);
    if (ok) seen.add(s.text);
    return ok;
  });
  return { from, list: fits.slice(0, 60) };
}
