// The ranks of the running job: which step each is in, for how long, and how fast it trains.

import { count, none, percent, plural, seconds, short } from "../format";
import type { Live } from "../live";
import { link } from "../route";
import type { RankMetrics } from "../types";
import { Chip, Panel, Table } from "../ui";

const most = 16;
/** s: reports of nodes are of different moments, so whoever has just begun a step is not behind. */
const late = 3;

/** `inside`: of a job that hangs, whether a rank has come to the operation that does not end. */
export function TrainingNow({ state, inside }: { state: Live; inside?: ReadonlyMap<number, boolean> }) {
  const ranks = state.latest?.ranks ?? [];
  if (!ranks.length) return null;
  const steps = ranks.flatMap((r) => (r.step === null ? [] : [r.step]));
  const first = steps.length ? Math.max(...steps) : null;
  // Whoever is behind, or has been in its step for longest, comes first.
  const missing = (r: RankMetrics) => Number(r.rank === null || inside?.get(r.rank) !== false);
  const sorted = [...ranks].sort((a, b) => missing(a) - missing(b) || (a.step ?? -1) - (b.step ?? -1) || (b.step_age_s ?? 0) - (a.step_age_s ?? 0));
  const any = (of: (r: RankMetrics) => number | null) => ranks.some((r) => of(r) !== null);
  const rate = (title: string, of: (r: RankMetrics) => number | null, show: (v: number) => string) =>
    any(of) ? [{ title, number: true, cell: (r: RankMetrics) => (of(r) === null ? none : show(of(r)!)) }] : [];
  return (
    <Panel title={inside ? "Where each rank is" : "Training now"} aside={<>{plural(ranks.length, "rank")}{first !== null && `, step ${count(first)}`} {!inside && <a href={link("hang")}>who waits for whom</a>}</>}>
      <Table<RankMetrics>
        label="Training now"
        rows={sorted.slice(0, most)}
        id={(r) => `${r.node} ${r.pid}`}
        columns={[
          { title: "rank", cell: (r) => (r.rank === null ? none : `rank ${r.rank}${r.role ? ` (${r.role})` : ""}`) },
          { title: "node", cell: (r) => r.node },
          { title: "step", number: true, cell: (r) => (r.step === null ? none : count(r.step)) },
          { title: "in it for", number: true, cell: (r) => seconds(r.step_age_s) },
          { title: "", cell: (r) => (first !== null && r.step !== null && first - r.step > 1 && (r.step_age_s ?? 0) > late ? <Chip kind="warn">{plural(first - r.step, "step")} behind</Chip> : null) },
          ...(inside ? [{ title: "", cell: (r: RankMetrics) => (r.rank === null || !inside.has(r.rank) ? null : inside.get(r.rank) ? "waits" : <Chip kind="bad">missing</Chip>) }] : []),
          ...rate("MFU", (r) => r.mfu_percent, (v) => percent(v / 100, 1)),
          ...rate("samples/s", (r) => r.samples_per_s, short),
          ...rate("tokens/s", (r) => r.tokens_per_s, short),
        ]}
      />
      {ranks.length > most && <p class="fine pad">The {most} of {count(ranks.length)} ranks that are farthest behind.</p>}
    </Panel>
  );
}
