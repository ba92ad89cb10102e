// Jobs that are balanced: the speed of every rank, what the plans changed, and whether it paid.

import { useMemo, useState } from "preact/hooks";
import { get, post } from "../api";
import { lines as palette } from "../color";
import { clockTime, count, duration, none, percent, plural, seconds, short } from "../format";
import { live } from "../live";
import { Plot } from "../plot";
import { setParams, useRoute } from "../route";
import { useStore } from "../store";
import type { BalancedJob, BalanceStatus } from "../types";
import { Chip, Empty, Failed, Loading, Panel, Select, Table, useLoad } from "../ui";

const makers: Record<BalancedJob["terms"]["coordination"], string> = { rank: "its rank 0 makes the plans", master: "the master makes the plans", workers: "workers report over HTTP" };

export function Balance() {
  const { params } = useRoute();
  const load = useLoad("plans", (signal) => get<BalanceStatus>("/api/v1/plans", signal), 2000);
  const jobs = load.data?.jobs;
  if (!jobs) return load.error ? <Failed what="The balanced jobs" error={load.error} retry={load.reload} /> : <Loading what="Asking which jobs are balanced" />;
  if (!jobs.length)
    return (
      <Empty title="No job is being balanced" command="sampler = tracesmith.balance.BatchSampler(dataset, total=256)">
        A balanced job gives every rank as many samples as it can train while the others train theirs. Use this sampler in the DataLoader, and wrap the model with{" "}
        <code>tracesmith.balance.weighted(model, sampler)</code>:
      </Empty>
    );
  const job = jobs.find((j) => j.terms.job === params.get("job")) ?? jobs[0];
  return (
    <div class="balance">
      {jobs.length > 1 && (
        <div class="tools">
          <Select label="Job" value={job.terms.job} options={jobs.map((j) => ({ value: j.terms.job, text: `${j.terms.job}, ${plural(j.terms.ranks, "rank")}` }))} onChange={(id) => setParams({ job: id })} />
        </div>
      )}
      <Summary job={job} old={!!load.error} reload={load.reload} />
      <div class="two even">
        <Ranks job={job} />
        <Throughput job={job} />
      </div>
      <div class="two even">
        <Log job={job} />
        <Gains job={job} />
      </div>
    </div>
  );
}

/** Part of a step's time that a plan was to save. */
const predicted = (plan: BalancedJob["plan"]): number | null => (plan.before_s === null || plan.after_s === null ? null : 1 - plan.after_s / plan.before_s);

function Summary({ job, old, reload }: { job: BalancedJob; old: boolean; reload: () => void }) {
  const { terms, plan, next, outcomes } = job;
  const real = outcomes.find((o) => o.version === plan.version)?.real_gain ?? null;
  const gain = predicted(plan);
  const kind = old || job.problem ? "warn" : real !== null && real < 0 ? "bad" : "good";
  return (
    <div class={`verdict ${kind} ${old ? "old" : ""}`} role="status">
      <p>
        <b>{plan.version === 0 || plan.from_step === 0 ? "The job trains the batches that it began with." : `Plan ${plan.version} is in force from step ${plan.from_step}.`}</b>{" "}
        {real !== null ? `Steps are ${percent(Math.abs(real))} ${real < 0 ? "longer" : "shorter"}; predicted were ${percent(gain)}.` : gain !== null ? `Steps are predicted to be ${percent(gain)} shorter.` : ""}
      </p>
      {plan.reason && <p class="verdict-next">{plan.reason}</p>}
      {next && (
        <p class="verdict-next">
          <b>Plan {next.version} is on its way</b>
          {next.from_step === null ? ", until all ranks have it: " : ` for step ${next.from_step}: `}
          {next.reason}
        </p>
      )}
      {job.problem && <p class="verdict-next">No new plan: {job.problem}</p>}
      <div class="verdict-facts">
        <Chip>job {terms.job}</Chip>
        <Chip>{plural(terms.ranks, "rank")}</Chip>
        <Chip>{plural(terms.total, "sample")} a step</Chip>
        {job.step !== null && <Chip>step {job.step}</Chip>}
        <Chip>{makers[terms.coordination]}</Chip>
        {terms.dry_run && <Chip kind="note">dry run: plans are only told</Chip>}
        {job.silent_s > 30 && <Chip kind="warn">silent for {seconds(job.silent_s)}</Chip>}
        {old && <Chip kind="warn">outdated: the server does not answer</Chip>}
        <span class="fill" />
        <Actions job={job} reload={reload} />
      </div>
    </div>
  );
}

