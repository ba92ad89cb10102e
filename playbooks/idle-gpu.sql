-- Why are the GPUs idle?
-- Looks at the pauses between operations of each GPU. In short pauses the program cannot launch fast enough: use CUDA
-- graphs, larger batches or torch.compile. Long pauses have other reasons: data, checkpoints, synchronization.

-- How much of the time nothing runs
-- Pauses up to 1 ms are short.
WITH device AS (
  SELECT node, rank, ts, ts_end,
         max(ts_end) OVER (PARTITION BY rank ORDER BY ts, ts_end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS so_far
  FROM events WHERE type IN ('kernel', 'memcpy', 'memset') AND dur IS NOT NULL),
pauses AS (SELECT rank, greatest(0, ts - so_far) AS pause FROM device WHERE so_far IS NOT NULL),
spans AS (SELECT rank, max(ts_end) - min(ts) AS span FROM device GROUP BY rank),
ranks AS (
  SELECT spans.rank, any_value(span) AS span, sum(pause) FILTER (WHERE pause <= 1e6) AS short, sum(pause) FILTER (WHERE pause > 1e6) AS long
  FROM pauses JOIN spans ON spans.rank IS NOT DISTINCT FROM pauses.rank GROUP BY spans.rank),
total AS (
  SELECT 100 * coalesce(sum(short), 0) / sum(span) AS short, 100 * coalesce(sum(long), 0) / sum(span) AS long,
         arg_max(rank, coalesce(short, 0) + coalesce(long, 0)) AS rank,
         100 * max((coalesce(short, 0) + coalesce(long, 0)) / span) AS most
  FROM ranks)
SELECT CASE
    WHEN most IS NULL THEN 'Cannot tell: no operations of a GPU were recorded'
    WHEN most < 5 THEN 'The GPUs are busy: the one with the most pauses, of ' || coalesce('rank ' || rank, 'an unknown rank') || ', is idle ' || round(most, 1) || ' % of the time'
    WHEN most > 2 * (short + long) THEN 'The GPU of ' || coalesce('rank ' || rank, 'an unknown rank') || ' is idle ' || round(most, 1) || ' % of the time, the others much less'
    WHEN long > short THEN 'The GPUs are idle ' || round(short + long, 1) || ' % of the time, mostly in pauses of more than 1 ms'
    ELSE 'The GPUs are idle ' || round(short + long, 1) || ' % of the time, mostly in short pauses: the program launches too slowly' END AS finding
FROM total;

-- The longest pauses
-- What ended before, and what began after.
WITH device AS (
  SELECT node, rank, ts, ts_end, name, step, lag(name) OVER (PARTITION BY rank ORDER BY ts) AS before,
         max(ts_end) OVER (PARTITION BY rank ORDER BY ts, ts_end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS so_far
  FROM events WHERE type IN ('kernel', 'memcpy', 'memset') AND dur IS NOT NULL)
SELECT node, rank, step, round((ts - so_far) / 1e6, 3) AS pause_ms, before[:40] AS before, name[:40] AS after
FROM device WHERE ts > so_far ORDER BY ts - so_far DESC LIMIT 15;

-- What threads did meanwhile
-- Python stacks, where they were sampled: those in which the program waited, by samples.
SELECT rank, stack, sum(samples)::BIGINT AS samples FROM stacks WHERE state = 'waiting' GROUP BY rank, stack ORDER BY samples DESC LIMIT 10;
