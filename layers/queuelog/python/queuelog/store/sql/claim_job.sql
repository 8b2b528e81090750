UPDATE jobs
SET status = 'running', claimed_at = :now, worker_id = :worker_id, updated_at = :now
WHERE id = ($next_job) AND status = 'pending'
RETURNING *;
