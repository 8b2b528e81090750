-- :items is a JSON array of objects with id and token_sha256, and lease_seconds and progress where they were sent.
UPDATE jobs
SET
    lease_expires_at = max(
        jobs.lease_expires_at,
        strftime('%Y-%m-%dT%H:%M:%fZ', :now, coalesce(item.lease_seconds, jobs.lease_seconds) || ' seconds')
    ),
    progress = coalesce(item.progress, jobs.progress)
FROM (
    SELECT
        value ->> 'id' AS id,
        value ->> 'token_sha256' AS token_sha256,
        value ->> 'lease_seconds' AS lease_seconds,
        value -> 'progress' AS progress
    FROM json_each(:items)
) AS item
WHERE jobs.id = item.id AND jobs.status = 'running'
    AND jobs.worker_id = :worker_id AND jobs.lease_token_sha256 = item.token_sha256
RETURNING *;
