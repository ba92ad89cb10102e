-- Which GPU is slower than the others?
-- Compares kernels of the same name and launch shape on all ranks: data-parallel ranks run the same ones. Communication
-- is left out, because its kernels last as long as the slowest rank takes to come.

-- Who is slower
-- 1 is the usual speed of a kernel among the ranks; 1.1 is 10 % longer. A slow GPU is slow in nearly all its kernels. One
-- with only some slow kernels has more to do: see the playbook kernels.
WITH each AS (
  SELECT node, rank, name, grid_x, grid_y, grid_z, median(dur) AS dur FROM events
  WHERE type = 'kernel' AND dur > 0 AND NOT is_communication(name) GROUP BY ALL HAVING count(*) >= 3),
compared AS (
  SELECT *, median(dur) OVER same AS usual, count(*) OVER same AS ranks FROM each
  WINDOW same AS (PARTITION BY name, grid_x, grid_y, grid_z)),
speed AS (SELECT node, rank, median(dur / usual) AS factor FROM compared WHERE ranks >= 3 GROUP BY node, rank)
SELECT CASE
    WHEN count(*) = 0 THEN 'Cannot tell: fewer than three ranks run the same kernels'
    WHEN max(factor) < 1.03 THEN 'No GPU is slower than the others: kernels of all ranks last the same within ' || greatest(1, ceil(100 * (max(factor) - 1)))::INTEGER || ' %'
    ELSE 'The GPU of rank ' || arg_max(rank, factor) || ' on ' || arg_max(node, factor) || ' takes ' || round(100 * (max(factor) - 1))::INTEGER || ' % longer for the same kernels' END AS finding
FROM speed;

-- Speed of each rank
-- The slowest first.
WITH each AS (
  SELECT node, rank, name, grid_x, grid_y, grid_z, median(dur) AS dur, count(*) AS n FROM events
  WHERE type = 'kernel' AND dur > 0 AND NOT is_communication(name) GROUP BY ALL HAVING count(*) >= 3),
compared AS (
  SELECT *, median(dur) OVER same AS usual, count(*) OVER same AS ranks FROM each
  WINDOW same AS (PARTITION BY name, grid_x, grid_y, grid_z))
SELECT node, rank, round(median(dur / usual), 3) AS factor, round(100.0 * avg((dur > 1.03 * usual)::INTEGER)) AS slow_kernels_pct,
       count(*) AS kernels, sum(n)::BIGINT AS launches
FROM compared WHERE ranks >= 3 GROUP BY node, rank ORDER BY factor DESC, rank LIMIT 32;

-- What its telemetry says
-- A GPU that throttles has a lower clock than the others, a higher temperature or less power; one that is defective often
-- has errors. Compare the devices of one metric.
SELECT name, node, device, round(avg(value), 1) AS mean, round(min(value), 1) AS least, round(max(value), 1) AS most
FROM metrics WHERE device IS NOT NULL AND regexp_matches(name, 'clock|temperature|power|throttle|xid|ecc')
GROUP BY ALL ORDER BY name, mean LIMIT 200;
