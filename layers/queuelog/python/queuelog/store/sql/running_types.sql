-- The types among running jobs: one seek for each in jobs_leased.
WITH RECURSIVE present (type) AS (
    SELECT (SELECT type FROM jobs WHERE status = 'running' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT (
        SELECT type FROM jobs WHERE status = 'running' AND type > present.type ORDER BY type LIMIT 1
    )
    FROM present WHERE present.type IS NOT NULL
)
SELECT type FROM present WHERE type IS NOT NULL
