-- The last of them only, for there is no end to releases, and an answer has one.
SELECT * FROM (SELECT * FROM attempts WHERE job_id = :id ORDER BY attempt DESC LIMIT :most) ORDER BY attempt;
