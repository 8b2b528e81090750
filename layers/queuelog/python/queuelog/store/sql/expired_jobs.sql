-- Running jobs of the wanted types whose lease has ended, the earliest of each type first and some of each at the most.
-- A job that the first release claimed has no lease, and counts as leased until :unleased_since was its claimed_at.
SELECT jobs.id
FROM (
    SELECT value AS type FROM json_each(:types)
    UNION ALL
    SELECT type FROM ($running_types) WHERE :types IS NULL
) AS wanted
JOIN jobs ON jobs.id IN (
    SELECT id FROM (
        SELECT id FROM jobs AS leased
        WHERE leased.status = 'running' AND leased.type = wanted.type AND leased.lease_expires_at <= :now
        ORDER BY leased.lease_expires_at LIMIT :most
    )
    UNION ALL
    SELECT id FROM (
        SELECT id FROM jobs AS unleased
        WHERE unleased.status = 'running' AND unleased.type = wanted.type
            AND unleased.lease_expires_at IS NULL AND unleased.claimed_at <= :unleased_since
        ORDER BY unleased.claimed_at LIMIT :most
    )
)
LIMIT :most
