-- One commit: groups of changes, divided into steps by the client. In a step no id and no key occurs twice.
--
-- Returns the outcomes that are not the usual ones. If groups are fenced, nothing is written, and only these are returned
-- (code 9): the client commits the others again.
--
-- Rights: 0 owner, 1 claimant, 2 anyone, 3 owner of a shard with claims of former owners. Arrays that would hold only
-- nulls or only the right 0 may be null; those without elements must be, for an array costs more than all else of a
-- small commit. `s_*` are, for each step, the number of the last element of the other arrays.
--
-- Bits of `s_flags`: see the functions that apply a step. A timer that is there already fails the commit, unless the bit
-- 2048 is set: insertion without a look for it takes two thirds of the time, and no WAL to confirm it.
--
-- Settings of the session replace those of the function, whose change at each call takes longer than an insert.
CREATE OR REPLACE FUNCTION @schema@.commit(
    p_node bigint, p_number bigint, p_is_lowering bool,
    g_right smallint[], g_shard smallint[], g_epoch bigint[],
    a_shard smallint[], a_cursor bigint[], a_seen text[],
    s_flags int[], s_p int[], s_k int[], s_o int[], s_c int[], s_e int[],
    p_right smallint[], p_shard smallint[], p_id uuid[], p_due bigint[], p_nominal bigint[], p_attempt int[],
    p_repetition bigint[], p_moved bool[], p_record bytea[],
    k_ord int[], k_first int[], k_right smallint[], k_shard smallint[], k_id uuid[], k_due bigint[], k_nominal bigint[],
    k_attempt int[], k_repetition bigint[], k_moved bool[], k_record bytea[], k_key bytea[], k_replace bool[],
    o_ord int[], o_kind smallint[], o_right smallint[], o_shard smallint[], o_id uuid[], o_first bigint[], o_at bigint[],
    o_due bigint[], o_nominal bigint[], o_attempt int[], o_repetition bigint[], o_dead_at bigint[], o_reason bytea[],
    c_ord int[], c_shard smallint[], c_number bigint[], c_last int[], c_is_loose bool[],
    m_id uuid[], m_due bigint[], m_attempt int[],
    e_right smallint[], e_shard smallint[], e_number bigint[]
) RETURNS SETOF @schema@.outcome LANGUAGE plpgsql AS $$
DECLARE
    results @schema@.outcome[] := '{}';
    held smallint[];
    fenced int[] := '{}';
    pick int[];
    late int[];
    again int[];
    lost int[];
    named uuid[];
    key_ords int[];
    key_firsts int[];
    key_ids uuid[];
    flags int;
    p_at int := 0;
    k_at int := 0;
    o_at_step int := 0;
    c_at int := 0;
    e_at int := 0;
    m_from int;
