UPDATE jobs
SET
    status = 'pending', retry_count = 0, replays = replays + 1, due_at = :now, updated_at = :now,
    cancel_requested = 0, progress = NULL, claimed_at = NULL, worker_id = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ('failed', 'cancelled')
RETURNING *;
