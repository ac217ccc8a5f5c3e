-- Returns whether a node other than `p_but`, or any if that is null, has claimed this attempt of a pending timer. A claim
-- also names members whose attempts have ended, until the last one's end.
--
-- Above READ COMMITTED the snapshot may be older than a claim, which does not change the row. A timer that is due by now,
-- or in a minute on an owner whose estimate of this clock is wrong, counts as claimed there.
CREATE OR REPLACE FUNCTION @schema@.is_claimed(p_shard smallint, p_id uuid, p_due bigint, p_attempt int, p_but bigint)
RETURNS bool LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed'
        AND p_due <= extract(epoch FROM clock_timestamp()) * 1000 + 60000 THEN
        RETURN true;
    END IF;
    RETURN EXISTS (
        SELECT FROM @schema@.claims c
        WHERE c.shard = p_shard AND c.node IS DISTINCT FROM p_but AND p_id = ANY (c.ids) AND EXISTS (
            SELECT FROM unnest(c.ids, c.dues, c.attempts) AS m(id, due, attempt)
            WHERE (m.id, m.due, m.attempt) = (p_id, p_due, p_attempt)
        )
    );
END
$$;

-- How tables are joined with elements of arrays. A plan is kept until the next VACUUM or ANALYZE, and may be for a table
-- with three rows: it would read all of an index, in each commit, also after many rows have come, or were removed behind
-- an old snapshot. Without a condition on it PostgreSQL reads an index for its order, which a merge join could use, or if
-- the index has all columns that count, or if it is partial and has the rows in question. So conditions on the first
-- column are `column = ANY (ARRAY[element])`, which no merge join can use. In the other two cases the table is in a
-- subquery that locks or has an offset, which every plan runs for each element.
--
-- A filter beside a look-up by another index is `IS NOT DISTINCT FROM`, which no index can use: `=` may be taken for a look
-- at a whole shard.

-- Changes of existing timers, each at most once: the operations with the numbers in `pick`, which are in the order of ids.
--
-- Kinds: 1 remove, 2 move, 3 dead letter, 4 park, 5 unpark, 6 requeue, 7 discard, 8 dead letter that continues. Bits of
-- `p_flags`: 1 << kind; 512 if there are rights of the kinds 2 and 3.
-- Rights: 0 owner, 1 claimant, 2 anyone, 3 owner of a shard with claims of former owners.
--
-- A timer is looked for at its known or first due time; then, in a later statement with a new snapshot, by its id among
-- the moved ones and the parked ones; then again, since it may have been taken from one place to another between two
-- looks. Rows are locked in the order of ids. Keys are locked after timers.
CREATE OR REPLACE FUNCTION @schema@.apply_operations(
    p_node bigint, p_flags int, pick int[],
    o_ord int[], o_kind smallint[], o_right smallint[], o_shard smallint[], o_id uuid[], o_first bigint[], o_at bigint[],
    o_due bigint[], o_nominal bigint[], o_attempt int[], o_repetition bigint[], o_dead_at bigint[], o_reason bytea[]
) RETURNS @schema@.outcome[] LANGUAGE plpgsql AS $$
DECLARE
    results @schema@.outcome[] := '{}';
    made @schema@.outcome[];
    these int[];
    hits int[] := '{}';
    others int[];
    other_dues bigint[];
    again int[];
    blocked int[] := '{}';
    at_dues bigint[];
    at_attempts int[];
    freed bytea[];
    freed_ids uuid[];
    kept uuid[];
