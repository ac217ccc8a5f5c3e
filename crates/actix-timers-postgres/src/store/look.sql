-- Returns pending timers after a position and due up to $8, among $9 rows of each order: unmoved ones by the primary key, after $5, and
-- moved ones by their index, after ($6, $7). Where there may be more, a row of type 0 names the last one. $2 are routes and types with
-- the character 31 between, beside their newest versions ($3) and budgets ($4). A row without an id names the paused routes.
WITH p AS MATERIALIZED (SELECT @schema@.paused($1::bigint) AS names), unmoved AS MATERIALIZED (
    SELECT t.id, t.due, t.nominal, t.route, t.message_type, t.message_version, t.used, t.max_attempts,
        coalesce(t.node, 0) = 0 AND coalesce(t.parked, '') = '' AND coalesce(t.ended, 0) = 0 AS is_free
    FROM @schema@.timers t
    WHERE NOT t.moved AND t.id > $5::uuid AND t.id < @schema@.first_id($8::bigint + 1) AND (SELECT chr(30) <> ALL (p.names) FROM p)
    ORDER BY t.id LIMIT $9::bigint
), moved AS MATERIALIZED (
    SELECT t.id, t.due, t.nominal, t.route, t.message_type, t.message_version, t.used, t.max_attempts,
        coalesce(t.node, 0) = 0 AND coalesce(t.parked, '') = '' AND coalesce(t.ended, 0) = 0 AS is_free
    FROM @schema@.timers t
    WHERE t.moved AND (t.due, t.id) > ($6::bigint, $7::uuid) AND t.due <= $8 AND (SELECT chr(30) <> ALL (p.names) FROM p)
    ORDER BY t.due, t.id LIMIT $9
)
SELECT NULL::uuid AS id, 0::bigint AS due, 0::bigint AS nominal, 0 AS type, false AS is_suspect, array_to_string(p.names, chr(31)) AS paused
FROM p WHERE p.names <> '{}'
UNION ALL
SELECT t.id, t.due, t.nominal, s.at, @schema@.is_suspect(t.used, t.max_attempts, ($4::int[])[s.at]), NULL
FROM (SELECT u.* FROM unmoved u UNION ALL SELECT m.* FROM moved m) t
CROSS JOIN LATERAL (SELECT array_position($2::text[], t.route || chr(31) || t.message_type) AS at OFFSET 0) s
WHERE t.is_free AND t.message_version <= ($3::int[])[s.at] AND t.route <> ALL ((SELECT p.names FROM p)::text[])
UNION ALL
(SELECT u.id, @schema@.first_due(u.id), 0, 0, false, NULL FROM unmoved u ORDER BY u.id OFFSET $9 - 1)
UNION ALL
(SELECT m.id, m.due, 0, 0, false, NULL FROM moved m ORDER BY m.due, m.id OFFSET $9 - 1)