function Actions({ job, reload }: { job: BalancedJob; reload: () => void }) {
  const { info } = useStore(live);
  const [error, setError] = useState("");
  if (job.terms.coordination === "rank" || info?.role === "viewer") return null;
  const ask = async (what: string, body: object) => {
    setError("");
    try {
      await post(`/api/v1/plans/${encodeURIComponent(job.terms.job)}/${what}`, body);
      reload();
    } catch (problem) {
      setError((problem as Error).message);
    }
  };
  const dry = job.terms.dry_run;
  return (
    <>
      {error && (
        <span class="bad-text" role="alert">
          {error}
        </span>
      )}
      <button type="button" onClick={() => void ask("dry_run", { mode: dry ? "off" : "on" })}>
        {dry ? "Follow plans" : "Dry run"}
      </button>
      <button type="button" disabled={!job.before || dry || !!job.next} onClick={() => void ask("undo", {})}>
        Undo the plan
      </button>
    </>
  );
}

function Ranks({ job }: { job: BalancedJob }) {
  const batch = (plan: BalancedJob["before"], rank: number) => plan?.ranks[rank]?.batch ?? null;
  const most = Math.max(1, ...[job.plan, job.before, job.next].flatMap((p) => p?.ranks.map((r) => r.batch) ?? []));
  const fastest = Math.max(0, ...job.ranks.map((r) => r.samples_per_s ?? 0));
  const bar = (value: number | null, of: number, kind = "", text: (n: number) => string = count) =>
    value === null ? (
      none
    ) : (
      <span class={`bar-cell ${kind}`}>
        <i style={{ width: `${(100 * value) / (of || 1)}%` }} />
        <span>{text(value)}</span>
      </span>
    );
  return (
    <Panel title="Ranks" aside="speed of a rank's own work, without waiting">
      <Table
        label="Ranks"
        rows={job.ranks}
        id={(r) => r.rank}
        columns={[
          { title: "rank", number: true, cell: (r) => r.rank },
          { title: "node", cell: (r) => r.node ?? none },
          { title: "samples/s", cell: (r) => bar(r.samples_per_s, fastest, "", short) },
          { title: "busy", number: true, hint: "What a step takes it with its batch now", cell: (r) => (r.busy_s === null ? none : duration(r.busy_s * 1e9)) },
          { title: "batch before", cell: (r) => bar(batch(job.before, r.rank), most) },
          { title: "batch now", cell: (r) => bar(batch(job.plan, r.rank), most, "now") },
          ...(job.next ? [{ title: "next", number: true, cell: (r: BalancedJob["ranks"][0]) => batch(job.next, r.rank) ?? none }] : []),
        ]}
      />
    </Panel>
  );
}

function Throughput({ job }: { job: BalancedJob }) {
  const x = useMemo(() => job.rates.map((r) => r.step), [job]);
  // A line for each plan, so that it can be seen where one begins.
  const lines = useMemo(
    () =>
      [...new Set(job.rates.map((r) => r.version))].map((version, i) => ({
        label: version === 0 ? "no plan" : `plan ${version}`,
        color: palette[i % palette.length],
        values: job.rates.map((r, at) => (r.version === version || job.rates[at - 1]?.version === version ? r.samples_per_s : null)),
        width: 1.75,
      })),
    [job],
  );
  return (
    <Panel title="Throughput" aside="samples per second of all ranks, by step" class="chart-panel">
      {x.length < 2 ? (
        <Empty title="No step was measured yet" />
      ) : (
        <Plot label="Throughput over steps" x={x} lines={lines} unit="" height={17} xTitle="step" fromZero />
      )}
    </Panel>
  );
}

function Gains({ job }: { job: BalancedJob }) {
  const gain = (value: number) => (
    <span class={`bar-cell ${value < 0 ? "" : "now"}`}>
      <i class={value < 0 ? "bad" : ""} style={{ width: `${Math.min(100, Math.abs(value) * 100)}%` }} />
      <span>{percent(value, 1)}</span>
    </span>
  );
  return (
    <Panel title="Predicted and real gain" aside="part of a step's time that a plan saves">
      {job.outcomes.length ? (
        <Table
          label="Predicted and real gain"
          rows={[...job.outcomes].reverse()}
          id={(o) => o.version}
          columns={[
            { title: "plan", number: true, cell: (o) => o.version },
            { title: "predicted", cell: (o) => gain(o.predicted_gain) },
            { title: "real", cell: (o) => gain(o.real_gain) },
          ]}
        />
      ) : (
        <Empty title="No plan was measured yet">A few steps after a plan begins, its real gain is here.</Empty>
      )}
    </Panel>
  );
}

function Log({ job }: { job: BalancedJob }) {
  return (
    <Panel title="What happened">
      {job.notes.length ? (
        <ul class="alert-list plan-log">
          {[...job.notes].reverse().map((n, i) => (
            <li key={`${n.t} ${i}`}>
              <time>{clockTime(n.t)}</time>
              <span>{n.text}</span>
            </li>
          ))}
        </ul>
      ) : (
        <Empty title="Nothing yet">Plans and their reasons appear here.</Empty>
      )}
    </Panel>
  );
}
