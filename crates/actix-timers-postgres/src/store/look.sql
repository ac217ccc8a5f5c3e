-- Returns pending timers after a position and due up to $8, among $9 rows of each order: unmoved ones by the primary key, after $5,
-- where moved ones are passed over, and those by their index, after ($6, $7). A row of type 0 names the last of $9 rows, with the due
-- time of its position in `ends_at`: there may be more. $2 are routes and types with the character 31 between, beside their newest
-- versions ($3) and budgets ($4). Timers of other nodes than that at the place $11 of $10 are left out if they are due after $12. A row
-- without an id names the paused routes.
WITH p AS MATERIALIZED (SELECT @schema@.paused($1::bigint) AS names),
u AS MATERIALIZED (
    SELECT t.id, t.due, t.nominal, t.message_version AS version, t.used, t.max_attempts,
        CASE WHEN NOT t.moved AND coalesce(t.node, 0) = 0 AND coalesce(t.parked, '') = '' AND coalesce(t.ended, 0) = 0
            AND t.route <> ALL ((SELECT p.names FROM p)::text[])
            AND (@schema@.share_of(t.id, $10::int) = $11::int OR t.due <= $12::bigint)
        THEN array_position($2::text[], t.route || chr(31) || t.message_type) END AS at
    FROM @schema@.timers t
    WHERE t.id > $5::uuid AND t.id < @schema@.first_id($8::bigint + 1) AND (SELECT chr(30) <> ALL (p.names) FROM p)
    ORDER BY t.id LIMIT $9::bigint
), m AS MATERIALIZED (
    SELECT t.id, t.due, t.nominal, t.message_version AS version, t.used, t.max_attempts,
        CASE WHEN coalesce(t.node, 0) = 0 AND coalesce(t.parked, '') = '' AND coalesce(t.ended, 0) = 0
            AND t.route <> ALL ((SELECT p.names FROM p)::text[])
            AND (@schema@.share_of(t.id, $10::int) = $11::int OR t.due <= $12::bigint)
        THEN array_position($2, t.route || chr(31) || t.message_type) END AS at
    FROM @schema@.timers t
    WHERE t.moved AND (t.due, t.id) > ($6::bigint, $7::uuid) AND t.due <= $8 AND (SELECT chr(30) <> ALL (p.names) FROM p)
    ORDER BY t.due, t.id LIMIT $9
)
SELECT NULL::uuid AS id, 0::bigint AS due, 0::bigint AS nominal, 0 AS type, false AS is_suspect, array_to_string(p.names, chr(31)) AS paused,
    NULL::bigint AS ends_at
FROM p WHERE p.names <> '{}'
UNION ALL SELECT e.id, 0, 0, 0, false, NULL, @schema@.first_due(e.id) FROM (SELECT u.id FROM u OFFSET $9 - 1 LIMIT 1) e
UNION ALL SELECT e.id, 0, 0, 0, false, NULL, e.due FROM (SELECT m.id, m.due FROM m OFFSET $9 - 1 LIMIT 1) e
UNION ALL SELECT t.id, t.due, t.nominal, t.at, @schema@.is_suspect(t.used, t.max_attempts, ($4::int[])[t.at]), NULL, NULL
FROM (SELECT * FROM u UNION ALL SELECT * FROM m) t WHERE t.version <= ($3::int[])[t.at]
