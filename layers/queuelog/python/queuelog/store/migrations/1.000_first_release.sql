-- Version 1.0. SQLite can't alter a CHECK, and functions of two releases run side by side in every deploy,
-- so whatever a later release will need of one is allowed from the start.
-- Not STRICT: newer SQLite (seen with 3.54) reads a STRICT table from end to end for each column added to it, and a
-- migration has to fit into a request. The CHECKs hold the types as well: text is never between two numbers, but 1.5 is.

CREATE TABLE jobs (
    -- AUTOINCREMENT: an id is never used again, so a late caller can't finish somebody else's job.
    id INTEGER PRIMARY KEY AUTOINCREMENT
        CONSTRAINT id_exact_in_json CHECK (id BETWEEN 1 AND 9007199254740991),
    type TEXT NOT NULL
        CONSTRAINT type_length CHECK (length(type) BETWEEN 1 AND 100),
    priority INTEGER NOT NULL
        CONSTRAINT priority_known CHECK (priority IN (0, 10, 20, 30)),
    status TEXT NOT NULL
        CONSTRAINT status_known CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    due_at TEXT NOT NULL
        CONSTRAINT due_at_fixed_width CHECK (length(due_at) = 24),
    retry_count INTEGER NOT NULL DEFAULT 0,
    max_retries INTEGER NOT NULL
        CONSTRAINT max_retries_range CHECK (typeof(max_retries) = 'integer' AND max_retries BETWEEN 0 AND 25),
    claimed_at TEXT
        CONSTRAINT claimed_at_fixed_width CHECK (length(claimed_at) = 24),
    worker_id TEXT
        CONSTRAINT worker_id_length CHECK (length(worker_id) BETWEEN 1 AND 255),
    created_by TEXT NOT NULL
        CONSTRAINT created_by_length CHECK (length(created_by) BETWEEN 1 AND 255),
    created_at TEXT NOT NULL
        CONSTRAINT created_at_fixed_width CHECK (length(created_at) = 24),
    updated_at TEXT NOT NULL
        CONSTRAINT updated_at_fixed_width CHECK (length(updated_at) = 24),
    idempotency_key TEXT
        CONSTRAINT idempotency_key_length CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    -- SHA-256 of the request in hex, so that the same key with another request can be told; null without a key.
    fingerprint TEXT
        CONSTRAINT fingerprint_is_sha256 CHECK (length(fingerprint) = 64),
    reason TEXT
        CONSTRAINT reason_known CHECK (reason IN ('failed', 'lease_expired')),
    -- Bytes that the payload takes inside a Lambda answer, where the body is quoted once more.
    encoded_size INTEGER NOT NULL
        CONSTRAINT encoded_size_range CHECK (typeof(encoded_size) = 'integer' AND encoded_size BETWEEN 0 AND 1000000),
    -- The large ones come last: a row that spills into other pages then shows the rest without reading them.
    error TEXT
        CONSTRAINT error_length CHECK (length(error) <= 1000),
    payload TEXT NOT NULL
        CONSTRAINT payload_size CHECK (length(CAST(payload AS BLOB)) <= 65536),
    CONSTRAINT key_has_fingerprint CHECK (idempotency_key IS NULL OR fingerprint IS NOT NULL),
    CONSTRAINT retry_count_range CHECK (typeof(retry_count) = 'integer' AND retry_count BETWEEN 0 AND max_retries),
    CONSTRAINT pending_is_unheld CHECK (status <> 'pending' OR (worker_id IS NULL AND claimed_at IS NULL)),
    CONSTRAINT running_is_held CHECK (status <> 'running' OR (worker_id IS NOT NULL AND claimed_at IS NOT NULL))
);

-- What a claim reads, in its order; type first, since a worker may take only some types.
CREATE INDEX jobs_pending ON jobs (type, priority DESC, due_at, id) WHERE status = 'pending';

-- Per principal, so that no one can probe another's keys.
CREATE UNIQUE INDEX jobs_idempotency_key ON jobs (created_by, idempotency_key) WHERE idempotency_key IS NOT NULL;
