SELECT status, type, priority, jobs FROM counts WHERE jobs > 0 ORDER BY status, type, priority DESC;
