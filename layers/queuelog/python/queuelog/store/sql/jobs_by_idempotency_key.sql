SELECT * FROM jobs
WHERE created_by = :created_by AND idempotency_key IN (SELECT value FROM json_each(:keys));