BEGIN
    IF p_flags & 2 <> 0 THEN
        these := ARRAY(SELECT i FROM unnest(pick) AS i WHERE o_kind[i] = 1);
        again := these;
        FOR pass IN 1 .. 2 LOOP
            WITH gone AS (
                DELETE FROM @schema@.timers t USING unnest(again) AS o(i)
                WHERE t.shard = ANY (ARRAY[o_shard[o.i]]) AND t.due = coalesce(o_at[o.i], o_first[o.i]) AND t.id = o_id[o.i]
                RETURNING o.i, t.id, t.due, coalesce(t.attempt, 1) AS attempt, @schema@.key_of(t.record, t.stripped) AS key
            )
            SELECT hits || coalesce(array_agg(g.i), '{}'), freed || array_agg(g.key) FILTER (WHERE g.key IS NOT NULL),
                freed_ids || array_agg(g.id) FILTER (WHERE g.key IS NOT NULL),
                at_dues || array_agg(g.due) FILTER (WHERE p_flags & 512 <> 0),
                at_attempts || array_agg(g.attempt) FILTER (WHERE p_flags & 512 <> 0)
            INTO hits, freed, freed_ids, at_dues, at_attempts FROM gone g;
            EXIT WHEN cardinality(hits) = cardinality(these);
            again := ARRAY(SELECT i FROM unnest(these) AS i WHERE o_at[i] IS NULL EXCEPT SELECT unnest(hits) ORDER BY 1);
            EXIT WHEN again = '{}';
            SELECT array_agg(x.i), array_agg(x.due) INTO others, other_dues FROM (
                SELECT o.i, t.due FROM unnest(again) AS o(i) CROSS JOIN LATERAL (
                    SELECT t.due FROM @schema@.timers t
                    WHERE t.moved AND t.id = o_id[o.i] AND t.shard IS NOT DISTINCT FROM o_shard[o.i] FOR UPDATE
                ) t
            ) x;
            WITH moved AS (
                DELETE FROM @schema@.timers t USING unnest(others, other_dues) AS o(i, due)
                WHERE t.shard = ANY (ARRAY[o_shard[o.i]]) AND t.due = o.due AND t.id = o_id[o.i]
                RETURNING o.i, t.id, t.due, coalesce(t.attempt, 1) AS attempt, @schema@.key_of(t.record, t.stripped) AS key
            ), aside AS (
                DELETE FROM @schema@.parked p USING unnest(again) AS o(i)
                WHERE p.id = ANY (ARRAY[o_id[o.i]]) AND p.shard IS NOT DISTINCT FROM o_shard[o.i]
                RETURNING o.i, p.id, NULL::bigint AS due, NULL::int AS attempt, @schema@.key_of(p.record, p.stripped) AS key
            )
            SELECT hits || coalesce(array_agg(g.i), '{}'), freed || array_agg(g.key) FILTER (WHERE g.key IS NOT NULL),
                freed_ids || array_agg(g.id) FILTER (WHERE g.key IS NOT NULL),
                at_dues || array_agg(g.due) FILTER (WHERE p_flags & 512 <> 0),
                at_attempts || array_agg(g.attempt) FILTER (WHERE p_flags & 512 <> 0)
            INTO hits, freed, freed_ids, at_dues, at_attempts FROM (SELECT * FROM moved UNION ALL SELECT * FROM aside) g;
            again := ARRAY(SELECT i FROM unnest(again) AS i EXCEPT SELECT unnest(hits) ORDER BY 1);
            EXIT WHEN again = '{}';
        END LOOP;
        IF cardinality(hits) < cardinality(these) THEN
            results := results || ARRAY(
                SELECT ROW(o_ord[i], 4, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.outcome
                FROM (SELECT unnest(these) AS i EXCEPT SELECT unnest(hits)) missing
            );
        END IF;
        IF freed IS NOT NULL THEN
            DELETE FROM @schema@.keys k
            USING (SELECT f.key, f.id FROM unnest(freed, freed_ids) AS f(key, id) ORDER BY f.key) f
            WHERE k.key = ANY (ARRAY[f.key]) AND k.id = f.id;
        END IF;
        -- After the rows were locked: a claim of an owner names the timer, or that owner will find it missing.
        IF p_flags & 512 <> 0 THEN
            results := results || ARRAY(
                SELECT ROW(o_ord[h.i], 5, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.outcome
                FROM unnest(hits, at_dues, at_attempts) AS h(i, due, attempt)
                WHERE o_right[h.i] IN (2, 3) AND @schema@.is_claimed(
                    o_shard[h.i], o_id[h.i], h.due, h.attempt, CASE o_right[h.i] WHEN 3 THEN p_node END
                )
            );
        END IF;
    END IF;

    -- Moves, dead letters, parking: locate and lock.
    IF p_flags & (4 | 8 | 16 | 256) <> 0 THEN
        these := ARRAY(SELECT i FROM unnest(pick) AS i WHERE o_kind[i] IN (2, 3, 4, 8));
        again := these;
        hits := '{}';
        at_dues := '{}';
        FOR pass IN 1 .. 2 LOOP
            SELECT hits || coalesce(array_agg(x.i), '{}'), at_dues || coalesce(array_agg(x.due), '{}')
            INTO hits, at_dues FROM (
                SELECT o.i, t.due FROM unnest(again) AS o(i) CROSS JOIN LATERAL (
                    SELECT t.due FROM @schema@.timers t
                    WHERE t.shard = o_shard[o.i] AND t.due = coalesce(o_at[o.i], o_first[o.i]) AND t.id = o_id[o.i]
                    FOR UPDATE
                ) t
            ) x;
            EXIT WHEN cardinality(hits) = cardinality(these);
            again := ARRAY(SELECT i FROM unnest(these) AS i WHERE o_at[i] IS NULL EXCEPT SELECT unnest(hits) ORDER BY 1);
            EXIT WHEN again = '{}';
            SELECT hits || coalesce(array_agg(x.i), '{}'), at_dues || coalesce(array_agg(x.due), '{}')
            INTO hits, at_dues FROM (
                SELECT o.i, t.due FROM unnest(again) AS o(i) CROSS JOIN LATERAL (
                    SELECT t.due FROM @schema@.timers t
                    WHERE t.moved AND t.id = o_id[o.i] AND t.shard IS NOT DISTINCT FROM o_shard[o.i] FOR UPDATE
                ) t
            ) x;
            -- Parked ones stay so until they are looked for below.
            again := ARRAY(
                SELECT i FROM unnest(again) AS i EXCEPT SELECT unnest(hits) EXCEPT SELECT o.i FROM unnest(again) AS o(i)
                    CROSS JOIN LATERAL (
                        SELECT FROM @schema@.parked p
                        WHERE p.id = o_id[o.i] AND p.shard IS NOT DISTINCT FROM o_shard[o.i] FOR UPDATE
                    ) p
                ORDER BY 1
            );
            EXIT WHEN again = '{}';
        END LOOP;
        IF p_flags & 512 <> 0 THEN
            blocked := ARRAY(
                SELECT h.i FROM unnest(hits, at_dues) AS h(i, due) JOIN @schema@.timers t
                    ON t.shard = ANY (ARRAY[o_shard[h.i]]) AND t.due = h.due AND t.id = o_id[h.i]
                WHERE o_kind[h.i] = 2 AND o_right[h.i] IN (2, 3) AND @schema@.is_claimed(
                    t.shard, t.id, t.due, coalesce(t.attempt, 1), CASE o_right[h.i] WHEN 3 THEN p_node END
                )
            );
            IF blocked <> '{}' THEN
                results := results || ARRAY(
                    SELECT ROW(o_ord[i], 6, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.outcome
                    FROM unnest(blocked) AS i
                );
                SELECT coalesce(array_agg(h.i), '{}'), coalesce(array_agg(h.due), '{}') INTO hits, at_dues
                FROM unnest(hits, at_dues) AS h(i, due) WHERE h.i <> ALL (blocked);
            END IF;
        END IF;
        IF p_flags & (8 | 256) <> 0 THEN
            INSERT INTO @schema@.dead_letters
                (due, nominal, repetition, dead_at, id, attempt, shard, stripped, reason, record)
            SELECT t.due, t.nominal, t.repetition, o_dead_at[h.i], t.id, t.attempt, t.shard, t.stripped, o_reason[h.i], t.record
            FROM unnest(hits, at_dues) AS h(i, due) JOIN @schema@.timers t
                ON t.shard = ANY (ARRAY[o_shard[h.i]]) AND t.due = h.due AND t.id = o_id[h.i]
            WHERE o_kind[h.i] IN (3, 8)
            ON CONFLICT (id) DO UPDATE SET due = EXCLUDED.due, nominal = EXCLUDED.nominal,
                repetition = EXCLUDED.repetition, dead_at = EXCLUDED.dead_at, attempt = EXCLUDED.attempt,
                shard = EXCLUDED.shard, stripped = EXCLUDED.stripped, reason = EXCLUDED.reason, record = EXCLUDED.record;
        END IF;
        IF p_flags & (4 | 256) <> 0 THEN
            WITH changed AS (
                UPDATE @schema@.timers t SET
                    due = o_due[h.i],
                    nominal = CASE WHEN o_right[h.i] = 2 THEN NULL ELSE o_nominal[h.i] END,
                    attempt = CASE WHEN o_right[h.i] = 2 THEN t.attempt ELSE o_attempt[h.i] END,
                    repetition = CASE WHEN o_right[h.i] = 2 THEN t.repetition ELSE o_repetition[h.i] END,
                    moved = o_due[h.i] <> o_first[h.i],
                    arrived = CASE WHEN o_right[h.i] IN (1, 2) THEN pg_current_xact_id() END
                FROM unnest(hits, at_dues) AS h(i, due)
                WHERE o_kind[h.i] IN (2, 8) AND t.shard = ANY (ARRAY[o_shard[h.i]]) AND t.due = h.due AND t.id = o_id[h.i]
                RETURNING h.i, t.id, t.due, t.nominal, t.attempt, t.repetition, t.stripped, t.record
            )
            SELECT array_agg(ROW(o_ord[c.i], 7, c.id, c.due, c.nominal, c.attempt, c.repetition, c.stripped, c.record)::@schema@.outcome)
            INTO made FROM changed c;
            results := results || made;
        END IF;
        -- Any node may move a parked timer, which is pending then.
        IF p_flags & 512 <> 0 THEN
            again := ARRAY(
                SELECT i FROM unnest(these) AS i WHERE o_kind[i] = 2 AND o_right[i] = 2
                EXCEPT SELECT unnest(hits || blocked) ORDER BY 1
            );
            IF again <> '{}' THEN
                WITH gone AS (
                    DELETE FROM @schema@.parked p USING unnest(again) AS o(i)
                    WHERE p.id = ANY (ARRAY[o_id[o.i]]) AND p.shard IS NOT DISTINCT FROM o_shard[o.i]
                    RETURNING o.i, p.*
                ), back AS (
                    INSERT INTO @schema@.timers (due, nominal, repetition, arrived, id, attempt, shard, stripped, moved, record)
                    SELECT o_due[g.i], NULL, g.repetition, pg_current_xact_id(), g.id, g.attempt, g.shard, g.stripped,
                        o_due[g.i] <> o_first[g.i], g.record
                    FROM gone g
                )
                SELECT array_agg(ROW(o_ord[g.i], 7, g.id, o_due[g.i], NULL, g.attempt, g.repetition, g.stripped, g.record)::@schema@.outcome),
                    hits || coalesce(array_agg(g.i), '{}')
                INTO made, hits FROM gone g;
                results := results || made;
            END IF;
        END IF;
        IF p_flags & 8 <> 0 THEN
            WITH gone AS (
                DELETE FROM @schema@.timers t USING unnest(hits, at_dues) AS h(i, due)
                WHERE o_kind[h.i] = 3 AND t.shard = ANY (ARRAY[o_shard[h.i]]) AND t.due = h.due AND t.id = o_id[h.i]
                RETURNING t.id, @schema@.key_of(t.record, t.stripped) AS key
            )
            SELECT array_agg(g.key), array_agg(g.id) INTO freed, freed_ids FROM gone g WHERE g.key IS NOT NULL;
            DELETE FROM @schema@.keys k
            USING (SELECT f.key, f.id FROM unnest(freed, freed_ids) AS f(key, id) ORDER BY f.key) f
            WHERE k.key = ANY (ARRAY[f.key]) AND k.id = f.id;
        END IF;
        IF p_flags & 16 <> 0 THEN
            WITH gone AS (
                DELETE FROM @schema@.timers t USING unnest(hits, at_dues) AS h(i, due)
                WHERE o_kind[h.i] = 4 AND t.shard = ANY (ARRAY[o_shard[h.i]]) AND t.due = h.due AND t.id = o_id[h.i]
                RETURNING t.*
            ), wanted AS (
                INSERT INTO @schema@.wanted_routes (shard, route)
                SELECT DISTINCT g.shard, @schema@.route_of(g.record) FROM gone g
                ON CONFLICT DO NOTHING
            )
            INSERT INTO @schema@.parked (due, nominal, repetition, id, attempt, shard, stripped, record)
            SELECT g.due, g.nominal, g.repetition, g.id, g.attempt, g.shard, g.stripped, g.record FROM gone g;
        END IF;
        IF cardinality(hits) + cardinality(blocked) < cardinality(these) THEN
            results := results || ARRAY(
                SELECT ROW(o_ord[i], 4, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.outcome
                FROM (SELECT unnest(these) AS i EXCEPT SELECT unnest(hits || blocked)) missing
            );
        END IF;
    END IF;

    IF p_flags & 32 <> 0 THEN
        these := ARRAY(SELECT i FROM unnest(pick) AS i WHERE o_kind[i] = 5);
        WITH gone AS (
            DELETE FROM @schema@.parked p USING unnest(these) AS o(i)
            WHERE p.id = ANY (ARRAY[o_id[o.i]]) AND p.shard IS NOT DISTINCT FROM o_shard[o.i]
            RETURNING o.i, p.*
        ), back AS (
            INSERT INTO @schema@.timers (due, nominal, repetition, id, attempt, shard, stripped, moved, record)
            SELECT g.due, g.nominal, g.repetition, g.id, g.attempt, g.shard, g.stripped, g.due <> o_first[g.i], g.record
            FROM gone g
        )
        SELECT array_agg(ROW(o_ord[g.i], 7, g.id, g.due, g.nominal, g.attempt, g.repetition, g.stripped, g.record)::@schema@.outcome),
            coalesce(array_agg(g.i), '{}')
        INTO made, hits FROM gone g;
        results := results || made || ARRAY(
            SELECT ROW(o_ord[i], 4, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.outcome
            FROM (SELECT unnest(these) AS i EXCEPT SELECT unnest(hits)) missing
        );
    END IF;

    IF p_flags & 128 <> 0 THEN
        these := ARRAY(SELECT i FROM unnest(pick) AS i WHERE o_kind[i] = 7);
        WITH gone AS (
            DELETE FROM @schema@.dead_letters d USING unnest(these) AS o(i)
            WHERE d.id = ANY (ARRAY[o_id[o.i]]) AND d.shard IS NOT DISTINCT FROM o_shard[o.i]
            RETURNING o.i
        )
        SELECT coalesce(array_agg(g.i), '{}') INTO hits FROM gone g;
        results := results || ARRAY(
            SELECT ROW(o_ord[i], 4, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.outcome
            FROM (SELECT unnest(these) AS i EXCEPT SELECT unnest(hits)) missing
        );
    END IF;

    -- A dead letter returns with its key, if that is free, and without its repetition.
    IF p_flags & 64 <> 0 THEN
        these := ARRAY(SELECT i FROM unnest(pick) AS i WHERE o_kind[i] = 6 ORDER BY o_ord[i]);
        again := ARRAY(
            SELECT i FROM unnest(these) AS i WHERE NOT @schema@.is_there(o_shard[i], o_first[i], o_id[i])
                AND NOT EXISTS (SELECT FROM @schema@.parked p WHERE p.id = o_id[i] OFFSET 0)
        );
        SELECT coalesce(array_agg(x.i), '{}') INTO again FROM (
            SELECT o.i FROM unnest(again) AS o(i) CROSS JOIN LATERAL (
                SELECT FROM @schema@.dead_letters d
                WHERE d.id = o_id[o.i] AND d.shard IS NOT DISTINCT FROM o_shard[o.i] FOR UPDATE
            ) d
        ) x;
        WITH new AS (
            INSERT INTO @schema@.keys (key, id)
            SELECT f.key, f.id FROM (
                SELECT @schema@.key_of(d.record, d.stripped) AS key, d.id, o_ord[o.i] AS ord
                FROM unnest(again) AS o(i) JOIN @schema@.dead_letters d ON d.id = ANY (ARRAY[o_id[o.i]])
            ) f WHERE f.key IS NOT NULL ORDER BY f.key, f.ord
            ON CONFLICT (key) DO NOTHING
            RETURNING id
        )
        SELECT coalesce(array_agg(n.id), '{}') INTO kept FROM new n;
        WITH gone AS (
            DELETE FROM @schema@.dead_letters d USING unnest(again) AS o(i)
            WHERE d.id = ANY (ARRAY[o_id[o.i]]) AND d.shard IS NOT DISTINCT FROM o_shard[o.i]
            RETURNING o.i, d.id, d.shard, d.repetition, nullif(coalesce(d.nominal, d.due), o_due[o.i]) AS nominal, d.record,
                (coalesce(d.stripped, 0) | 1 | CASE
                    WHEN @schema@.key_of(d.record, d.stripped) IS NULL OR d.id = ANY (kept) THEN 0 ELSE 2
                END)::smallint AS stripped
        ), back AS (
            INSERT INTO @schema@.timers (due, nominal, repetition, arrived, id, shard, stripped, moved, record)
            SELECT o_due[g.i], g.nominal, g.repetition, CASE WHEN o_right[g.i] = 2 THEN pg_current_xact_id() END,
                g.id, g.shard, g.stripped, o_due[g.i] <> o_first[g.i], g.record
            FROM gone g
        )
        SELECT array_agg(ROW(o_ord[g.i], 7, g.id, o_due[g.i], g.nominal, NULL, g.repetition, g.stripped, g.record)::@schema@.outcome),
            coalesce(array_agg(g.i), '{}')
        INTO made, hits FROM gone g;
        results := results || made || ARRAY(
            SELECT ROW(o_ord[i], 4, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.outcome
            FROM (SELECT unnest(these) AS i EXCEPT SELECT unnest(hits)) missing
        );
    END IF;
    RETURN results;
END
$$;
