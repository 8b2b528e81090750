SELECT worker_id, jobs FROM holders ORDER BY worker_id;
