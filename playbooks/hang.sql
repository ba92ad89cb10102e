-- Who hangs?
-- For a recording of a job that stands still. Of a running job ask `tracesmith cluster hang`, which sees more.

-- Who is missing
-- In each communicator, operations have numbers. A rank whose last number is behind has not reached what the others
-- wait in. If nobody is behind and operations have no end, all ranks are in the same one and it does not end: look at
-- the network.
WITH reached AS (
  SELECT comm, rank, max(seq) AS last, max(seq) FILTER (WHERE dur IS NOT NULL) AS ended, max(group_size) AS size
  FROM collectives WHERE seq IS NOT NULL AND op NOT IN ('send', 'recv') GROUP BY comm, rank),
groups AS (SELECT comm, max(last) AS last, max(size) AS size FROM reached GROUP BY comm),
open AS (
  SELECT comm, count(*) AS waiting FROM reached JOIN groups USING (comm)
  WHERE reached.last = groups.last AND ended IS DISTINCT FROM reached.last GROUP BY comm),
behind AS (
  SELECT comm, list(rank ORDER BY rank) AS ranks, count(*) AS n, min(groups.last - reached.last) AS missing
  FROM reached JOIN groups USING (comm) JOIN open USING (comm) WHERE reached.last < groups.last GROUP BY comm)
SELECT CASE
    WHEN n = 1 THEN 'Rank ' || ranks[1] || ' has not reached operation ' || last || ' of ' || comm || ', in which ' || waiting || ' ranks wait: it is ' || missing || ' behind'
    WHEN n > 1 THEN 'Ranks ' || array_to_string(ranks, ', ') || ' have not reached operation ' || last || ' of ' || comm || ', in which ' || waiting || ' ranks wait'
    ELSE 'All recorded ranks are in operation ' || last || ' of ' || comm || ', and it has not ended' END AS finding
FROM open JOIN groups USING (comm) LEFT JOIN behind USING (comm)
UNION ALL
SELECT 'No collective was in flight when the recording ended: the job did not hang in one' WHERE NOT EXISTS (FROM open)
ORDER BY 1;

-- What each rank did last
-- Ages are counted from the end of the recording of its node.
WITH ends AS (SELECT node, max(coalesce(ts_end, ts)) AS last FROM events GROUP BY node)
SELECT ends.node, rank, arg_max(comm || ' ' || op || ' ' || seq, coalesce(ts_enqueue, ts)) AS last_operation,
       arg_max(CASE WHEN dur IS NULL THEN 'in flight' ELSE 'ended' END, coalesce(ts_enqueue, ts)) AS state,
       round((any_value(ends.last) - max(coalesce(ts_end, ts_enqueue, ts))) / 1e9, 3) AS seconds_ago
FROM collectives AS c JOIN ends ON ends.node IS NOT DISTINCT FROM c.node GROUP BY ends.node, rank ORDER BY seconds_ago DESC, rank;
