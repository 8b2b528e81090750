-- Puts the job back while it has retries left. It keeps due_at, and with it its place in the queue.
UPDATE jobs
SET
    status = iif(retry_count < max_retries, 'pending', 'failed'),
    retry_count = retry_count + (retry_count < max_retries),
    claimed_at = iif(retry_count < max_retries, NULL, claimed_at),
    worker_id = iif(retry_count < max_retries, NULL, worker_id),
    error = :error,
    reason = 'failed',
    updated_at = :now
WHERE id = :id AND status = 'running' AND worker_id = :worker_id
RETURNING *;
