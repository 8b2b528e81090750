-- Due jobs of the same type that are claimed before this one, counted up to a limit for each priority.
SELECT sum(front) AS jobs
FROM (
    SELECT (
        SELECT count(*) FROM (
            SELECT 1 FROM jobs
            WHERE status = 'pending' AND type = :type AND priority = level.value
                AND due_at <= :now AND (level.value > :priority OR (due_at, id) < (:due_at, :id))
            ORDER BY due_at, id
            LIMIT :most
        )
    ) AS front
    FROM json_each('[30, 20, 10, 0]') AS level
    WHERE level.value >= :priority
);
