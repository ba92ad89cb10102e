-- What do checkpoints cost?
-- Steps that take much longer than the others, at equal distances, are often those that save a checkpoint.

-- Long steps
-- Steps in which all ranks take at least half as long again as usual. What they cost is the time beyond the usual step.
WITH each AS (SELECT step, median(dur) AS dur FROM steps WHERE dur > 0 AND step IS NOT NULL GROUP BY step),
usual AS (SELECT median(dur) AS dur, count(*) AS n, sum(dur) AS total, min(step) AS first FROM each),
long AS (SELECT step, each.dur - usual.dur AS more, step - lag(step) OVER (ORDER BY step) AS distance FROM each, usual WHERE each.dur > 1.5 * usual.dur AND step > usual.first),
found AS (SELECT count(*) AS n, sum(more) AS more, min(distance) AS least, max(distance) AS most, list(step ORDER BY step) AS steps FROM long)
SELECT CASE
    WHEN usual.n < 4 THEN 'Cannot tell: fewer than four steps were recorded'
    WHEN found.n = 0 THEN 'No step takes much longer than the others'
    ELSE printf('%d of %d steps take much longer than the usual %.1f ms, in all %.1f ms more: %.1f %% of the time', found.n, usual.n, usual.dur / 1e6, found.more / 1e6, 100 * found.more / usual.total)
      || CASE WHEN found.n > 1 AND least = most THEN '; they come every ' || least || ' steps' ELSE '' END END AS finding
FROM usual, found;

-- Who is busy in them
-- The rank whose GPU does least in the long steps is the one that saves; ranges of the program say what it does.
WITH each AS (SELECT step, median(dur) AS dur FROM steps WHERE dur > 0 AND step IS NOT NULL GROUP BY step),
long AS (SELECT step FROM each WHERE dur > 1.5 * (SELECT median(dur) FROM each) AND step > (SELECT min(step) FROM each)),
work AS (
  SELECT node, rank, step, sum(dur) AS busy FROM events JOIN long USING (step)
  WHERE type IN ('kernel', 'memcpy') AND dur IS NOT NULL GROUP BY node, rank, step)
SELECT w.step, arg_min(w.node, w.busy) AS node, arg_min(w.rank, w.busy) AS rank, round(min(w.busy) / 1e6, 3) AS gpu_busy_ms,
       round(median(w.busy) / 1e6, 3) AS usual_rank_ms
FROM work AS w GROUP BY w.step ORDER BY w.step LIMIT 20;

-- Ranges that save
-- By their names.
SELECT rank, name, count(*) AS calls, round(sum(dur) / 1e6, 2) AS ms, round(max(dur) / 1e6, 2) AS longest_ms
FROM events WHERE type IN ('annotation', 'cpu_op', 'marker', 'python') AND dur IS NOT NULL AND regexp_matches(lower(name), 'checkpoint|torch.save|save_state|\bsave\b')
GROUP BY rank, name ORDER BY ms DESC LIMIT 10;
