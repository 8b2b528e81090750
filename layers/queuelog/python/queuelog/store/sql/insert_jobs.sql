-- :items is a JSON array of arrays, each a NewRow; the ids ascend in its order.
INSERT INTO jobs (
    type, payload, encoded_size, priority, max_retries, backoff_seconds, due_at, idempotency_key, fingerprint,
    status, created_by, created_at, updated_at
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8,
    'pending', :created_by, :now, :now
FROM json_each(:items)
ORDER BY key
RETURNING id;
