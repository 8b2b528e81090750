-- :items is a JSON array of objects; the ids ascend in its order.
INSERT INTO jobs (
    type, priority, status, due_at, max_retries, backoff_seconds, created_by, created_at, updated_at,
    idempotency_key, fingerprint, encoded_size, payload
)
SELECT
    value ->> 'type', value ->> 'priority', 'pending', max(:now, coalesce(value ->> 'run_at', :now)),
    value ->> 'max_retries', value ->> 'backoff_seconds', :created_by, :now, :now,
    value ->> 'idempotency_key', value ->> 'fingerprint', value ->> 'encoded_size', value ->> 'payload'
FROM json_each(:items)
ORDER BY key
RETURNING *;
