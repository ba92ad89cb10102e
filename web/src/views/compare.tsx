// Two traces side by side: what changed, on which ranks, how sure.

import { get, query, trace as tracePath } from "../api";
import { count, none, percent, us } from "../format";
import type { Diff, DiffName, DiffPart } from "../model";
import { shortName } from "../names";
import { link, setParams, useRoute } from "../route";
import { titleOf, useTrace } from "../traces";
import { Chip, Empty, Failed, Loading, Panel, Select, Table, useLoad } from "../ui";
import { sentence } from "./ranks";

const partTitles: Record<string, string> = {
  step: "step",
  compute: "computation",
  exposed_comm: "exposed communication",
  hidden_comm: "hidden communication",
  data: "copies and waits for data",
  idle: "idle",
};
const most = 40;

const change = (before: number, after: number): string => `${after >= before ? "+" : "−"}${us(Math.abs(after - before))}`;

export function Compare() {
  const { params } = useRoute();
  const { traces, instead } = useTrace();
  // Of sessions the newest is compared with the one before it; of files the second with the first.
  const [first, second] = traces[0]?.kind === "file" ? traces : [traces[1], traces[0]];
  const before = params.get("a") ?? first?.id ?? null;
  const after = params.get("b") ?? second?.id ?? null;
  const ready = traces.length > 1 && before && after && before !== after;
  const load = useLoad(ready ? `diff ${before} ${after}` : null, (signal) => get<Diff>(`${tracePath(before!)}/diff${query({ with: after })}`, signal));
  if (!traces.length) return instead;
  if (traces.length < 2)
    return (
      <Empty title="There is one trace: comparing needs two" command="tracesmith view before.sbt --web --with after.sbt">
        Record a second session, or open two files:
      </Empty>
    );
  const options = traces.map((t) => ({ value: t.id, text: titleOf(t, traces) }));
  const d = load.data;
  const sure = d?.parts.find((p) => p.what === "step" && p.rank === null)?.significant ?? false;
  const slower = d && d.before_step_us !== null && d.after_step_us !== null ? d.after_step_us / d.before_step_us - 1 : null;
  return (
    <div class="ranks compare">
      <div class="tools">
        <Select label="Before" value={before ?? ""} options={options} onChange={(a) => setParams({ a })} />
        <button type="button" onClick={() => setParams({ a: after, b: before })} title="Compare the other way round">
          ⇄
        </button>
        <Select label="After" value={after ?? ""} options={options} onChange={(b) => setParams({ b })} />
        <span class="fill" />
        <a href={link("timeline", { trace: before, with: after })}>Both in the timeline</a> <a href={link("timeline", { trace: before })}>Timeline before</a> <a href={link("timeline", { trace: after })}>Timeline after</a>
      </div>
      {!ready ? (
        <Empty title="Choose two different traces" />
      ) : load.error ? (
        <Failed what="The comparison" error={load.error} retry={load.reload} />
      ) : !d || load.loading ? (
        <Loading what="Comparing the traces" progress={load.progress} />
      ) : (
        <>
          <div class={`verdict ${slower === null || !sure ? "" : slower > 0.1 ? "bad" : slower > 0.02 ? "warn" : "good"}`} role="status">
            <p>
              {slower !== null && sure && Math.abs(slower) >= 0.001 && (
                <b class="verdict-cost">
                  {slower > 0 ? "+" : "−"}
                  {percent(Math.abs(slower), 1)}
                </b>
              )}
              {sentence(d.verdict)}
            </p>
            <div class="verdict-facts">
              {d.before_step_us !== null && d.after_step_us !== null && (
                <Chip>
                  step: {us(d.before_step_us)} → {us(d.after_step_us)}
                </Chip>
              )}
              {[...d.differs, ...d.unknowns].map((text) => (
                <span class="fine" key={text}>
                  {sentence(text)}
                </span>
              ))}
            </div>
          </div>
          {d.parts.length > 0 && (
            <Panel title="Parts of a step" aside="all ranks first, then the ranks that changed">
              <Table<DiffPart>
                label="Parts of a step"
                rows={d.parts.slice(0, most)}
                id={(p) => `${p.what} ${p.rank}`}
                columns={[
                  { title: "part", cell: (p) => partTitles[p.what] ?? p.what },
                  { title: "rank", cell: (p) => (p.rank === null ? "all" : <a href={link("timeline", { trace: after, rank: p.rank })}>rank {p.rank}</a>) },
                  { title: "before", number: true, cell: (p) => us(p.before_us) },
                  { title: "after", number: true, cell: (p) => us(p.after_us) },
                  { title: "change", number: true, cell: (p) => <span class={p.significant && p.after_us > p.before_us ? "lost" : ""}>{change(p.before_us, p.after_us)}</span> },
                  { title: "of the step", number: true, cell: (p) => percent(p.change_pct / 100, 1) },
                  { title: "sure", number: true, cell: (p) => (p.significant ? percent(p.confidence) : "could be chance") },
                ]}
              />
            </Panel>
          )}
          {d.names.length > 0 && (
            <Panel title="Kernels and operators" aside={d.per_step ? "per step and rank, largest change first" : "per rank, largest change first"}>
              <Table<DiffName>
                label="Kernels and operators"
                rows={d.names.slice(0, most)}
                id={(n) => `${n.name} ${n.device}`}
                columns={[
                  { title: "change", number: true, cell: (n) => change(n.before_us, n.after_us) },
                  { title: "before", number: true, cell: (n) => us(n.before_us) },
                  { title: "after", number: true, cell: (n) => us(n.after_us) },
                  { title: "calls", number: true, cell: (n) => (n.before_count === n.after_count ? count(n.after_count) : `${count(n.before_count)} → ${count(n.after_count)}`) },
                  { title: "on", cell: (n) => (n.device ? "GPU" : "host") },
                  {
                    title: "name",
                    wide: true,
                    cell: (n) => (
                      <a class="kernel-name" href={link("timeline", { trace: n.after_us ? after : before, q: n.name })} title={n.name}>
                        {shortName(n.name) || none}
                      </a>
                    ),
                  },
                ]}
              />
            </Panel>
          )}
        </>
      )}
    </div>
  );
}
