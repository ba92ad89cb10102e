// Names as they fit into small places.

const known = new Map<string, string>();

/** Without the list of parameters at the end: what stands before the "(" that the last ")" closes. */
function withoutParameters(text: string): string {
  if (!text.endsWith(")")) return text;
  let open = 0;
  for (let i = text.length - 1; i > 0; i--) {
    if (text[i] === ")") open++;
    else if (text[i] === "(" && --open === 0) return text.slice(0, i);
  }
  return text;
}

function shorten(name: string): string {
  // A Python frame: the function first, then its file.
  const frame = /^(.*?)([^/]*)\((\d+)\): (.+)$/.exec(name);
  if (frame) return `${frame[4]} · ${frame[2]}:${frame[3]}`;
  const builtin = /^<built-in (?:function|method) (\w+).*>$/.exec(name);
  if (builtin) return builtin[1];
  if (!/[<(]/.test(name) || !/[>)]$/.test(name)) return name;
  const plain = withoutParameters(name.replace(/\(anonymous namespace\)::|\{anonymous\}::/g, "").replace(/^void /, ""));
  return plain.replace(/\b(?:[A-Za-z_]\w*::)+(?=[A-Za-z_{])/g, "").replace(/\bstd::/g, "");
}

/** "void at::native::add_kernel<4, at::Functor<float>>(int, …)" → "add_kernel<4, Functor<float>>": what tells kernels apart. */
export function shortName(name: string): string {
  let text = known.get(name);
  if (text === undefined) {
    text = shorten(name);
    if (known.size > 50_000) known.clear();
    known.set(name, text);
  }
  return text;
}
