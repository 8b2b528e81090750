-- :created_by null lets every creator's job be cancelled.
UPDATE jobs
SET
    status = iif(status = 'pending', 'cancelled', status),
    updated_at = iif(status = 'pending', :now, updated_at),
    cancel_requested = (status = 'running')
WHERE id = :id AND status IN ('pending', 'running') AND created_by = coalesce(:created_by, created_by)
RETURNING *;
