-- The ended attempts that these tokens belonged to. :items is as for end_attempts.
SELECT attempts.job_id, attempts.token_sha256, attempts.ended_by
FROM json_each(:items) AS item
JOIN attempts ON attempts.job_id = item.value ->> 'id' AND attempts.token_sha256 = item.value ->> 'token_sha256'
WHERE attempts.worker_id = :worker_id;
