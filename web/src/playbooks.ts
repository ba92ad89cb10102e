// The playbooks that are installed: questions, and statements that answer them. `tracesmith playbook` reads the same
// files.

export interface Playbook {
  question: string;
  parts: { name: string; sql: string }[];
}

const files = import.meta.glob("./playbooks/*.sql", { query: "?raw", import: "default", eager: true }) as Record<string, string>;

/** Comments before a statement are its title and how to read it; the first ones are the question. */
function parse(text: string): Playbook {
  const [head, ...rest] = text.split(/\n\s*\n(?=--)/);
  return {
    question: head.split("\n")[0].replace(/^--\s*/, ""),
    parts: rest.map((part) => ({ name: part.split("\n")[0].replace(/^--\s*/, ""), sql: part.trim().replace(/;$/, "") })),
  };
}

/** Those about one trace. */
export const playbooks = Object.entries(files)
  .filter(([, text]) => !text.includes("$before"))
  .sort(([a], [b]) => (a < b ? -1 : 1))
  .map(([, text]) => parse(text));
