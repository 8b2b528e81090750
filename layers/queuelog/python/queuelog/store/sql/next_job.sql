-- The job to claim: for each wanted type and each priority the first due one, then the best of these. So a claim makes
-- as many seeks in jobs_pending as there are types and priorities, whatever stands in front: other types, or jobs that
-- are due later. `place` sorts as (due_at, id) and comes from the index alone, without a look into the table.
-- :types is a JSON array, or null for every type present.
SELECT CAST(substr(place, 25) AS INTEGER) AS id
FROM (
    SELECT
        level.value AS priority,
        (
            SELECT due_at || printf('%016d', id) FROM jobs
            WHERE status = 'pending' AND type = wanted.type AND priority = level.value AND due_at <= :now
            ORDER BY due_at, id LIMIT 1
        ) AS place
    FROM json_each('[30, 20, 10, 0]') AS level
    CROSS JOIN ($wanted_types) AS wanted
)
WHERE place IS NOT NULL
ORDER BY priority DESC, place
LIMIT 1
