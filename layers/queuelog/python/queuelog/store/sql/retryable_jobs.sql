-- Failed or cancelled jobs, those that ended first first. The three statuses are those of jobs_ended.
SELECT id
FROM jobs
WHERE status = :status AND :status <> 'completed' AND status IN ('completed', 'failed', 'cancelled')
    AND updated_at > coalesce(:after, '') AND updated_at < coalesce(:before, '~')
    AND type = coalesce(:type, type)
    AND (:error_contains IS NULL OR instr(error, :error_contains))
ORDER BY updated_at, id
LIMIT :most;
