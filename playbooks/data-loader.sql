-- Is the data loader late?
-- A step whose batch comes late begins with a GPU that has nothing to do, and often with a range of the program that
-- fetches the batch.

-- How long the GPU waits at the beginning of steps
-- From the beginning of a step until its first kernel begins on the GPU. A rank that is late by more than a tenth of a
-- step, and by much more than the usual rank, keeps the others waiting.
WITH first AS (
  SELECT rank, step, min(ts) AS kernel FROM events WHERE type = 'kernel' AND step IS NOT NULL GROUP BY rank, step),
late AS (
  SELECT s.node, s.rank, s.step, s.dur, greatest(0, kernel - s.ts) AS late
  FROM steps AS s JOIN first ON first.rank IS NOT DISTINCT FROM s.rank AND first.step = s.step WHERE s.dur > 0),
ranks AS (SELECT rank, median(late) AS late, median(dur) AS step FROM late GROUP BY rank),
usual AS (SELECT median(late) AS late FROM ranks),
worst AS (SELECT arg_max(rank, ranks.late) AS rank, max(ranks.late) AS late, arg_max(step, ranks.late) AS step, any_value(usual.late) AS usual FROM ranks, usual)
SELECT CASE
    WHEN late IS NULL THEN 'Cannot tell: no steps with kernels were recorded'
    WHEN late < 0.1 * step THEN 'The data loader is not late: GPUs begin at most ' || round(late / 1e6, 2) || ' ms after their step'
    WHEN late > 2 * usual THEN 'Rank ' || rank || ' gets its batches late: its GPU begins ' || round(late / 1e6, 2) || ' ms after the step, the usual one ' || round(usual / 1e6, 2) || ' ms'
    ELSE 'All ranks wait ' || round(usual / 1e6, 2) || ' ms for their batches, ' || round(100 * late / step) || ' % of a step: use more workers, or prefetch' END AS finding
FROM worst;

-- Ranges that fetch data
-- Of the program and of torch, by their names.
SELECT rank, name, count(*) AS calls, round(sum(dur) / 1e6, 2) AS ms, round(max(dur) / 1e6, 2) AS longest_ms
FROM events
WHERE type IN ('annotation', 'cpu_op', 'marker') AND dur IS NOT NULL AND regexp_matches(lower(name), 'data ?loader|dataload|next_batch|load_batch|get_batch|enumerate\(data')
GROUP BY rank, name ORDER BY ms DESC LIMIT 20;

-- Beginning of each rank's steps
-- In milliseconds.
WITH first AS (
  SELECT rank, step, min(ts) AS kernel FROM events WHERE type = 'kernel' AND step IS NOT NULL GROUP BY rank, step)
SELECT s.node, s.rank, count(*) AS steps, round(median(greatest(0, kernel - s.ts)) / 1e6, 3) AS usual_ms,
       round(max(greatest(0, kernel - s.ts)) / 1e6, 3) AS longest_ms, round(median(s.dur) / 1e6, 3) AS step_ms
FROM steps AS s JOIN first ON first.rank IS NOT DISTINCT FROM s.rank AND first.step = s.step GROUP BY s.node, s.rank ORDER BY usual_ms DESC LIMIT 32;
