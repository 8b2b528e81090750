-- When a job of this type was last claimed.
SELECT max(entered_at) AS moment FROM counts WHERE status = 'running' AND type = :type;
