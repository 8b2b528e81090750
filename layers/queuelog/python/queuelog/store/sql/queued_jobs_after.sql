-- The pending jobs of one type and one priority after a position, in the order of claims.
SELECT id, type, priority, status, due_at, created_by, worker_id, encoded_size
FROM jobs
WHERE status = 'pending' AND type = :type AND priority = :priority AND (due_at, id) > (:due_at, :id)
ORDER BY due_at, id;
