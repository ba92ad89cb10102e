-- Why is my job slow?
-- The finding names what costs most; the table below it says the same of each rank. `tracesmith analyze` goes further:
-- it follows the waiting back to its cause.

-- What costs most
-- Waiting is what a rank spends in a collective beyond the rank that came last to it.
WITH device AS (
  SELECT rank, ts, ts_end, is_communication(name) OR type <> 'kernel' AS moving,
         max(ts_end) OVER (PARTITION BY rank ORDER BY ts, ts_end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS so_far
  FROM events WHERE type IN ('kernel', 'memcpy', 'memset') AND dur IS NOT NULL),
compute AS (
  SELECT rank, ts, ts_end,
         max(ts_end) OVER (PARTITION BY rank ORDER BY ts, ts_end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS so_far
  FROM device WHERE NOT moving),
busy AS (
  SELECT rank, max(ts_end) - min(ts) AS span, sum(greatest(0, ts_end - greatest(ts, coalesce(so_far, ts)))) AS busy
  FROM device GROUP BY rank),
computing AS (
  SELECT rank, sum(greatest(0, ts_end - greatest(ts, coalesce(so_far, ts)))) AS computing FROM compute GROUP BY rank),
operations AS (
  SELECT rank, dur - min(dur) OVER (PARTITION BY comm, op, seq) AS wait FROM collectives
  WHERE dur IS NOT NULL AND seq IS NOT NULL AND op NOT IN ('send', 'recv')),
waiting AS (SELECT rank, sum(wait) AS wait FROM operations GROUP BY rank),
ranks AS (
  SELECT busy.rank, span, computing, coalesce(wait, 0) AS wait, busy - computing AS exposed, span - busy AS idle
  FROM busy JOIN computing ON computing.rank IS NOT DISTINCT FROM busy.rank LEFT JOIN waiting ON waiting.rank IS NOT DISTINCT FROM busy.rank),
total AS (
  SELECT round(100.0 * sum(least(wait, exposed)) / sum(span), 1) AS waits,
         round(100.0 * sum(exposed - least(wait, exposed)) / sum(span), 1) AS moves,
         round(100.0 * sum(idle) / sum(span), 1) AS idles, round(100.0 * sum(computing) / sum(span), 1) AS computes,
         arg_min(rank, wait) AS last_one
  FROM ranks)
SELECT CASE
    WHEN computes IS NULL THEN 'Cannot tell: no kernels were recorded'
    WHEN waits >= 5 AND waits >= greatest(moves, idles)
      THEN 'Ranks wait for others ' || waits || ' % of the time, mostly for ' || coalesce('rank ' || last_one, 'one whose rank is not known') || ': see the playbooks slow-gpu and data-loader'
    WHEN moves >= 10 AND moves >= idles
      THEN 'Communication and copies that no computation hides take ' || moves || ' % of the time: see the playbook network'
    WHEN idles >= 10
      THEN 'The GPUs have nothing to do ' || idles || ' % of the time: see the playbooks idle-gpu and data-loader'
    ELSE 'The GPUs compute ' || computes || ' % of the time: faster kernels make the job faster (see the playbook kernels)'
  END AS finding
FROM total;

-- Of each rank
-- In percent of the time from its first to its last operation on the GPU. Waiting is a part of what moves data without
-- computation beside it. A rank that waits much less than the others is the one that they wait for.
WITH device AS (
  SELECT node, rank, ts, ts_end, is_communication(name) OR type <> 'kernel' AS moving,
         max(ts_end) OVER (PARTITION BY rank ORDER BY ts, ts_end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS so_far
  FROM events WHERE type IN ('kernel', 'memcpy', 'memset') AND dur IS NOT NULL),
compute AS (
  SELECT rank, ts, ts_end,
         max(ts_end) OVER (PARTITION BY rank ORDER BY ts, ts_end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS so_far
  FROM device WHERE NOT moving),
busy AS (
  SELECT any_value(node) AS node, rank, max(ts_end) - min(ts) AS span,
         sum(greatest(0, ts_end - greatest(ts, coalesce(so_far, ts)))) AS busy
  FROM device GROUP BY rank),
computing AS (
  SELECT rank, sum(greatest(0, ts_end - greatest(ts, coalesce(so_far, ts)))) AS computing FROM compute GROUP BY rank),
operations AS (
  SELECT rank, dur - min(dur) OVER (PARTITION BY comm, op, seq) AS wait FROM collectives
  WHERE dur IS NOT NULL AND seq IS NOT NULL AND op NOT IN ('send', 'recv')),
waiting AS (SELECT rank, sum(wait) AS wait FROM operations GROUP BY rank)
SELECT node, busy.rank, round(100.0 * computing / span, 1) AS computes_pct, round(100.0 * (busy - computing) / span, 1) AS moves_pct,
       round(100.0 * least(wait, busy - computing) / span, 1) AS waits_pct, round(100.0 * (span - busy) / span, 1) AS idle_pct
FROM busy JOIN computing ON computing.rank IS NOT DISTINCT FROM busy.rank LEFT JOIN waiting ON waiting.rank IS NOT DISTINCT FROM busy.rank
ORDER BY waits_pct, busy.rank;
