-- The pending jobs of one type and all priorities below one, in the order of claims.
SELECT id, type, priority, status, due_at, created_by, worker_id, encoded_size
FROM jobs
WHERE status = 'pending' AND type = :type AND priority < :priority
ORDER BY priority DESC, due_at, id;
