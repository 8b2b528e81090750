-- The plus keeps SQLite from looking through all ended jobs in jobs_ended instead.
DELETE FROM jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND +status IN ('completed', 'failed', 'cancelled');
