-- Why did it get slower since yesterday?
-- Takes two traces, the older one first: $before and $after stand for them. `tracesmith diff` also says which changes are more than chance.

-- What changed most
-- Per step and rank. Waiting is left to the ranks: an operation counts with its shortest duration among them.
WITH step_ms AS (SELECT trace, median(dur) / 1e6 AS ms FROM steps WHERE dur > 0 GROUP BY trace),
n AS (SELECT trace, count(DISTINCT (rank, step)) AS n FROM steps GROUP BY trace),
kernels AS (SELECT trace, rank, sum(dur) / 1e6 AS ms FROM events WHERE type = 'kernel' AND NOT is_communication(name) GROUP BY trace, rank),
per_rank AS (SELECT trace, rank, ms / (SELECT count(DISTINCT step) FROM steps AS s WHERE s.trace = kernels.trace) AS ms FROM kernels),
compute AS (
  SELECT b.rank, a.ms AS before, b.ms AS after, b.ms - a.ms AS more
  FROM per_rank AS a JOIN per_rank AS b ON a.rank IS NOT DISTINCT FROM b.rank AND a.trace = $before AND b.trace = $after),
moves AS (
  SELECT trace, sum(took) / 1e6 / any_value(steps) AS ms FROM (
    SELECT c.trace, comm, op, seq, min(dur) AS took FROM collectives AS c WHERE dur > 0 GROUP BY c.trace, comm, op, seq)
    JOIN (SELECT trace, count(DISTINCT step) AS steps FROM steps GROUP BY trace) USING (trace) GROUP BY trace),
change AS (
  SELECT (SELECT ms FROM step_ms WHERE trace = $before) AS step_before,
         (SELECT ms FROM step_ms WHERE trace = $after) AS step_after,
         (SELECT arg_max(rank, more) FROM compute) AS rank, (SELECT max(more) FROM compute) AS rank_more,
         (SELECT median(more) FROM compute) AS all_more,
         coalesce((SELECT ms FROM moves WHERE trace = $after), 0) - coalesce((SELECT ms FROM moves WHERE trace = $before), 0) AS moves_more)
SELECT CASE WHEN step_before IS NULL OR step_after IS NULL THEN 'Cannot tell: steps are not marked in both traces. `tracesmith diff` finds them by operations that repeat'
  ELSE 'Steps take ' || round(step_after, 3) || ' ms instead of ' || round(step_before, 3) || ' ms (' || printf('%+.1f', 100 * (step_after / step_before - 1)) || ' %). ' ||
  CASE
    WHEN step_after < 1.02 * step_before THEN 'The job has not become slower'
    WHEN rank_more - all_more > greatest(all_more, moves_more) THEN 'Most of it is rank ' || rank || ', which computes ' || round(rank_more, 3) || ' ms longer in a step; the usual rank ' || round(all_more, 3) || ' ms'
    WHEN all_more > moves_more THEN 'All ranks compute ' || round(all_more, 3) || ' ms longer in a step'
    WHEN moves_more > 0 THEN 'Operations between ranks take ' || round(moves_more, 3) || ' ms longer in a step, though all ranks are there'
    ELSE 'Neither computation nor communication takes longer: see the playbooks idle-gpu and data-loader' END END AS finding
FROM change;

-- Kernels that take longer
-- Milliseconds per step and rank, the largest change first.
WITH n AS (SELECT trace, count(DISTINCT (rank, step)) AS n FROM steps GROUP BY trace),
k AS (
  SELECT e.trace, name, sum(dur) / 1e6 / any_value(n) AS ms, count(*) / any_value(n) AS calls
  FROM events AS e JOIN n USING (trace) WHERE type = 'kernel' GROUP BY e.trace, name)
SELECT name, round(a.ms, 4) AS before_ms, round(b.ms, 4) AS after_ms, round(a.calls, 2) AS calls_before, round(b.calls, 2) AS calls_after
FROM (SELECT * FROM k WHERE trace = $before) AS a FULL JOIN (SELECT * FROM k WHERE trace = $after) AS b USING (name)
ORDER BY coalesce(b.ms, 0) - coalesce(a.ms, 0) DESC LIMIT 15;

-- What else differs
-- Versions and settings that both traces tell differently.
SELECT key, string_agg(DISTINCT value, ', ') FILTER (WHERE trace = $before) AS before,
       string_agg(DISTINCT value, ', ') FILTER (WHERE trace = $after) AS after
FROM metadata WHERE length(value) < 200 GROUP BY key HAVING before IS DISTINCT FROM after ORDER BY key LIMIT 50;
