-- The types that a claim looks at: those of :types, a JSON array, or when it is null all that are present.
SELECT value AS type FROM json_each(:types)
UNION ALL
SELECT type FROM ($present_types) WHERE :types IS NULL
