-- Ends running attempts by complete, fail, release or expire: for each item the new status, and for one that is
-- pending again when it is due. A job keeps due_at, and with it its place, unless it has to wait.
-- The wait before the n-th retry is backoff × (2^(n-1) - 1): none before the first, then it doubles away.
-- :items is a JSON array of objects; all but id and verb may be left out.
UPDATE jobs
SET
    status = ending.status,
    due_at = iif(ending.wait > 0, strftime('%Y-%m-%dT%H:%M:%fZ', :now, ending.wait || ' seconds'), due_at),
    retry_count = retry_count + ending.is_retry,
    claimed_at = iif(ending.status = 'pending', NULL, claimed_at),
    worker_id = iif(ending.status = 'pending', NULL, worker_id),
    error = iif(ending.verb IN ('fail', 'expire'), ending.error, jobs.error),
    reason = CASE ending.verb WHEN 'fail' THEN 'failed' WHEN 'expire' THEN 'lease_expired' ELSE reason END,
    result = coalesce(ending.result, jobs.result),
    encoded_size = encoded_size + iif(ending.result IS NULL, 0, length(CAST(json_quote(ending.result) AS BLOB))),
    lease_expiries = lease_expiries + (ending.verb = 'expire'),
    ended_by = ending.verb,
    updated_at = :now,
    lease_expires_at = NULL, lease_seconds = NULL, lease_token_sha256 = NULL, lease_token = NULL,
    claim_request_id = NULL, claim_fingerprint = NULL
FROM (
    SELECT
        *,
        CASE
            WHEN NOT is_retry THEN 0
            WHEN retry_in_seconds IS NOT NULL THEN retry_in_seconds
            ELSE min(max(:backoff_cap, backoff), backoff * ((1 << retries_before) - 1)) * jitter
        END AS wait
    FROM (
        SELECT
            *,
            CASE
                WHEN verb = 'complete' THEN 'completed'
                WHEN cancelling THEN 'cancelled'
                WHEN verb = 'release' OR retries_before < max_retries AND NOT permanent THEN 'pending'
                ELSE 'failed'
            END AS status,
            verb IN ('fail', 'expire') AND NOT cancelling AND retries_before < max_retries AND NOT permanent AS is_retry
        FROM (
            SELECT
                held.id,
                held.max_retries,
                held.retry_count AS retries_before,
                held.cancel_requested AS cancelling,
                coalesce(held.backoff_seconds, :backoff_seconds) AS backoff,
                item.value ->> 'verb' AS verb,
                item.value ->> 'error' AS error,
                iif(item.value ->> 'verb' = 'complete', item.value -> 'result', NULL) AS result,
                item.value ->> 'retry_in_seconds' AS retry_in_seconds,
                coalesce(item.value ->> 'permanent', 0) AS permanent,
                coalesce(item.value ->> 'jitter', 1) AS jitter
            FROM json_each(:items) AS item
            JOIN jobs AS held ON held.id = item.value ->> 'id'
            WHERE held.status = 'running' AND CASE
                WHEN item.value ->> 'verb' = 'expire'
                    THEN coalesce(held.lease_expires_at <= :now, held.claimed_at <= :unleased_since)
                WHEN held.worker_id <> :worker_id THEN FALSE
                ELSE coalesce(held.lease_token_sha256 = item.value ->> 'token_sha256', item.value ->> 'token_sha256' IS NULL)
            END
        )
    )
) AS ending
WHERE jobs.id = ending.id AND jobs.status = 'running'
RETURNING *;
