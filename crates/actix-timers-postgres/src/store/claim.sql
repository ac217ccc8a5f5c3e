-- Locks the row of the node, in a statement of its own: a claim after the release of the node finds that row gone. Returns a time
-- before that of the claim.
SELECT least(n.claimed_until, @schema@.server_now()) FROM @schema@.nodes n WHERE n.id = $1::bigint AND NOT n.dead FOR KEY SHARE;

-- Claims the timers among $2 that are pending, due and served, and returns them. $3 are routes and types with the character 31
-- between, beside their newest versions ($4) and budgets ($5). With $6 it claims suspects, else the others; with $7 nothing else runs.
--
-- A claim takes payloads up to the first one with which they exceed 8 MiB. `coalesce` keeps the planner from all indexes but the primary key.
WITH n AS MATERIALIZED (
    -- Not beyond the bound of the node's claims, which a clock set forward outruns until the next beat.
    SELECT least(n.claimed_until, @schema@.server_now()) AS now, @schema@.paused(n.id) AS paused
    FROM @schema@.nodes n WHERE n.id = $1 AND NOT n.dead
), held AS MATERIALIZED (
    SELECT t.ctid AS place, octet_length(t.payload) AS size FROM @schema@.timers t
    WHERE t.id = ANY ($2::uuid[]) AND coalesce(t.node, 0) = 0 AND coalesce(t.parked, '') = '' AND coalesce(t.ended, 0) = 0
        AND t.due <= (SELECT n.now FROM n)
        AND t.message_version <= ($4::int[])[array_position($3::text[], t.route || chr(31) || t.message_type)]
        AND (SELECT chr(30) <> ALL (n.paused) FROM n) AND t.route <> ALL ((SELECT n.paused FROM n)::text[])
        AND $6::boolean = @schema@.is_suspect(t.used, t.max_attempts,
            ($5::int[])[array_position($3, t.route || chr(31) || t.message_type)])
    ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
), taken AS (
    SELECT h.place FROM (SELECT h.place, sum(h.size) OVER (ROWS UNBOUNDED PRECEDING) - h.size AS before FROM held h) h
    WHERE h.before < 8388608
)
UPDATE @schema@.timers t SET node = $1, attempt = t.attempt + 1, used = t.used + 1, alone = $7::boolean
FROM taken h WHERE t.ctid = h.place RETURNING @columns@
