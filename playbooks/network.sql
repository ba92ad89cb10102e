-- Is it the network?
-- Compares what operations took once all ranks were there: the shortest duration among the ranks of each operation. What
-- one rank makes the others wait is not in it.

-- Which communicators are slow
-- Only communicators of the same size and the same operation with messages of about the same size are compared.
WITH whole AS (
  SELECT comm, op, seq, min(dur) AS took, max(bytes) AS bytes, max(group_size) AS size, count(*) AS n,
         busbw_gbps(op, max(bytes), max(group_size), min(dur)) AS gbps
  FROM collectives WHERE dur > 0 AND bytes > 0 AND seq IS NOT NULL AND op NOT IN ('send', 'recv') GROUP BY comm, op, seq),
speeds AS (SELECT comm, op, size, round(log2(bytes)) AS class, median(gbps) AS gbps, count(*) AS operations FROM whole GROUP BY ALL),
compared AS (
  SELECT *, median(gbps) OVER (PARTITION BY op, size, class) AS usual,
         count(*) OVER (PARTITION BY op, size, class) AS peers FROM speeds),
worst AS (
  SELECT comm, median(gbps / usual) AS part, sum(operations)::BIGINT AS operations, max(peers) AS peers
  FROM compared WHERE peers >= 3 GROUP BY comm)
SELECT CASE WHEN count(*) = 0 THEN 'There are fewer than three communicators that do the same: none can be called slow. Compare the speeds below with what your links can do'
            WHEN min(part) < 0.8 THEN 'Operations of ' || arg_min(comm, part) || ' reach ' || round(100 * min(part)) || ' % of the speed of their peers: look at its links'
            ELSE 'No communicator is slower than its peers' END AS finding
FROM worst;

-- Speed of each communicator
-- Bus bandwidth, as nccl-tests counts it, in GB/s. Small messages never reach the speed of the links.
SELECT comm, op, group_size AS ranks, count(DISTINCT seq) AS operations, round(median(bytes) / 1e6, 3) AS mb,
       round(median(busbw_gbps(op, bytes, group_size, dur)), 2) AS usual_gbps,
       round(max(busbw_gbps(op, bytes, group_size, dur)), 2) AS best_gbps
FROM collectives WHERE dur > 0 AND bytes > 0 GROUP BY ALL ORDER BY comm, op;

-- Waiting of the network
-- By NCCL's proxy threads, where NCCL tells it: of the time of transfers, how much they waited for the network, the rank
-- at the other end, and the GPU.
SELECT node, peer, direction, count(*) AS transfers, round(sum(bytes) / 1e6, 1) AS mb,
       round(100.0 * sum(net_wait) / sum(dur), 1) AS network_pct, round(100.0 * sum(peer_wait) / sum(dur), 1) AS peer_pct,
       round(100.0 * sum(gpu_wait) / sum(dur), 1) AS gpu_pct
FROM proxy_ops WHERE dur > 0 GROUP BY ALL ORDER BY network_pct DESC LIMIT 20;
