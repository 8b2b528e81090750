-- Version 1.2: what must look at every row once. The sweep applies it, since it has the time; a new file gets it at
-- once. Until then leases are not taken back, nothing is retained or counted, and /stats says 503, as does a claim with
-- a Claim-Request-Id.

-- The leases that a Claim-Request-Id gave. Even an index that no row belongs to is made by reading them all.
CREATE INDEX jobs_claim_request ON jobs (worker_id, claim_request_id) WHERE claim_request_id IS NOT NULL;

-- Leases by the time at which they end, for claims and the sweep to take back. Those of the first release have none,
-- and count from claimed_at.
CREATE INDEX jobs_leased ON jobs (type, lease_expires_at, claimed_at) WHERE status = 'running';

-- Ended jobs by the time at which they ended, for retention and for retrying many.
CREATE INDEX jobs_ended ON jobs (status, updated_at, id) WHERE status IN ('completed', 'failed', 'cancelled');

-- How many jobs there are of each kind, and when the last one became so.
CREATE TABLE counts (
    status TEXT NOT NULL,
    type TEXT NOT NULL,
    priority INTEGER NOT NULL,
    jobs INTEGER NOT NULL
        CONSTRAINT jobs_not_negative CHECK (jobs >= 0),
    entered_at TEXT NOT NULL,
    PRIMARY KEY (status, type, priority)
) WITHOUT ROWID;

-- How many jobs each worker holds.
CREATE TABLE holders (
    worker_id TEXT NOT NULL PRIMARY KEY,
    jobs INTEGER NOT NULL
        CONSTRAINT jobs_not_negative CHECK (jobs >= 0)
) WITHOUT ROWID;

UPDATE jobs SET attempt = retry_count + 1 WHERE status = 'running' AND attempt = 0;

INSERT INTO counts
SELECT status, type, priority, count(*), max(updated_at) FROM jobs GROUP BY status, type, priority;

INSERT INTO holders
SELECT worker_id, count(*) FROM jobs WHERE status = 'running' GROUP BY worker_id;

CREATE TRIGGER count_new AFTER INSERT ON jobs
BEGIN
    INSERT INTO counts VALUES (NEW.status, NEW.type, NEW.priority, 1, NEW.updated_at)
    ON CONFLICT DO UPDATE SET jobs = jobs + 1, entered_at = excluded.entered_at;
END;

CREATE TRIGGER count_moved AFTER UPDATE OF status ON jobs
WHEN OLD.status <> NEW.status
BEGIN
    UPDATE counts SET jobs = jobs - 1
    WHERE status = OLD.status AND type = OLD.type AND priority = OLD.priority;
    INSERT INTO counts VALUES (NEW.status, NEW.type, NEW.priority, 1, NEW.updated_at)
    ON CONFLICT DO UPDATE SET jobs = jobs + 1, entered_at = excluded.entered_at;
END;

CREATE TRIGGER count_held AFTER UPDATE OF status ON jobs
WHEN NEW.status = 'running' AND OLD.status <> 'running'
BEGIN
    INSERT INTO holders VALUES (NEW.worker_id, 1) ON CONFLICT DO UPDATE SET jobs = jobs + 1;
END;

CREATE TRIGGER count_let_go AFTER UPDATE OF status ON jobs
WHEN OLD.status = 'running' AND NEW.status <> 'running'
BEGIN
    UPDATE holders SET jobs = jobs - 1 WHERE worker_id = OLD.worker_id;
    DELETE FROM holders WHERE worker_id = OLD.worker_id AND jobs = 0;
END;

CREATE TRIGGER count_deleted AFTER DELETE ON jobs
BEGIN
    UPDATE counts SET jobs = jobs - 1
    WHERE status = OLD.status AND type = OLD.type AND priority = OLD.priority;
END;
