-- Version 1.1: leases, backoff, history, cancelling, replaying. Only what takes the same time however large the file
-- is; what must look at every row is in 1.2, which the sweep applies. Added columns carry no CHECK, for SQLite would
-- read every row to test it. Triggers keep the history, so that functions of the first release, which run beside
-- these for the length of a deploy or longer after a rollback, keep it too.

-- Seconds that the backoff grows from; null is the queue's default, as for jobs of the first release.
ALTER TABLE jobs ADD COLUMN backoff_seconds INTEGER;
-- Claims so far; never goes down.
ALTER TABLE jobs ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
-- The running attempt's lease: null when the job isn't running, or when the first release claimed it.
ALTER TABLE jobs ADD COLUMN lease_expires_at TEXT;
ALTER TABLE jobs ADD COLUMN lease_seconds INTEGER;
-- SHA-256 in hex. The token itself is kept only where a Claim-Request-Id may ask for it again.
ALTER TABLE jobs ADD COLUMN lease_token_sha256 TEXT;
ALTER TABLE jobs ADD COLUMN lease_token TEXT;
-- The Claim-Request-Id that gave the lease, and the SHA-256 of what it asked for, in hex.
ALTER TABLE jobs ADD COLUMN claim_request_id TEXT;
ALTER TABLE jobs ADD COLUMN claim_fingerprint TEXT;
ALTER TABLE jobs ADD COLUMN lease_expiries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN cancel_requested INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN replays INTEGER NOT NULL DEFAULT 0;
-- The verb that ended the last attempt; null while the job runs, and after a verb of the first release.
ALTER TABLE jobs ADD COLUMN ended_by TEXT;
ALTER TABLE jobs ADD COLUMN progress TEXT;
ALTER TABLE jobs ADD COLUMN result TEXT;

-- One row for each attempt that has ended.
CREATE TABLE attempts (
    job_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL
        CONSTRAINT attempt_positive CHECK (attempt >= 1),
    worker_id TEXT NOT NULL,
    claimed_at TEXT NOT NULL,
    ended_at TEXT NOT NULL,
    outcome TEXT NOT NULL
        CONSTRAINT outcome_known CHECK (outcome IN ('completed', 'failed', 'released', 'lease_expired', 'cancelled')),
    ended_by TEXT NOT NULL
        CONSTRAINT ended_by_known CHECK (ended_by IN ('complete', 'fail', 'release', 'expire')),
    -- Null for a claim of the first release.
    token_sha256 TEXT
        CONSTRAINT token_is_sha256 CHECK (length(token_sha256) = 64),
    error TEXT,
    PRIMARY KEY (job_id, attempt)
) WITHOUT ROWID;

-- A claim of the first release knows nothing of attempts.
CREATE TRIGGER attempt_starts AFTER UPDATE OF status ON jobs
WHEN NEW.status = 'running' AND OLD.status = 'pending' AND NEW.attempt = OLD.attempt
BEGIN
    UPDATE jobs SET attempt = NEW.attempt + 1, ended_by = NULL WHERE id = NEW.id;
END;

CREATE TRIGGER attempt_ends AFTER UPDATE OF status ON jobs
WHEN OLD.status = 'running' AND NEW.status <> 'running'
BEGIN
    INSERT OR REPLACE INTO attempts
    VALUES (
        NEW.id, iif(OLD.attempt > 0, OLD.attempt, OLD.retry_count + 1), OLD.worker_id, OLD.claimed_at, NEW.updated_at,
        CASE
            WHEN NEW.status = 'completed' THEN 'completed'
            WHEN OLD.cancel_requested THEN 'cancelled'
            WHEN NEW.ended_by = 'release' THEN 'released'
            WHEN NEW.ended_by = 'expire' THEN 'lease_expired'
            ELSE 'failed'
        END,
        coalesce(NEW.ended_by, iif(NEW.status = 'completed', 'complete', 'fail')),
        OLD.lease_token_sha256,
        iif(NEW.status = 'completed' OR NEW.ended_by = 'release', NULL, NEW.error)
    );
    -- It ran through the upgrade, so nobody has counted it; uncounted, the next attempt would take its place above.
    UPDATE jobs SET attempt = OLD.retry_count + 1 WHERE id = NEW.id AND attempt = 0;
END;

-- After a verb of the first release, which leaves the lease as it was and knows nothing of cancelling.
CREATE TRIGGER lease_ends AFTER UPDATE OF status ON jobs
WHEN NEW.status <> 'running'
    AND (NEW.lease_expires_at IS NOT NULL OR (NEW.status IN ('pending', 'failed') AND NEW.cancel_requested))
BEGIN
    UPDATE jobs
    SET
        status = iif(NEW.status IN ('pending', 'failed') AND NEW.cancel_requested, 'cancelled', NEW.status),
        lease_expires_at = NULL, lease_seconds = NULL, lease_token_sha256 = NULL, lease_token = NULL,
        claim_request_id = NULL, claim_fingerprint = NULL
    WHERE id = NEW.id;
END;

CREATE TRIGGER history_goes_with_its_job AFTER DELETE ON jobs
BEGIN
    DELETE FROM attempts WHERE job_id = OLD.id;
END;
