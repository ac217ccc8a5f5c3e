-- Returns whether a pending timer has this place, or was moved and has this id.
CREATE OR REPLACE FUNCTION @schema@.is_there(p_shard smallint, p_due bigint, p_id uuid) RETURNS bool
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM @schema@.timers t WHERE t.shard = p_shard AND t.due = p_due AND t.id = p_id)
        OR EXISTS (SELECT FROM @schema@.timers t WHERE t.moved AND t.id = p_id);
END
$$;

-- New timers with keys, from `k_from` to `k_to`, which are in the order of these.
--
-- For each key: insert it; another statement, with a new snapshot, reads the holders of those not inserted. A holder that
-- is replaced is removed first, so that timers are locked before keys. If it vanishes meanwhile, the key is tried again.
-- Bits of `p_flags`: 1024 if some keys are to be replaced; 2048 if some timers may be there already, which stay as they
-- are.
CREATE OR REPLACE FUNCTION @schema@.apply_keyed_puts(
    p_node bigint, p_flags int, k_from int, k_to int,
    k_ord int[], k_right smallint[], k_shard smallint[], k_id uuid[], k_due bigint[], k_nominal bigint[], k_attempt int[],
    k_repetition bigint[], k_moved bool[], k_record bytea[], k_key bytea[], k_replace bool[]
) RETURNS @schema@.outcome[] LANGUAGE plpgsql AS $$
DECLARE
    results @schema@.outcome[] := '{}';
    todo int[];
    hits int[];
    gone_of int[];
    holders uuid[];
    others int[];
    other_ids uuid[];
    other_dues bigint[];
    gone_ids uuid[];
    gone_dues bigint[];
    gone_attempts int[];
    fresh uuid[];
    tries int := 0;
BEGIN
    todo := ARRAY(SELECT generate_series(k_from, k_to));
    LOOP
        tries := tries + 1;
        IF tries > 50 THEN
            RAISE EXCEPTION 'a key changes its holder again and again' USING ERRCODE = 'serialization_failure';
        END IF;
        IF p_flags & 1024 <> 0 THEN
            SELECT coalesce(array_agg(x.i), '{}'), array_agg(x.id) INTO hits, holders FROM (
                SELECT o.i, k.id FROM unnest(todo) AS o(i) JOIN @schema@.keys k ON k.key = ANY (ARRAY[k_key[o.i]])
                WHERE k_replace[o.i] AND k.id <> k_id[o.i] ORDER BY k.id
            ) x;
            IF hits <> '{}' THEN
                WITH gone AS (
                    DELETE FROM @schema@.timers t USING unnest(hits, holders) AS h(i, id)
                    WHERE t.shard = ANY (ARRAY[@schema@.shard_of(h.id)]) AND t.due = @schema@.first_due_of(h.id) AND t.id = h.id
                    RETURNING h.i, h.id, t.due, coalesce(t.attempt, 1) AS attempt
                )
                SELECT coalesce(array_agg(g.i), '{}'), array_agg(g.id), array_agg(g.due), array_agg(g.attempt)
                INTO gone_of, gone_ids, gone_dues, gone_attempts FROM gone g;
                IF cardinality(gone_of) < cardinality(hits) THEN
                    SELECT array_agg(x.i), array_agg(x.id), array_agg(x.due) INTO others, other_ids, other_dues FROM (
                        SELECT h.i, h.id, t.due FROM unnest(hits, holders) AS h(i, id) CROSS JOIN LATERAL (
                            SELECT t.due FROM @schema@.timers t WHERE t.moved AND t.id = h.id FOR UPDATE
                        ) t
                    ) x;
                    WITH moved AS (
                        DELETE FROM @schema@.timers t USING unnest(others, other_ids, other_dues) AS h(i, id, due)
                        WHERE t.shard = ANY (ARRAY[@schema@.shard_of(h.id)]) AND t.due = h.due AND t.id = h.id
                        RETURNING h.i, h.id, t.due, coalesce(t.attempt, 1) AS attempt
                    ), aside AS (
                        DELETE FROM @schema@.parked p USING unnest(hits, holders) AS h(i, id)
                        WHERE p.id = ANY (ARRAY[h.id])
                        RETURNING h.i, h.id, NULL::bigint AS due, NULL::int AS attempt
                    )
                    SELECT gone_of || coalesce(array_agg(g.i), '{}'), gone_ids || array_agg(g.id),
                        gone_dues || array_agg(g.due), gone_attempts || array_agg(g.attempt)
                    INTO gone_of, gone_ids, gone_dues, gone_attempts FROM (SELECT * FROM moved UNION ALL SELECT * FROM aside) g;
                END IF;
                DELETE FROM @schema@.keys k
                USING (SELECT k_key[g.i] AS key, g.id FROM unnest(gone_of, gone_ids) AS g(i, id) ORDER BY g.i) g
                WHERE k.key = ANY (ARRAY[g.key]) AND k.id = g.id;
                results := results || ARRAY(
                    SELECT ROW(k_ord[g.i], CASE WHEN @schema@.is_claimed(
                        @schema@.shard_of(g.id), g.id, g.due, g.attempt,
                        CASE WHEN k_right[g.i] = 2 OR @schema@.shard_of(g.id) <> k_shard[g.i] THEN NULL ELSE p_node END
                    ) THEN 3 ELSE 2 END, g.id, NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.outcome
                    FROM unnest(gone_of, gone_ids, gone_dues, gone_attempts) AS g(i, id, due, attempt)
                );
            END IF;
        END IF;
        WITH new AS (
            INSERT INTO @schema@.keys (key, id) SELECT k_key[i], k_id[i] FROM unnest(todo) AS i
            ON CONFLICT (key) DO NOTHING
            RETURNING id
        )
        SELECT coalesce(array_agg(n.id), '{}') INTO fresh FROM new n;
        IF cardinality(fresh) = cardinality(todo) THEN
            hits := todo;
        ELSE
            hits := ARRAY(SELECT i FROM unnest(todo) AS i WHERE k_id[i] IN (SELECT unnest(fresh)));
        END IF;
        INSERT INTO @schema@.timers (due, nominal, repetition, arrived, id, attempt, shard, moved, record)
        SELECT k_due[i], k_nominal[i], k_repetition[i], CASE WHEN k_right[i] = 2 THEN pg_current_xact_id() END,
            k_id[i], k_attempt[i], k_shard[i], coalesce(k_moved[i], false), k_record[i]
        FROM unnest(hits) AS i
        WHERE p_flags & 2048 = 0 OR NOT @schema@.is_there(k_shard[i], k_due[i], k_id[i]);
        EXIT WHEN cardinality(hits) = cardinality(todo);
        todo := ARRAY(SELECT unnest(todo) AS i EXCEPT SELECT unnest(hits) ORDER BY 1);
        SELECT coalesce(array_agg(x.i), '{}'), array_agg(x.id) INTO hits, holders FROM (
            SELECT o.i, k.id FROM unnest(todo) AS o(i) JOIN @schema@.keys k ON k.key = ANY (ARRAY[k_key[o.i]])
            WHERE k.id = k_id[o.i] OR NOT k_replace[o.i]
        ) x;
        results := results || ARRAY(
            SELECT ROW(k_ord[h.i], 1, h.id, NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.outcome
            FROM unnest(hits, holders) AS h(i, id) WHERE h.id <> k_id[h.i]
        );
        EXIT WHEN cardinality(hits) = cardinality(todo);
        todo := ARRAY(SELECT unnest(todo) AS i EXCEPT SELECT unnest(hits) ORDER BY 1);
    END LOOP;
    RETURN results;
END
$$;
