INSERT INTO jobs (
    type, priority, status, due_at, max_retries, created_by, created_at, updated_at,
    idempotency_key, fingerprint, encoded_size, payload
)
VALUES (
    :type, :priority, 'pending', :now, :max_retries, :created_by, :now, :now,
    :idempotency_key, :fingerprint, :encoded_size, :payload
)
RETURNING *;
