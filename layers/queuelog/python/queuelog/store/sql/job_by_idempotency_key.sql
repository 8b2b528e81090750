SELECT * FROM jobs WHERE created_by = :created_by AND idempotency_key = :idempotency_key;
