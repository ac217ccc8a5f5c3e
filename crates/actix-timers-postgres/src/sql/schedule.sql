-- Requests from any session, in its own transaction.

-- Encodes a number: seven bits a byte, low ones first.
CREATE OR REPLACE FUNCTION @schema@.encode_number(p_number bigint) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    left_over bigint := p_number;
    encoded bytea := '';
BEGIN
    WHILE left_over >= 128 LOOP
        encoded := encoded || set_byte('\x00', 0, ((left_over & 127) | 128)::int);
        left_over := left_over >> 7;
    END LOOP;
    RETURN encoded || set_byte('\x00', 0, left_over::int);
END
$$;

-- Encodes a text after its length.
CREATE OR REPLACE FUNCTION @schema@.encode_text(p_text text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT @schema@.encode_number(octet_length(convert_to(p_text, 'UTF8'))) || convert_to(p_text, 'UTF8')
$$;

-- Stores a new timer as a commit with the right 2 does. Returns a row if another timer had the key: its id, and the code 1
-- if it stays, 2 or 3 if it is replaced.
CREATE OR REPLACE FUNCTION @schema@.put_timer(
    p_shard smallint, p_id uuid, p_due bigint, p_record bytea, p_key bytea, p_replace bool
) RETURNS TABLE (code smallint, other uuid) LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    older record;
BEGIN
    IF get_byte(p_record, 0) > 1 THEN
        SELECT o.name, o.reads INTO older FROM @schema@.older_node(get_byte(p_record, 0)::smallint) o;
        IF FOUND THEN
            RAISE EXCEPTION 'the node "%" reads records up to version %, and headers or a payload codec need version %',
                older.name, older.reads, get_byte(p_record, 0)
                USING ERRCODE = 'ATU04', HINT = 'upgrade that node first, or schedule without them';
        END IF;
    END IF;
    IF p_key IS NULL THEN
        INSERT INTO @schema@.timers (due, arrived, id, shard, moved, record)
        VALUES (p_due, pg_current_xact_id(), p_id, p_shard, false, p_record);
    ELSE
        RETURN QUERY SELECT r.code, r.other FROM unnest(@schema@.apply_keyed_puts(
            0, CASE WHEN p_replace THEN 1024 ELSE 0 END, 1, 1, '{1}', '{2}', ARRAY[p_shard], ARRAY[p_id], ARRAY[p_due],
            '{}', '{}', '{}', '{}', ARRAY[p_record], ARRAY[p_key], ARRAY[p_replace]
        )) r;
    END IF;
END
$$;

-- Schedules a durable timer, and returns its id; or, if another timer has the key, that one's id.
CREATE OR REPLACE FUNCTION @schema@.schedule(
    route text, message_type text, payload bytea, due timestamptz, key text DEFAULT NULL, message_version int DEFAULT 1,
    pool text DEFAULT 'default'
) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    due_millis bigint;
    of_shard smallint;
    new_id uuid;
    holder uuid;
    -- Keys belong to a route: see `key.rs` of the crate actix-timers-durable.
    stored_key text := schedule.route || chr(31) || schedule.key;
    key_bytes bytea := convert_to(stored_key, 'UTF8');
    random text := replace(gen_random_uuid()::text, '-', '');
    encoded bytea;
BEGIN
    IF schedule.route IS NULL OR schedule.message_type IS NULL OR schedule.payload IS NULL OR schedule.due IS NULL THEN
        RAISE EXCEPTION 'route, message type, payload and due time must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    due_millis := greatest(ceil(extract(epoch FROM schedule.due) * 1000), 0)::bigint;
    IF due_millis >= 1::bigint << 46 THEN
        RAISE EXCEPTION 'the time lies after the year 4199, later than durable timers can be due' USING ERRCODE = 'datetime_field_overflow';
    END IF;
    IF octet_length(convert_to(route, 'UTF8')) NOT BETWEEN 1 AND 255 OR route ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'a name of a route has 1 to 255 bytes, and no control characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(convert_to(schedule.key, 'UTF8')) > 512 THEN
        RAISE EXCEPTION 'an idempotency key of % bytes is longer than 512: use a digest of it',
            octet_length(convert_to(schedule.key, 'UTF8')) USING ERRCODE = 'string_data_right_truncation';
    END IF;
    IF octet_length(payload) + octet_length(convert_to(route, 'UTF8')) + octet_length(convert_to(message_type, 'UTF8'))
        + coalesce(octet_length(key_bytes), 0) > 1048576 THEN
        RAISE EXCEPTION 'the record is larger than 1048576 bytes: keep large data elsewhere' USING ERRCODE = 'program_limit_exceeded';
    END IF;
    SELECT s.shard INTO of_shard FROM @schema@.shards s WHERE s.pool = schedule.pool ORDER BY random() LIMIT 1;
    IF of_shard IS NULL THEN
        RAISE EXCEPTION 'no node has declared a route of the pool "%"', schedule.pool USING ERRCODE = 'invalid_parameter_value';
    END IF;
    new_id := (
        lpad(to_hex((of_shard::bigint << 36) | (due_millis >> 10)), 12, '0')
        || '8' || lpad(to_hex(((due_millis & 1023) << 2) | (get_byte(decode(left(random, 2), 'hex'), 0) & 3)), 3, '0')
        || right(random, 16)
    )::uuid;
    encoded := CASE WHEN key_bytes IS NULL THEN '\x0100'::bytea ELSE '\x0101'::bytea || @schema@.encode_text(stored_key) END
        || @schema@.encode_number((extract(epoch FROM clock_timestamp()) * 1000)::bigint << 18)
        || @schema@.encode_number(message_version)
        || @schema@.encode_text(route) || @schema@.encode_text(message_type) || payload;
    SELECT p.other INTO holder FROM @schema@.put_timer(of_shard, new_id, due_millis, encoded, key_bytes, false) p;
    RETURN coalesce(holder, new_id);
END
$$;

-- Schedules a durable timer whose message is encoded as JSON.
CREATE OR REPLACE FUNCTION @schema@.schedule(
    route text, message_type text, payload json, due timestamptz, key text DEFAULT NULL, message_version int DEFAULT 1,
    pool text DEFAULT 'default'
) RETURNS uuid LANGUAGE sql AS $$
    SELECT @schema@.schedule(route, message_type, convert_to(payload::text, 'UTF8'), due, key, message_version, pool)
$$;

-- Cancels a durable timer: returns `cancelled`, `in_progress` if its last delivery may have begun, or `not_found`.
CREATE OR REPLACE FUNCTION @schema@.cancel(id uuid) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    results @schema@.outcome[];
BEGIN
    results := @schema@.apply_operations(0, 2 | 512, '{1}', '{0}', '{1}', '{2}', ARRAY[@schema@.shard_of(cancel.id)],
        ARRAY[cancel.id], ARRAY[@schema@.first_due_of(cancel.id)], '{}', '{}', '{}', '{}', '{}', '{}', '{}');
    RETURN CASE
        WHEN cardinality(results) = 0 THEN 'cancelled'
        WHEN (results[1]).code = 5 THEN 'in_progress'
        ELSE 'not_found'
    END;
END
$$;
