-- For each type and priority among pending jobs, the oldest due one and the next that will be.
SELECT
    (
        SELECT due_at FROM jobs
        WHERE status = 'pending' AND type = wanted.type AND priority = level.value AND due_at <= :now
        ORDER BY due_at, id LIMIT 1
    ) AS oldest_due_at,
    (
        SELECT due_at FROM jobs
        WHERE status = 'pending' AND type = wanted.type AND priority = level.value AND due_at > :now
        ORDER BY due_at, id LIMIT 1
    ) AS next_run_at
FROM json_each('[30, 20, 10, 0]') AS level
CROSS JOIN ($present_types) AS wanted;
