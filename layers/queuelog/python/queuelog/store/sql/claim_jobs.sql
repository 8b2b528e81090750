-- :items is a JSON array of [id, token, token's SHA-256].
UPDATE jobs
SET $lease_given
FROM (
    SELECT value ->> 0 AS id, value ->> 1 AS token, value ->> 2 AS token_sha256 FROM json_each(:items)
) AS item
WHERE jobs.id = item.id AND jobs.status = 'pending'
RETURNING *;
