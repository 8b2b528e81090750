UPDATE jobs
SET status = 'completed', updated_at = :now
WHERE id = :id AND status = 'running' AND worker_id = :worker_id
RETURNING *;
