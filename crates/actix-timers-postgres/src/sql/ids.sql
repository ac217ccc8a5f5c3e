-- Parts of an id and of a record.

-- Returns the shard of an id: its first 12 bits.
CREATE OR REPLACE FUNCTION @schema@.shard_of(id uuid) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ((get_byte(uuid_send(id), 0) << 4) | (get_byte(uuid_send(id), 1) >> 4))::smallint
$$;

-- Returns the first due time of an id: the next 46 bits, around the version.
CREATE OR REPLACE FUNCTION @schema@.first_due_of(id uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ((get_byte(uuid_send(id), 1) & 15)::bigint << 42)
        | (get_byte(uuid_send(id), 2)::bigint << 34)
        | (get_byte(uuid_send(id), 3)::bigint << 26)
        | (get_byte(uuid_send(id), 4)::bigint << 18)
        | (get_byte(uuid_send(id), 5)::bigint << 10)
        | ((get_byte(uuid_send(id), 6) & 15)::bigint << 6)
        | (get_byte(uuid_send(id), 7) >> 2)::bigint
$$;

-- Returns the route of a record with its message type, after a separator that no route contains: the texts after version,
-- flags, key and two numbers.
CREATE OR REPLACE FUNCTION @schema@.route_of(record bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    at int := 2;
    byte int;
    shift int;
    number bigint;
    names text[] := '{}';
BEGIN
    FOR field IN 1 - (get_byte(record, 1) & 1) .. 4 LOOP
        number := 0;
        shift := 0;
        LOOP
            byte := get_byte(record, at);
            at := at + 1;
            number := number | ((byte & 127)::bigint << shift);
            shift := shift + 7;
            EXIT WHEN byte < 128;
        END LOOP;
        IF field IN (0, 3, 4) THEN
            IF field > 0 THEN
                names := names || convert_from(substring(record FROM at + 1 FOR number::int), 'UTF8');
            END IF;
            at := at + number::int;
        END IF;
    END LOOP;
    RETURN array_to_string(names, chr(31));
END
$$;

-- Returns the key of a record, if it has one: the text after version and flags.
CREATE OR REPLACE FUNCTION @schema@.key_of(record bytea, stripped smallint) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN get_byte(record, 1) & 1 = 0 OR coalesce(stripped, 0) & 2 <> 0 THEN NULL
        WHEN get_byte(record, 2) < 128 THEN substring(record FROM 4 FOR get_byte(record, 2))
        ELSE substring(record FROM 5 FOR (get_byte(record, 2) & 127) | (get_byte(record, 3) << 7))
    END
$$;
