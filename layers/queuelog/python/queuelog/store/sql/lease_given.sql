-- What a claim writes, from an item with the job's id and its new token.
status = 'running', claimed_at = :now, worker_id = :worker_id, updated_at = :now, attempt = attempt + 1, ended_by = NULL,
lease_seconds = :lease_seconds, lease_expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', :now, :lease_seconds || ' seconds'),
lease_token_sha256 = item.token_sha256, lease_token = iif(:claim_request_id IS NULL, NULL, item.token),
claim_request_id = :claim_request_id, claim_fingerprint = :claim_fingerprint
