-- Which kernels should I make faster?
-- A kernel matters as much as its share of the time. Twice as fast, it saves half of it, at most.

-- Where the GPU's time goes
-- Of all ranks; communication is left out.
WITH k AS (SELECT name, sum(dur) AS total FROM events WHERE type = 'kernel' AND dur IS NOT NULL AND NOT is_communication(name) GROUP BY name),
ranked AS (SELECT name, total, total / sum(total) OVER () AS share, row_number() OVER (ORDER BY total DESC, name) AS place FROM k)
SELECT CASE WHEN count(*) = 0 THEN 'Cannot tell: no kernels were recorded'
            ELSE 'The kernel ' || arg_min(name, place)[:80] || ' takes ' || round(100 * max(share) FILTER (WHERE place = 1), 1) || ' % of the time of all kernels, the first ten ' ||
                 round(100 * sum(share) FILTER (WHERE place <= 10), 1) || ' %, of ' || count(*) || ' names in all' END AS finding
FROM ranked;

-- Time of each kernel
-- A kernel that lasts a few microseconds costs more to launch than to run.
SELECT name[:80] AS name, count(*) AS calls, round(sum(dur) / 1e6, 3) AS ms, round(100.0 * sum(dur) / sum(sum(dur)) OVER (), 1) AS share_pct,
       round(median(dur) / 1e3, 1) AS usual_us, round(max(dur) / 1e3, 1) AS longest_us
FROM events WHERE type = 'kernel' AND dur IS NOT NULL AND NOT is_communication(name)
GROUP BY events.name ORDER BY ms DESC LIMIT 20;

-- Copies
-- Copies that are slow are often from memory that is not pinned.
SELECT name[:60] AS name, count(*) AS calls, round(sum(bytes) / 1e6, 1) AS mb, round(sum(dur) / 1e6, 3) AS ms,
       round(sum(bytes) / nullif(sum(dur), 0), 2) AS gb_per_s
FROM events WHERE type = 'memcpy' AND dur IS NOT NULL GROUP BY events.name ORDER BY ms DESC LIMIT 10;
