-- Can I trust this recording?
-- What was lost is counted, and what is not known is NULL. Look here before you believe a figure that surprises you.

-- What is missing
-- Operations without an end were in flight when the recording ended: a few on each rank are usual.
WITH lost AS (SELECT coalesce(sum(count), 0)::BIGINT AS n, string_agg(DISTINCT cause, ', ' ORDER BY cause) AS causes FROM losses WHERE count > 0),
ranks AS (SELECT count(DISTINCT rank) AS seen, max(world_size) AS world FROM processes WHERE rank IS NOT NULL),
bounds AS (SELECT max(bound_ns) AS worst, arg_max(node, bound_ns) AS node, count(DISTINCT node) AS nodes FROM clocks)
SELECT CASE WHEN lost.n > 0 THEN lost.n || CASE WHEN lost.n = 1 THEN ' record is' ELSE ' records are' END || ' missing (' || causes || ')' ELSE 'Nothing was lost' END
  || CASE WHEN world > seen THEN '; only ' || seen || ' of ' || world || ' ranks were recorded' ELSE '' END
  || CASE WHEN nodes < 2 THEN '' WHEN worst IS NULL THEN '; how exact the clocks are is not known'
          ELSE '; clocks of nodes differ by at most ' || round(worst / 1e3, 1) || ' µs (' || bounds.node || ')' END AS finding
FROM lost, ranks, bounds;

-- Losses
-- By cause.
SELECT cause, node, rank, sum(count)::BIGINT AS records, any_value(detail) AS detail FROM losses GROUP BY cause, node, rank ORDER BY records DESC LIMIT 50;

-- Clocks
-- What is compared between nodes is known to the bound only.
SELECT node, method, reference, count(*) AS intervals, round(max(abs(offset_ns)) / 1e3, 1) AS offset_us, max(abs(drift_ppm)) AS drift_ppm, round(max(bound_ns) / 1e3, 1) AS bound_us
FROM clocks GROUP BY ALL ORDER BY bound_us DESC NULLS FIRST LIMIT 50;

-- What was recorded of each rank
-- Ranks of one job usually have about the same numbers.
SELECT node, rank, count(*) AS events, count(*) FILTER (WHERE type = 'kernel') AS kernels, count(*) FILTER (WHERE dur IS NULL) AS without_end, count(DISTINCT step) AS steps
FROM events WHERE rank IS NOT NULL GROUP BY node, rank ORDER BY events, rank LIMIT 64;
