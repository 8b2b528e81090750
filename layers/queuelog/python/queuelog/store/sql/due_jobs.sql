-- The due jobs of one type and one priority, in the order of claims; the caller stops reading when it has enough.
SELECT id, due_at, encoded_size
FROM jobs
WHERE status = 'pending' AND type = :type AND priority = :priority AND due_at <= :now
ORDER BY due_at, id;
