-- The leases that a Claim-Request-Id gave and that are still held.
SELECT * FROM jobs
WHERE worker_id = :worker_id AND claim_request_id = :claim_request_id
    AND status = 'running' AND lease_expires_at > :now
ORDER BY priority DESC, due_at, id;
