-- Returns those of the timers $2 that are pending and served, with their due times, and whether these were over at $6, the time of
-- the claim that has not returned them; $3 to $5 are as they were then. A row without an id names the paused routes.
WITH n AS MATERIALIZED (
    SELECT @schema@.paused(n.id) AS paused FROM @schema@.nodes n WHERE n.id = $1::bigint AND NOT n.dead
)
SELECT NULL::uuid AS id, 0::bigint AS due, false AS is_due, false AS is_suspect, array_to_string(n.paused, chr(31)) AS paused
FROM n WHERE n.paused <> '{}'
UNION ALL
SELECT t.id, t.due, t.due <= $6::bigint, @schema@.is_suspect(t.used, t.max_attempts, ($5::int[])[s.at]), NULL
FROM @schema@.timers t CROSS JOIN LATERAL (SELECT array_position($3::text[], t.route || chr(31) || t.message_type) AS at OFFSET 0) s
WHERE t.id = ANY ($2::uuid[]) AND coalesce(t.node, 0) = 0 AND coalesce(t.parked, '') = '' AND coalesce(t.ended, 0) = 0
    AND t.message_version <= ($4::int[])[s.at]
    AND (SELECT chr(30) <> ALL (n.paused) FROM n) AND t.route <> ALL ((SELECT n.paused FROM n)::text[])
