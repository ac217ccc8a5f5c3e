-- Returns pending timers after a position and due up to $8, among $9 rows of each order: unmoved ones by the primary key, after $5,
-- where moved ones are passed over, and those by their index, after ($6, $7). The last of $9 rows is returned in any case, with the due
-- time of its position in `ends_at`: there may be more; with type 0 it is nothing else. $2 are routes and types with the character 31
-- between, beside their newest versions ($3) and budgets ($4). A row without an id names the paused routes.
WITH p AS MATERIALIZED (SELECT @schema@.paused($1::bigint) AS names)
SELECT NULL::uuid AS id, 0::bigint AS due, 0::bigint AS nominal, 0 AS type, false AS is_suspect, array_to_string(p.names, chr(31)) AS paused,
    NULL::bigint AS ends_at
FROM p WHERE p.names <> '{}'
UNION ALL
SELECT t.id, t.due, t.nominal, CASE WHEN t.message_version <= ($3::int[])[s.at] THEN s.at ELSE 0 END,
    @schema@.is_suspect(t.used, t.max_attempts, ($4::int[])[s.at]), NULL,
    CASE WHEN t.number = $9 THEN CASE WHEN t.is_by_due THEN t.due ELSE @schema@.first_due(t.id) END END
FROM ((
    SELECT i.* FROM (
        SELECT t.id, t.due, t.moved, false AS is_by_due, t.nominal, t.route, t.message_type, t.message_version, t.used,
            t.max_attempts, t.node, t.parked, t.ended, row_number() OVER (ORDER BY t.id) AS number FROM @schema@.timers t
        WHERE t.id > $5::uuid AND t.id < @schema@.first_id($8::bigint + 1) AND (SELECT chr(30) <> ALL (p.names) FROM p)
        ORDER BY t.id LIMIT $9::bigint
    ) i WHERE NOT i.moved OR i.number = $9
) UNION ALL (
    SELECT t.id, t.due, t.moved, true, t.nominal, t.route, t.message_type, t.message_version, t.used,
        t.max_attempts, t.node, t.parked, t.ended, row_number() OVER (ORDER BY t.due, t.id) FROM @schema@.timers t
    WHERE t.moved AND (t.due, t.id) > ($6::bigint, $7::uuid) AND t.due <= $8 AND (SELECT chr(30) <> ALL (p.names) FROM p)
    ORDER BY t.due, t.id LIMIT $9
)) t
CROSS JOIN LATERAL (
    SELECT CASE WHEN t.moved = t.is_by_due AND coalesce(t.node, 0) = 0 AND coalesce(t.parked, '') = '' AND coalesce(t.ended, 0) = 0
        AND t.route <> ALL ((SELECT p.names FROM p)::text[])
        THEN array_position($2::text[], t.route || chr(31) || t.message_type) END AS at OFFSET 0
) s
WHERE t.message_version <= ($3::int[])[s.at] OR t.number = $9
