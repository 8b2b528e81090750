UPDATE jobs
SET $lease_given
FROM (SELECT ($next_job) AS id, :token AS token, :token_sha256 AS token_sha256) AS item
WHERE jobs.id = item.id AND jobs.status = 'pending'
RETURNING *;
