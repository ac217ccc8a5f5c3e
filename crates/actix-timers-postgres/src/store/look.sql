-- Returns pending timers after a position and due up to $8: at most $9 unmoved ones by the primary key, after $5, and as many
-- moved ones by their index, after ($6, $7). $2 are routes and types with the character 31 between, beside their newest versions
-- ($3) and budgets ($4). A row without an id names the paused routes. Rows whose ids are of another version, by a hand, are left
-- out: they would fill the limit.
WITH p AS MATERIALIZED (SELECT @schema@.paused($1::bigint) AS names)
SELECT NULL::uuid AS id, 0::bigint AS due, 0::bigint AS nominal, 0 AS type, false AS is_suspect, array_to_string(p.names, chr(31)) AS paused
FROM p WHERE p.names <> '{}'
UNION ALL (
    SELECT t.id, t.due, t.nominal, s.at, @schema@.is_suspect(t.used, t.max_attempts, ($4::int[])[s.at]), NULL
    FROM @schema@.timers t CROSS JOIN LATERAL (SELECT array_position($2::text[], t.route || chr(31) || t.message_type) AS at OFFSET 0) s
    WHERE NOT t.moved AND t.id > $5::uuid AND t.id < @schema@.first_id($8::bigint + 1)
        AND coalesce(t.node, 0) = 0 AND coalesce(t.parked, '') = '' AND coalesce(t.ended, 0) = 0 AND t.message_version <= ($3::int[])[s.at]
        AND (SELECT chr(30) <> ALL (p.names) FROM p) AND t.route <> ALL ((SELECT p.names FROM p)::text[]) AND get_byte(uuid_send(t.id), 6) >> 4 = 8
    ORDER BY t.id LIMIT $9::bigint
) UNION ALL (
    SELECT t.id, t.due, t.nominal, s.at, @schema@.is_suspect(t.used, t.max_attempts, ($4::int[])[s.at]), NULL
    FROM @schema@.timers t CROSS JOIN LATERAL (SELECT array_position($2::text[], t.route || chr(31) || t.message_type) AS at OFFSET 0) s
    WHERE t.moved AND (t.due, t.id) > ($6::bigint, $7::uuid) AND t.due <= $8
        AND coalesce(t.node, 0) = 0 AND coalesce(t.parked, '') = '' AND coalesce(t.ended, 0) = 0 AND t.message_version <= ($3::int[])[s.at]
        AND (SELECT chr(30) <> ALL (p.names) FROM p) AND t.route <> ALL ((SELECT p.names FROM p)::text[]) AND get_byte(uuid_send(t.id), 6) >> 4 = 8
    ORDER BY t.due, t.id LIMIT $9
)
