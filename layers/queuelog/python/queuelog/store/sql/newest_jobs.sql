-- What a filter needs of each job, the newest first; the caller stops reading when it has enough.
SELECT id, type, priority, status, due_at, created_by, worker_id, encoded_size
FROM jobs
WHERE id < :before
ORDER BY id DESC;