BEGIN
    -- The fence. Only a change of the owner needs these rows for itself.
    held := ARRAY(
        SELECT s.shard FROM unnest(g_right, g_shard, g_epoch) AS g("right", shard, epoch)
            JOIN @schema@.shards s ON s.shard = g.shard AND s.owner = p_node AND s.epoch = g.epoch
        WHERE g."right" = 0
        FOR SHARE OF s
    );
    IF cardinality(held) < cardinality(g_shard) THEN
        fenced := ARRAY(
            SELECT g.n::int - 1 FROM unnest(g_right, g_shard) WITH ORDINALITY AS g("right", shard, n)
            WHERE g."right" = 0 AND g.shard <> ALL (held)
        );
    END IF;
    -- A claimant is fenced when its node is dead, and its claims have passed on.
    IF 1 = ANY (g_right) THEN
        PERFORM FROM @schema@.nodes n WHERE n.id = p_node FOR KEY SHARE;
        fenced := fenced || CASE WHEN FOUND THEN ARRAY(
            SELECT g.n::int - 1 FROM unnest(g_right, g_shard) WITH ORDINALITY AS g("right", shard, n)
            WHERE g."right" = 1 AND EXISTS (
                SELECT FROM generate_series(1, cardinality(o_id)) AS i
                WHERE o_right[i] = 1 AND o_shard[i] = g.shard AND NOT EXISTS (
                    SELECT FROM @schema@.claims c
                    WHERE c.shard = g.shard AND c.node = p_node AND o_id[i] = ANY (c.ids)
                )
            )
        ) ELSE ARRAY(
            SELECT g.n::int - 1 FROM unnest(g_right) WITH ORDINALITY AS g("right", n) WHERE g."right" = 1
        ) END;
    END IF;
    IF fenced <> '{}' THEN
        RETURN QUERY SELECT f, 9::smallint, NULL::uuid, NULL::bigint, NULL::bigint, NULL::int, NULL::bigint,
            NULL::smallint, NULL::bytea FROM unnest(fenced) AS f;
        RETURN;
    END IF;

    FOR step IN 1 .. coalesce(cardinality(s_flags), 0) LOOP
        flags := s_flags[step];
        IF s_e[step] > e_at THEN
            DELETE FROM @schema@.claims c USING generate_series(e_at + 1, s_e[step]) AS i
            WHERE c.shard = ANY (ARRAY[e_shard[i]]) AND c.number = e_number[i] AND (e_right[i] IS DISTINCT FROM 1 OR c.node = p_node);
        END IF;
        pick := '{}';
        late := '{}';
        IF s_o[step] > o_at_step THEN
            pick := ARRAY(SELECT generate_series(o_at_step + 1, s_o[step]));
        END IF;
        -- A change of the holder of a key that comes after the new timer with this key.
        IF s_k[step] > k_at AND pick <> '{}' THEN
            SELECT array_agg(k_ord[j]), array_agg(k_first[j]), array_agg(k.id) INTO key_ords, key_firsts, key_ids
            FROM generate_series(k_at + 1, s_k[step]) AS j JOIN @schema@.keys k ON k.key = ANY (ARRAY[k_key[j]]);
            again := ARRAY(SELECT i FROM unnest(pick) AS i WHERE o_id[i] IN (SELECT unnest(key_ids)));
            IF again <> '{}' THEN
                IF EXISTS (
                    SELECT FROM unnest(again) AS i JOIN unnest(key_ords, key_firsts, key_ids) AS k(ord, first, id) ON k.id = o_id[i]
                    WHERE k.first < o_ord[i] AND o_ord[i] < k.ord
                ) THEN
                    RAISE EXCEPTION 'changes of one key must not be folded' USING ERRCODE = 'ATU01';
                END IF;
                late := ARRAY(
                    SELECT i FROM unnest(again) AS i JOIN unnest(key_ords, key_ids) AS k(ord, id) ON k.id = o_id[i]
                    WHERE k.ord < o_ord[i] ORDER BY i
                );
                IF late <> '{}' THEN
                    pick := ARRAY(SELECT i FROM unnest(pick) AS i WHERE i <> ALL (late));
                END IF;
            END IF;
        END IF;
        IF pick <> '{}' THEN
            results := results || @schema@.apply_operations(p_node, flags, pick, o_ord, o_kind, o_right, o_shard, o_id,
                o_first, o_at, o_due, o_nominal, o_attempt, o_repetition, o_dead_at, o_reason);
        END IF;
        IF s_c[step] > c_at THEN
            lost := '{}';
            IF NOT c_is_loose[s_c[step]] THEN
                again := ARRAY(
                    SELECT m.i FROM generate_series(c_at + 1, s_c[step]) AS c(n)
                        CROSS JOIN generate_series(coalesce(c_last[c.n - 1], 0) + 1, c_last[c.n]) AS m(i)
                        CROSS JOIN LATERAL (
                            SELECT FROM @schema@.timers t
                            WHERE t.shard = c_shard[c.n] AND t.due = m_due[m.i] AND t.id = m_id[m.i]
                                AND coalesce(t.attempt, 1) = m_attempt[m.i]
                            FOR NO KEY UPDATE
                        ) t
                );
                m_from := coalesce(c_last[c_at], 0);
                IF cardinality(again) < c_last[s_c[step]] - m_from THEN
                    lost := ARRAY(SELECT generate_series(m_from + 1, c_last[s_c[step]]) EXCEPT SELECT unnest(again));
                    results := results || ARRAY(
                        SELECT ROW(c_ord[c.n], 8, m_id[m.i], NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.outcome
                        FROM generate_series(c_at + 1, s_c[step]) AS c(n)
                            CROSS JOIN generate_series(coalesce(c_last[c.n - 1], 0) + 1, c_last[c.n]) AS m(i)
                        WHERE m.i = ANY (lost)
                    );
                END IF;
            END IF;
            INSERT INTO @schema@.claims (shard, number, node, ids, dues, attempts)
            SELECT c_shard[c.n], c_number[c.n], p_node, m.ids, m.dues, m.attempts
            FROM generate_series(c_at + 1, s_c[step]) AS c(n) CROSS JOIN LATERAL (
                SELECT coalesce(array_agg(m_id[i]), '{}') AS ids, coalesce(array_agg(m_due[i]), '{}') AS dues,
                    coalesce(array_agg(m_attempt[i]), '{}') AS attempts
                FROM generate_series(coalesce(c_last[c.n - 1], 0) + 1, c_last[c.n]) AS i WHERE i <> ALL (lost)
            ) m
            ON CONFLICT (shard, number) DO UPDATE
                SET node = EXCLUDED.node, ids = EXCLUDED.ids, dues = EXCLUDED.dues, attempts = EXCLUDED.attempts;
        END IF;
        IF s_p[step] > p_at THEN
            INSERT INTO @schema@.timers (due, nominal, repetition, arrived, id, attempt, shard, moved, record)
            SELECT p_due[i], p_nominal[i], p_repetition[i], CASE WHEN p_right[i] = 2 THEN pg_current_xact_id() END,
                p_id[i], p_attempt[i], p_shard[i], coalesce(p_moved[i], false), p_record[i]
            FROM generate_series(p_at + 1, s_p[step]) AS i
            WHERE flags & 2048 = 0 OR NOT @schema@.is_there(p_shard[i], p_due[i], p_id[i]);
        END IF;
        IF s_k[step] > k_at THEN
            results := results || @schema@.apply_keyed_puts(p_node, flags, k_at + 1, s_k[step],
                k_ord, k_right, k_shard, k_id, k_due, k_nominal, k_attempt, k_repetition, k_moved, k_record, k_key, k_replace);
        END IF;
        IF late <> '{}' THEN
            results := results || @schema@.apply_operations(p_node, flags, late, o_ord, o_kind, o_right, o_shard, o_id,
                o_first, o_at, o_due, o_nominal, o_attempt, o_repetition, o_dead_at, o_reason);
        END IF;
        p_at := s_p[step];
        k_at := s_k[step];
        o_at_step := s_o[step];
        c_at := s_c[step];
        e_at := s_e[step];
    END LOOP;

    -- Timers in delivery on this former owner that are settled now leave their claims.
    IF 1 = ANY (g_right) THEN
        named := ARRAY(SELECT o_id[i] FROM generate_series(1, cardinality(o_id)) AS i WHERE o_right[i] = 1);
        UPDATE @schema@.claims c SET (ids, dues, attempts) = (
            SELECT coalesce(array_agg(m.id ORDER BY m.n), '{}'), coalesce(array_agg(m.due ORDER BY m.n), '{}'),
                coalesce(array_agg(m.attempt ORDER BY m.n), '{}')
            FROM unnest(c.ids, c.dues, c.attempts) WITH ORDINALITY AS m(id, due, attempt, n)
            WHERE m.id <> ALL (named)
        )
        WHERE c.node = p_node AND c.ids && named
            AND c.shard = ANY (ARRAY(
                SELECT g.shard FROM unnest(g_right, g_shard) AS g("right", shard) WHERE g."right" = 1
            ));
    END IF;

    IF a_shard <> '{}' THEN
        UPDATE @schema@.progress p SET cursor = a_cursor[i], seen = a_seen[i]::pg_snapshot
        FROM generate_series(1, cardinality(a_shard)) AS i WHERE p.shard = ANY (ARRAY[a_shard[i]]);
    END IF;
    -- Timers of owners that became pending before the cursor.
    IF p_is_lowering THEN
        UPDATE @schema@.progress p SET cursor = low.due FROM (
            SELECT l.shard, min(l.due) AS due FROM (
                SELECT p_shard[i], p_due[i] FROM generate_series(1, cardinality(p_id)) AS i
                WHERE coalesce(p_right[i], 0) IN (0, 3)
                UNION ALL
                SELECT k_shard[i], k_due[i] FROM generate_series(1, cardinality(k_id)) AS i
                WHERE coalesce(k_right[i], 0) IN (0, 3)
                    AND k_ord[i] NOT IN (SELECT r.ord FROM unnest(results) AS r WHERE r.code = 1)
                UNION ALL
                SELECT @schema@.shard_of(r.other), r.due FROM unnest(results) AS r WHERE r.code = 7
            ) AS l(shard, due)
            WHERE l.shard = ANY (held) GROUP BY l.shard
        ) low WHERE p.shard = ANY (ARRAY[low.shard]) AND p.cursor > low.due;
    END IF;
    IF cardinality(results) = 0 THEN
        INSERT INTO @schema@.outcomes (node, number) VALUES (p_node, p_number);
        RETURN;
    END IF;
    INSERT INTO @schema@.outcomes (node, number, ords, codes, others)
    SELECT p_node, p_number, array_agg(r.ord), array_agg(r.code), array_agg(r.other) FROM unnest(results) AS r WHERE r.code <> 7;
    RETURN QUERY SELECT r.* FROM unnest(results) AS r;
END
$$;
