-- When a claim of these types may find something: the next job to fall due or the next lease to end.
-- :leased_types is :types, or empty as long as jobs_leased is missing.
SELECT min(moment) AS moment
FROM (
    SELECT (
        SELECT due_at FROM jobs
        WHERE status = 'pending' AND type = wanted.type AND priority = level.value AND due_at > :now
        ORDER BY due_at, id LIMIT 1
    ) AS moment
    FROM json_each('[30, 20, 10, 0]') AS level
    CROSS JOIN ($wanted_types) AS wanted
    UNION ALL
    SELECT (
        SELECT lease_expires_at FROM jobs
        WHERE status = 'running' AND type = wanted.type AND lease_expires_at IS NOT NULL
        ORDER BY lease_expires_at LIMIT 1
    )
    FROM (
        SELECT value AS type FROM json_each(:leased_types)
        UNION ALL
        SELECT type FROM ($running_types) WHERE :leased_types IS NULL
    ) AS wanted
);
