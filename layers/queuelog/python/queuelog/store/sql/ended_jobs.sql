-- What retention removes next.
SELECT id
FROM jobs
WHERE status = :status AND status IN ('completed', 'failed', 'cancelled') AND updated_at < :before
ORDER BY updated_at, id
LIMIT :most;
