-- The tables and functions of durable timers, version 1. The quoted name of the schema takes the place of its placeholder.
--
-- Times are milliseconds since 1970 by the clock of this server. A timer is one row of `timers`; all that is decided about it is
-- in its row. The timers that wait, by route:
--
--     SELECT route, count(*), to_timestamp(min(due) / 1000.0) FROM timers WHERE node IS NULL AND ended IS NULL AND parked IS NULL GROUP BY 1

CREATE TABLE @schema@.timers (
    -- A UUID of version 8: 48 bits of the first due time, a counter, 64 random bits. So the primary key is the index of due times.
    id uuid PRIMARY KEY CHECK (get_byte(uuid_send(id), 6) >> 4 = 8 AND get_byte(uuid_send(id), 8) >> 6 = 2),
    -- The time of the next delivery. Whoever writes it writes at least the present time.
    due bigint NOT NULL,
    -- Whether `due` may differ from the time in the id. To be written with each `due`.
    moved boolean NOT NULL DEFAULT false,
    -- The due time of the message, retries aside; of a repetition its place on the grid.
    nominal bigint NOT NULL,
    -- Indexed texts are in the order of their bytes: that of another collation changes with the system, and the index would be wrong.
    route text COLLATE "C" NOT NULL,
    message_type text NOT NULL,
    message_version int NOT NULL DEFAULT 1,
    payload bytea NOT NULL,
    codec text,
    headers jsonb,
    -- At most one timer of a route has it.
    key text COLLATE "C",
    -- The number of the last delivery of this repetition. It only rises.
    attempt int NOT NULL DEFAULT 0,
    -- The part of the budget of attempts that is used up.
    used int NOT NULL DEFAULT 0,
    -- The budget; null: the route's; 2147483647: no end.
    max_attempts int,
    retry jsonb,
    repetition bigint NOT NULL DEFAULT 1,
    repeat jsonb,
    -- The node that delivers it now; null: it is pending.
    node bigint,
    -- It was claimed while nothing else ran: if its node dies, the timer is to blame. Cleared with `node`.
    alone boolean NOT NULL DEFAULT false,
    -- The reason for which nobody may deliver it. With `paused` at its beginning it stays until somebody resumes the timer.
    parked text,
    -- The time at which it ended, if its key lives on until `keep_until`. Then `node` is null, and the id begins with
    -- ffffffff-ffff, so that scans of due times do not read it; `nominal` is the time that it began with.
    ended bigint,
    keep_until bigint,
    -- The time at which it was scheduled; 0: not known.
    created bigint NOT NULL DEFAULT 0,
    -- The milliseconds for which the key lives on when the timer is complete.
    keep_key bigint,
    -- Of the last 20 failures, if the route keeps a past: [{"at_ms", "attempt", "reason"}].
    errors jsonb
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
-- No index names node, attempt, used or alone: a claim changes no index.
CREATE INDEX timers_moved ON @schema@.timers (due, id) WHERE moved;
CREATE UNIQUE INDEX timers_key ON @schema@.timers (route, key) WHERE key IS NOT NULL;
CREATE INDEX timers_ended ON @schema@.timers (keep_until) WHERE ended IS NOT NULL;
CREATE INDEX timers_parked ON @schema@.timers (due, id) WHERE parked IS NOT NULL;

-- Timers whose attempts are used up, as they were then. A later letter of a series replaces its earlier one.
CREATE TABLE @schema@.dead_letters (
    LIKE @schema@.timers INCLUDING DEFAULTS,
    reason text NOT NULL,
    dead_at bigint NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX dead_letters_due ON @schema@.dead_letters (due, id);
CREATE INDEX dead_letters_dead_at ON @schema@.dead_letters (dead_at);

-- Finished timers, and repetitions, of routes that keep a past. `finished` is the time of the end, `took_ms` the duration of the last
-- attempt, `outcome` is `complete` or `dead`.
CREATE TABLE @schema@.past (
    id uuid NOT NULL, repetition bigint NOT NULL, route text COLLATE "C" NOT NULL, message_type text NOT NULL, message_version int NOT NULL,
    attempt int NOT NULL, nominal bigint NOT NULL, finished bigint NOT NULL, took_ms bigint NOT NULL, outcome text NOT NULL,
    key text, headers jsonb, errors jsonb, result text,
    PRIMARY KEY (id, repetition)
);
CREATE INDEX past_by_end ON @schema@.past (route, finished, id);

-- Processes that deliver, or only schedule. An id is random, and new at each start.
CREATE TABLE @schema@.nodes (
    id bigint PRIMARY KEY,
    name text NOT NULL,
    -- It has left or died, and rows may still name it.
    dead boolean NOT NULL DEFAULT false,
    lease_until timestamptz NOT NULL,
    -- No row that is due later has been claimed by it. It never falls.
    claimed_until bigint NOT NULL,
    -- Routes and message types, with the character 31 between.
    serves text[] NOT NULL,
    joined timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 20);

-- Routes that a node has served.
CREATE TABLE @schema@.routes (
    name text COLLATE "C" PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Routes, and nodes by name, that start nothing until a time, or until the row is deleted.
CREATE TABLE @schema@.pauses (
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('route', 'node')),
    name text COLLATE "C" NOT NULL,
    until bigint,
    who text,
    why text,
    PRIMARY KEY (kind, name)
);

CREATE FUNCTION @schema@.server_now() RETURNS bigint LANGUAGE sql VOLATILE AS
    'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

-- The smallest id of a timer that is first due then.
CREATE FUNCTION @schema@.first_id(p_due bigint) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT (lpad(to_hex(least(p_due, 281474976710655)), 12, '0') || '80008000000000000000')::uuid$$;

CREATE FUNCTION @schema@.first_due(p_id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT ('x' || left(replace(p_id::text, '-', ''), 12))::bit(48)::bigint$$;

-- The place of the node that looks for a timer, among some. `Share` in Rust has the same rule.
CREATE FUNCTION @schema@.share_of(p_id uuid, p_nodes int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    'SELECT (get_byte(uuid_send(p_id), 14) << 8 | get_byte(uuid_send(p_id), 15)) % p_nodes';

-- The id of a timer whose key lives on, and the id that it had.
CREATE FUNCTION @schema@.kept_id(p_id uuid) RETURNS uuid LANGUAGE sql IMMUTABLE AS
    $$SELECT overlay(p_id::text PLACING 'ffffffff-ffff' FROM 1)::uuid$$;
CREATE FUNCTION @schema@.id_of(p_timer @schema@.timers) RETURNS uuid LANGUAGE sql IMMUTABLE AS
    $$SELECT CASE WHEN p_timer.ended IS NULL THEN p_timer.id
        ELSE overlay(p_timer.id::text PLACING left(@schema@.first_id(p_timer.nominal)::text, 13) FROM 1)::uuid END$$;

-- A due time that is written by hand is found by looks, too. That of a claimed row stays, so that the release of its node finds it.
CREATE FUNCTION @schema@.keep_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.node IS NOT NULL THEN
        NEW.due := OLD.due;
        NEW.moved := OLD.moved;
        RETURN NEW;
    END IF;
    NEW.due := greatest(least(NEW.due, 70368744177663), @schema@.server_now());
    NEW.moved := true;
    RETURN NEW;
END
$$;
CREATE TRIGGER keep_due BEFORE UPDATE OF due ON @schema@.timers FOR EACH ROW
    WHEN (NEW.node IS NOT NULL OR NOT NEW.moved OR NEW.due > 70368744177663
        OR NEW.due < extract(epoch FROM statement_timestamp()) * 1000 - 1)
    EXECUTE FUNCTION @schema@.keep_due();
-- So is a timer that a hand makes claimable.
CREATE TRIGGER claimable BEFORE UPDATE OF parked, route, message_type, message_version ON @schema@.timers FOR EACH ROW
    WHEN (NEW.node IS NULL AND NEW.parked IS NULL AND NEW.ended IS NULL)
    EXECUTE FUNCTION @schema@.keep_due();

-- The routes that are paused, with the character 30 if the node itself is. In plpgsql, which plans it once a session.
CREATE FUNCTION @schema@.paused(p_node bigint) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT coalesce(array_agg(CASE WHEN p.kind = 'route' THEN p.name ELSE chr(30) END)
            FILTER (WHERE p.kind = 'route' OR p.name = (SELECT n.name FROM @schema@.nodes n WHERE n.id = p_node)), '{}')
        FROM @schema@.pauses p WHERE p.until IS NULL OR p.until > @schema@.server_now());
END
$$;

-- Whether nodes that died have used up the budget of a timer. Of one without an end failures do not count, and 10 such nodes do.
CREATE FUNCTION @schema@.is_suspect(p_used int, p_own int, p_of_route int) RETURNS boolean LANGUAGE sql IMMUTABLE AS
    'SELECT p_used >= coalesce(nullif(coalesce(p_own, p_of_route), 2147483647), 10)';

-- Whether nodes have served such a `route`, or one has this name (`node`).
CREATE FUNCTION @schema@.can_pause(p_kind text, p_name text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT CASE p_kind WHEN 'route' THEN EXISTS (SELECT FROM @schema@.routes r WHERE r.name = p_name COLLATE "C")
        WHEN 'node' THEN EXISTS (SELECT FROM @schema@.nodes n WHERE n.name = p_name) ELSE false END
$$;

-- Pauses a `route`, or the nodes of a name (`node`), until a time or until it is resumed; replaces an earlier pause. What runs ends.
-- It is committed with the caller's transaction, or nothing is paused. After the commit `pause_settled` waits until it is in force.
--
--     SELECT timers.pause('route', 'office', now() + interval '1 hour', why => 'the mail server is down');
--     SELECT timers.pause_settled();   -- after the commit
CREATE FUNCTION @schema@.pause(
    kind text, name text, until timestamptz DEFAULT NULL, who text DEFAULT session_user::text, why text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_until bigint := CASE WHEN until < 'infinity' THEN ceil(extract(epoch FROM greatest(until, 'epoch')) * 1000) END;
BEGIN
    IF @schema@.can_pause(kind, name) IS NOT TRUE THEN
        RAISE EXCEPTION 'there is no % "%"', kind, name
            USING ERRCODE = 'invalid_parameter_value', HINT = 'The kinds are route and node. See the tables routes and nodes for the names.';
    END IF;
    PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') <> 'remote_apply';
    INSERT INTO @schema@.pauses VALUES (kind, name, v_until, who, why)
    ON CONFLICT ON CONSTRAINT pauses_pkey DO UPDATE SET until = excluded.until, who = excluded.who, why = excluded.why;
END
$$;

-- Ends a pause. Returns whether there was one.
CREATE FUNCTION @schema@.resume(kind text, name text) RETURNS boolean LANGUAGE sql AS $$
    WITH ended AS (
        DELETE FROM @schema@.pauses p WHERE p.kind = $1 COLLATE "C" AND p.name = $2 COLLATE "C"
            AND coalesce(p.until > @schema@.server_now(), true) RETURNING true
    )
    SELECT EXISTS (SELECT FROM ended)
$$;

-- To be called after the commit of a pause: when it returns, nothing is claimed any more that the pause excludes. It keeps no lock,
-- since nodes could not renew their leases until the caller's transaction ends.
CREATE FUNCTION @schema@.pause_settled() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Nodes whose rows it has locked cannot renew their leases while it waits for another one.
    PERFORM set_config('lock_timeout', '1s', true) WHERE current_setting('lock_timeout') = '0';
    PERFORM FROM @schema@.nodes n ORDER BY n.id FOR UPDATE;
    RAISE EXCEPTION USING ERRCODE = 'TM001';
EXCEPTION WHEN SQLSTATE 'TM001' THEN
    NULL;
END
$$;

-- Returns the rows that a node has claimed among `p_limit` of each order: unmoved ones after the id `p_from`, where moved ones are
-- passed over, and those after (`p_due`, `p_after`). They are due up to `claimed_until`; no index names the node. Where there may be more, `is_end` marks the last one.
CREATE FUNCTION @schema@.claimed_by(p_node bigint, p_from uuid, p_due bigint, p_after uuid, p_limit bigint)
RETURNS TABLE (id uuid, due bigint, repetition bigint, attempt int, alone boolean, is_end boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_until bigint := greatest(@schema@.server_now(), (SELECT n.claimed_until FROM @schema@.nodes n WHERE n.id = p_node));
    v_first uuid := @schema@.first_id(v_until + 1);
    v_end uuid := (SELECT t.id FROM @schema@.timers t WHERE t.id > p_from AND t.id < v_first ORDER BY t.id OFFSET p_limit - 1 LIMIT 1);
BEGIN
    RETURN QUERY WITH moved AS MATERIALIZED (
        SELECT t.id, t.due, t.repetition, t.attempt, t.alone, t.node FROM @schema@.timers t
        WHERE t.moved AND (t.due, t.id) > (p_due, p_after) AND t.due <= v_until ORDER BY t.due, t.id LIMIT p_limit
    )
    SELECT t.id, t.due, t.repetition, t.attempt, t.alone, false FROM @schema@.timers t
        WHERE NOT t.moved AND t.id > p_from AND t.id <= coalesce(v_end, v_first) AND coalesce(t.node, 0) = p_node
    UNION ALL SELECT m.id, m.due, m.repetition, m.attempt, m.alone, false FROM moved m WHERE m.node = p_node
    UNION ALL SELECT v_end, @schema@.first_due(v_end), 0, 0, false, true WHERE v_end IS NOT NULL
    UNION ALL (SELECT m.id, m.due, m.repetition, m.attempt, m.alone, true FROM moved m ORDER BY m.due, m.id OFFSET p_limit - 1);
END
$$;

-- The advisory locks of this database, with the processes that hold them. The id of a node, negated, is the lock of the session in
-- which it claims and ends; the id itself is that of transactions that complete its timers. A lock ends with its session, or when a
-- pooler hands that on. Anybody can take one: those of roles that may not change timers are left out.
CREATE VIEW @schema@.sessions AS
    SELECT l.classid::bigint << 32 | l.objid::bigint AS lock, l.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.objsubid = 1
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND has_table_privilege(a.usesysid,
            (SELECT y.typrelid FROM pg_type y WHERE y.oid = pg_typeof(NULL::@schema@.timers)), 'UPDATE, DELETE');

-- Ends the session of a node, and those of transactions that complete its timers. Returns whether all have ended. This session is not
-- ended: a node may release its earlier self. With `p_own`, a node that lives ends its earlier session only.
CREATE FUNCTION @schema@.end_sessions(p_node bigint, p_wait_ms bigint, p_own boolean) RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce(bool_and(pg_terminate_backend(f.pid, p_wait_ms)), true) FROM (
        SELECT DISTINCT s.pid FROM @schema@.sessions s
        WHERE s.lock IN (-p_node, CASE WHEN NOT p_own THEN p_node END) AND s.pid <> pg_backend_pid()
    ) f
$$;

-- Releases timers of a dead node whose sessions have ended; it claims nothing any more after the first call. Returns timers that were
-- alone: `p_node` has claimed them now, and ends them as failed. A row without an id, before all others, has the number of released
-- timers as `attempt`, and in `alone` whether the node was not known to be dead. With `p_forgets` these are its last: its row goes, too.
CREATE FUNCTION @schema@.release(p_node bigint, p_gone bigint, p_ids uuid[], p_forgets boolean) RETURNS SETOF @schema@.timers LANGUAGE plpgsql AS $$
DECLARE
    v_row @schema@.timers;
    v_held uuid[];
BEGIN
    -- The claims of a node that is gone itself would never be released.
    PERFORM FROM @schema@.nodes n WHERE n.id = p_node AND NOT n.dead FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM FROM @schema@.nodes n WHERE n.id = p_gone AND (n.dead OR n.lease_until < clock_timestamp()) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE @schema@.nodes n SET dead = true WHERE n.id = p_gone AND NOT n.dead;
    v_row.alone := FOUND;
    v_held := ARRAY(
        SELECT t.id FROM @schema@.timers t
        WHERE t.id = ANY (p_ids) AND coalesce(t.node, 0) = p_gone
            -- A suspect ends by the options of its route, if a node has them.
            AND (NOT t.alone OR coalesce((SELECT bool_or(n.id = p_node) FROM @schema@.nodes n WHERE NOT n.dead
                AND n.lease_until > clock_timestamp() AND t.route || chr(31) || t.message_type = ANY (n.serves)), true))
        ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
    );
    v_row.attempt := cardinality(v_held);
    RETURN NEXT v_row;
    -- What this node takes over may be due later than its own claims.
    UPDATE @schema@.nodes n SET claimed_until = g.claimed_until FROM @schema@.nodes g
        WHERE n.id = p_node AND g.id = p_gone AND n.claimed_until < g.claimed_until
            AND EXISTS (SELECT FROM @schema@.timers t WHERE t.id = ANY (v_held) AND t.alone);
    RETURN QUERY WITH released AS (
        UPDATE @schema@.timers t SET node = CASE WHEN t.alone THEN p_node END WHERE t.id = ANY (v_held) RETURNING t.*
    )
    SELECT r.* FROM released r WHERE r.alone;
    IF p_forgets AND cardinality(v_held) = cardinality(p_ids) THEN
        -- Looks of all nodes begin anew when they see that.
        DELETE FROM @schema@.nodes n WHERE n.id = p_gone;
    ELSE
        -- They may have passed the old due times.
        UPDATE @schema@.timers t SET due = greatest(t.due, @schema@.server_now()), moved = true WHERE t.id = ANY (v_held) AND NOT t.alone;
    END IF;
END
$$;

-- Renews the lease, after a quarter of it, since each renewal leaves a version of the row that claims step over behind an old
-- snapshot. Returns the facts that a node needs: the rest of its lease (null: it has none any more); all nodes with the ends of
-- their leases, and whether these deliver (0), have expired (1), are dead (2), or deliver nothing (3); pauses; the bounds of
-- running transactions; running deliveries that are not the node's any more; and the time in microseconds, read last so that it
-- errs to late. Also the number of nodes that nobody has released two leases after the end of theirs and, with `p_measures`, of
-- the snapshots that hold back vacuum the first transaction whose deleted rows are needed, and the visible age in seconds. By
-- type, the place of this node among the nodes with a lease that deliver it, and their number.
CREATE FUNCTION @schema@.beat(
    p_node bigint, p_running uuid[], p_repetitions bigint[], p_attempts int[], p_lease_ms bigint, p_measures boolean,
    p_types text[],
    OUT rest_ms bigint, OUT nodes bigint[], OUT leases text[], OUT states int[], OUT paused text,
    OUT oldest bigint, OUT next bigint, OUT lost uuid[], OUT micros bigint,
    OUT overdue bigint, OUT needed bigint, OUT visible float8, OUT places bigint[], OUT sharers bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_lease interval := p_lease_ms * interval '1 ms';
BEGIN
    UPDATE @schema@.nodes n SET lease_until = clock_timestamp() + v_lease,
        claimed_until = greatest(n.claimed_until, @schema@.server_now() + p_lease_ms)
    WHERE n.id = p_node AND NOT n.dead
        AND n.lease_until NOT BETWEEN clock_timestamp() + v_lease * 0.75 AND clock_timestamp() + v_lease;
    SELECT min(floor(extract(epoch FROM n.lease_until - clock_timestamp()) * 1000)::bigint)
            FILTER (WHERE n.id = p_node AND NOT n.dead),
        array_agg(n.id), array_agg(n.lease_until::text),
        array_agg(CASE WHEN n.dead THEN 2 WHEN n.lease_until < clock_timestamp() THEN 1 WHEN n.serves = '{}' THEN 3 ELSE 0 END),
        count(*) FILTER (WHERE n.lease_until < clock_timestamp() - v_lease * 2)
    INTO rest_ms, nodes, leases, states, overdue FROM @schema@.nodes n;
    SELECT coalesce(array_agg(s.place ORDER BY s.at), '{}'), coalesce(array_agg(s.sharers ORDER BY s.at), '{}')
    INTO places, sharers FROM (
        SELECT k.at, count(n.id) FILTER (WHERE n.id < p_node) AS place, count(n.id) AS sharers
        FROM unnest(p_types) WITH ORDINALITY AS k(type, at)
        LEFT JOIN @schema@.nodes n ON k.type = ANY (n.serves) AND NOT n.dead AND n.lease_until > clock_timestamp() GROUP BY k.at
    ) s;
    BEGIN
        paused := array_to_string(@schema@.paused(p_node), chr(31));
    EXCEPTION WHEN lock_not_available THEN
        -- Claims wait for that lock: none begins.
        NULL;
    END;
    IF p_measures THEN
        -- Sessions of other databases do not hold back vacuum, nor does autovacuum, which has no user.
        SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint - max(s.behind), max(s.seconds) INTO needed, visible FROM (
            SELECT greatest(age(a.backend_xmin), age(a.backend_xid))::bigint AS behind,
                extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds
            FROM pg_stat_activity a
            WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) AND a.pid <> pg_backend_pid()
                AND (a.datname = current_database() OR a.datname IS NULL) AND a.usesysid IS NOT NULL
            UNION ALL
            SELECT age(p.transaction)::bigint, extract(epoch FROM clock_timestamp() - p.prepared)::float8
            FROM pg_prepared_xacts p WHERE p.database = current_database()
            UNION ALL
            SELECT age(r.xmin)::bigint, NULL FROM pg_replication_slots r WHERE r.xmin IS NOT NULL
        ) s;
    END IF;
    lost := '{}';
    -- A table that somebody has locked must not cost the node its lease.
    BEGIN
        lost := ARRAY(
            SELECT r.id FROM unnest(p_running, p_repetitions, p_attempts) AS r(id, repetition, attempt)
            LEFT JOIN @schema@.timers t ON t.id = r.id
                AND coalesce(t.node, 0) = p_node AND t.repetition = r.repetition AND t.attempt = r.attempt
            WHERE t.id IS NULL
        );
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
    oldest := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    -- Not the end of a snapshot, which is after the last transaction that is over: others may be open that began later. A record of
    -- the log, and no sync.
    next := pg_current_xact_id()::text::bigint;
    micros := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
END
$$;

-- Deletes keys that need not be kept any more, and returns whether that is over; pauses that ended a day ago; and the number of routes with timers overdue by a
-- minute that no node with a lease delivers, among some thousand timers. The time is a value: a function would be no bound of an index.
CREATE FUNCTION @schema@.tidy(OUT unserved bigint, OUT is_over boolean) LANGUAGE plpgsql AS $$
DECLARE
    v_limit constant int := 10000;
    v_now constant bigint := @schema@.server_now();
    v_gone int;
BEGIN
    DELETE FROM @schema@.timers t USING (
        SELECT k.id FROM @schema@.timers k WHERE k.ended IS NOT NULL AND k.keep_until <= v_now
        ORDER BY k.keep_until LIMIT v_limit FOR UPDATE SKIP LOCKED
    ) o WHERE t.id = o.id;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    is_over := v_gone < v_limit;
    DELETE FROM @schema@.pauses p WHERE p.until < v_now - 86400000;
    SELECT count(DISTINCT u.route) INTO unserved FROM (
        SELECT DISTINCT o.route, o.message_type FROM ((
            SELECT t.route, t.message_type, t.node, t.parked, CASE WHEN t.moved THEN 0 ELSE t.ended END AS ended FROM @schema@.timers t
            WHERE t.id < @schema@.first_id(v_now - 60000) ORDER BY t.id LIMIT v_limit
        ) UNION ALL (
            SELECT t.route, t.message_type, t.node, t.parked, CASE WHEN t.moved THEN 0 ELSE t.ended END FROM @schema@.timers t
            WHERE t.id < @schema@.first_id(v_now - 60000) ORDER BY t.id DESC LIMIT v_limit
        ) UNION ALL (
            SELECT t.route, t.message_type, t.node, t.parked, t.ended FROM @schema@.timers t
            WHERE t.moved AND t.due < v_now - 60000 ORDER BY t.due, t.id LIMIT v_limit
        )) o WHERE o.node IS NULL AND o.parked IS NULL AND o.ended IS NULL
    ) u WHERE NOT EXISTS (SELECT FROM @schema@.nodes n WHERE NOT n.dead AND n.lease_until > clock_timestamp()
        AND u.route || chr(31) || u.message_type = ANY (n.serves));
END
$$;

-- Notes deliveries that are about to end, for the past of their routes: {"took_ms", "outcome", "error", "result"}. An error is added to
-- those of the timer, of which the last 20 stay; an outcome makes a row of `past`, in place of that of a timer that was a dead letter.
-- Rows that are no longer as they were claimed are left out; the others are locked.
CREATE FUNCTION @schema@.note(p_node bigint, p_ids uuid[], p_repetitions bigint[], p_attempts int[], p_notes jsonb[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE @schema@.timers t SET errors = CASE WHEN jsonb_typeof(t.errors) IS DISTINCT FROM 'array' THEN '[]'::jsonb
            WHEN jsonb_array_length(t.errors) >= 20 THEN t.errors - 0 ELSE t.errors END
        || jsonb_build_object('at_ms', @schema@.server_now(), 'attempt', t.attempt, 'reason', d.note -> 'error')
    FROM (SELECT d.*, p_node AS node FROM unnest(p_ids, p_repetitions, p_attempts, p_notes) AS d(id, repetition, attempt, note)
        WHERE d.note ->> 'error' IS NOT NULL OFFSET 0) d
    WHERE t.id = d.id AND coalesce(t.node, 0) = d.node AND t.repetition = d.repetition AND t.attempt = d.attempt;
    INSERT INTO @schema@.past AS p (id, repetition, route, message_type, message_version, attempt, nominal, finished, took_ms, outcome,
        key, headers, errors, result)
    SELECT t.id, t.repetition, t.route, t.message_type, t.message_version, t.attempt, t.nominal, @schema@.server_now(),
        (d.note ->> 'took_ms')::bigint, d.note ->> 'outcome', t.key, t.headers, t.errors, d.note ->> 'result'
    FROM (SELECT d.*, p_node AS node FROM unnest(p_ids, p_repetitions, p_attempts, p_notes) AS d(id, repetition, attempt, note)
        WHERE d.note ->> 'outcome' IS NOT NULL OFFSET 0) d JOIN @schema@.timers t ON t.id = d.id
    WHERE coalesce(t.node, 0) = d.node AND t.repetition = d.repetition AND t.attempt = d.attempt
    ORDER BY t.id FOR UPDATE OF t
    ON CONFLICT (id, repetition) DO UPDATE SET (attempt, nominal, finished, took_ms, outcome, errors, result) =
        (excluded.attempt, excluded.nominal, excluded.finished, excluded.took_ms, excluded.outcome, excluded.errors, excluded.result);
END
$$;

-- Ends deliveries whose timers continue, at a time (null: at once, or when they were due): the message of `p_nominals` as the
-- repetition `p_nexts`, or (null) the same again, with `p_returned` attempts of its budget. Rows that are no longer as they were claimed are left out.
CREATE FUNCTION @schema@.again(
    p_node bigint, p_ids uuid[], p_repetitions bigint[], p_attempts int[], p_dues bigint[], p_nominals bigint[], p_nexts bigint[],
    p_returned int[]
) RETURNS TABLE (id uuid, due bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY UPDATE @schema@.timers t SET due = greatest(coalesce(d.due, t.due), n.now), moved = true,
        nominal = coalesce(d.nominal, t.nominal), repetition = d.next,
        attempt = CASE WHEN d.next = t.repetition THEN t.attempt ELSE 0 END,
        errors = CASE WHEN d.next = t.repetition THEN t.errors END,
        used = CASE WHEN d.next = t.repetition THEN greatest(t.used - d.returned, 0) ELSE 0 END,
        node = NULL, alone = false
    FROM (SELECT @schema@.server_now() AS now OFFSET 0) n CROSS JOIN
        (SELECT d.id, d.repetition, d.attempt, d.due, d.nominal, coalesce(d.next, d.repetition) AS next, d.returned, p_node AS node
        FROM unnest(p_ids, p_repetitions, p_attempts, p_dues, p_nominals, p_nexts, p_returned)
            AS d(id, repetition, attempt, due, nominal, next, returned) OFFSET 0) d
    WHERE t.id = d.id AND coalesce(t.node, 0) = d.node AND t.repetition = d.repetition AND t.attempt = d.attempt
    RETURNING t.id, t.due;
END
$$;

-- Ends deliveries as dead letters: the row goes, or, with `p_dues`, continues. Rows that are no longer as they were claimed are left
-- out. It fails at once if a row or its earlier letter is locked.
CREATE FUNCTION @schema@.bury(
    p_node bigint, p_ids uuid[], p_repetitions bigint[], p_attempts int[], p_reasons text[], p_dues bigint[], p_nominals bigint[],
    p_next_repetitions bigint[]
) RETURNS TABLE (id uuid, due bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_held uuid[];
BEGIN
    v_held := ARRAY(
        SELECT t.id FROM (SELECT d.*, p_node AS node
                FROM unnest(p_ids, p_repetitions, p_attempts) AS d(id, repetition, attempt) OFFSET 0) d
            JOIN @schema@.timers t ON t.id = d.id
        WHERE coalesce(t.node, 0) = d.node AND t.repetition = d.repetition AND t.attempt = d.attempt
        ORDER BY t.id FOR UPDATE OF t NOWAIT
    );
    PERFORM FROM @schema@.dead_letters l WHERE l.id = ANY (v_held) ORDER BY l.id FOR UPDATE NOWAIT;
    DELETE FROM @schema@.dead_letters l WHERE l.id = ANY (v_held);
    INSERT INTO @schema@.dead_letters (id, due, moved, nominal, route, message_type, message_version, payload, codec, headers, key, attempt,
        used, max_attempts, retry, repetition, repeat, parked, created, keep_key, errors, reason, dead_at)
    SELECT t.id, t.due, t.moved, t.nominal, t.route, t.message_type, t.message_version, t.payload, t.codec, t.headers, t.key, t.attempt,
        t.used, t.max_attempts, t.retry, t.repetition, t.repeat, t.parked, t.created, t.keep_key, t.errors, d.reason, @schema@.server_now()
    FROM (SELECT d.*, p_node AS node FROM unnest(p_ids, p_repetitions, p_attempts, p_reasons) AS d(id, repetition, attempt, reason) OFFSET 0) d
        JOIN @schema@.timers t ON t.id = d.id
    WHERE coalesce(t.node, 0) = d.node AND t.repetition = d.repetition AND t.attempt = d.attempt;
    DELETE FROM @schema@.timers t USING (SELECT d.*, p_node AS node
            FROM unnest(p_ids, p_repetitions, p_attempts, p_dues) AS d(id, repetition, attempt, due) WHERE d.due IS NULL OFFSET 0) d
        WHERE t.id = d.id AND coalesce(t.node, 0) = d.node AND t.repetition = d.repetition AND t.attempt = d.attempt;
    RETURN QUERY SELECT a.id, a.due
        FROM @schema@.again(p_node, p_ids, p_repetitions, p_attempts, p_dues, p_nominals, p_next_repetitions, NULL) a;
    RETURN QUERY SELECT h.id, NULL::bigint FROM unnest(v_held) AS h(id) WHERE NOT EXISTS (SELECT FROM @schema@.timers t WHERE t.id = h.id);
END
$$;

-- Makes a dead letter a pending timer, due now. Returns no row if there is no letter, `is_placed` false if its timer lives or,
-- with `other`, if that has its key; null if another transaction has locked the letter or the key.
CREATE FUNCTION @schema@.requeue(p_id uuid) RETURNS TABLE (is_placed boolean, other uuid, due bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_letter @schema@.dead_letters;
BEGIN
    SELECT * INTO v_letter FROM @schema@.dead_letters l WHERE l.id = p_id FOR UPDATE NOWAIT;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- Its own series may have ended, and have kept the key for itself.
    DELETE FROM @schema@.timers t WHERE t.route = v_letter.route AND t.key = v_letter.key AND t.ended IS NOT NULL
        AND (t.keep_until <= @schema@.server_now() OR @schema@.id_of(t) = p_id);
    INSERT INTO @schema@.timers AS t (id, due, moved, nominal, route, message_type, message_version, payload, codec, headers, key,
        attempt, max_attempts, retry, repetition, repeat, created, keep_key, errors)
    SELECT l.id, @schema@.server_now(), true, l.nominal, l.route, l.message_type, l.message_version, l.payload, l.codec, l.headers,
        l.key, l.attempt, l.max_attempts, l.retry, l.repetition, NULL, @schema@.server_now(), l.keep_key, l.errors
    FROM (SELECT v_letter.*) l
    ON CONFLICT DO NOTHING RETURNING true, NULL, t.due INTO is_placed, other, due;
    IF FOUND THEN
        DELETE FROM @schema@.dead_letters l WHERE l.id = p_id;
        -- Of another route, if a hand has written that. The timer will need the place for its own key.
        DELETE FROM @schema@.timers t WHERE t.id = @schema@.kept_id(p_id);
    ELSE
        is_placed := false;
        SELECT @schema@.id_of(t) INTO other FROM @schema@.timers t
            WHERE t.route = v_letter.route AND t.key = v_letter.key AND t.id <> p_id;
    END IF;
    RETURN NEXT;
EXCEPTION WHEN lock_not_available THEN
    RETURN QUERY SELECT NULL::boolean, NULL::uuid, NULL::bigint;
END
$$;

-- The columns of a request. A later version of the tables may have more of their own.
CREATE TYPE @schema@.new_timer AS (
    id uuid, due bigint, nominal bigint, route text, message_type text, message_version int, payload bytea, codec text, headers jsonb,
    key text, max_attempts int, retry jsonb, repeat jsonb, keep_key bigint
);

-- For an answer that changes nothing: its commit waits for the standbys, as that of the change that it tells of may still do.
CREATE FUNCTION @schema@.await_standbys() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_standby_names') <> '' THEN
        PERFORM pg_logical_emit_message(true, 'actix-timers', '');
    END IF;
END
$$;

-- Stores a new timer. If another one of its route has its key: that stays and is returned as `other`, or is replaced. A careful call
-- has no result if another transaction has locked the key.
CREATE FUNCTION @schema@.put(
    p_timer @schema@.new_timer, p_replace boolean, p_is_careful boolean,
    OUT other uuid, OUT is_placed boolean, OUT in_progress boolean, OUT due bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_created bigint;
BEGIN
    IF p_is_careful THEN
        BEGIN
            SELECT p.* INTO other, is_placed, in_progress, due FROM @schema@.put(p_timer, p_replace, false) p;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
        RETURN;
    END IF;
    -- Before the clock: looks take a transaction without a number for one that begins later.
    PERFORM pg_current_xact_id();
    v_created := @schema@.server_now();
    p_timer.due := greatest(p_timer.due, v_created);
    due := p_timer.due;
    is_placed := true;
    in_progress := false;
    -- It begins anew only when a transaction has removed the timer with the key meanwhile. Before it inserts it reads no more than it
    -- must: transactions at SERIALIZABLE would conflict, even without a key.
    FOR i IN 1..1000 LOOP
        IF p_replace THEN
            DELETE FROM @schema@.timers t WHERE t.route = p_timer.route AND t.key = p_timer.key
                AND NOT EXISTS (SELECT FROM @schema@.timers s WHERE s.id IN (p_timer.id, @schema@.kept_id(p_timer.id)))
                RETURNING CASE WHEN t.ended IS NULL THEN t.id END, t.node IS NOT NULL INTO other, in_progress;
        END IF;
        INSERT INTO @schema@.timers (id, due, nominal, route, message_type, message_version, payload, codec, headers, key, max_attempts,
            retry, repeat, keep_key, moved, created)
        VALUES (p_timer.*, p_timer.due <> @schema@.first_due(p_timer.id), v_created)
        -- Without a target: while an index is built anew beside the old one, that is not the only arbiter.
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
        -- The request was repeated, or another timer has the key.
        SELECT @schema@.id_of(t) INTO other FROM @schema@.timers t WHERE t.id IN (p_timer.id, @schema@.kept_id(p_timer.id));
        IF NOT FOUND AND NOT p_replace THEN
            DELETE FROM @schema@.timers t
                WHERE t.route = p_timer.route AND t.key = p_timer.key AND t.ended IS NOT NULL AND t.keep_until <= @schema@.server_now();
            SELECT @schema@.id_of(t) INTO other FROM @schema@.timers t WHERE t.route = p_timer.route AND t.key = p_timer.key;
        END IF;
        IF FOUND THEN
            PERFORM @schema@.await_standbys();
            is_placed := false;
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'other timers conflict with this one all the time: by the key "%" of the route "%", or by a unique index of yours',
        p_timer.key, p_timer.route USING ERRCODE = 'unique_violation';
END
$$;

-- Whether a value is absent, or a whole number in a range.
CREATE FUNCTION @schema@.is_number(p_value jsonb, p_least numeric, p_most numeric) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_value IS NULL THEN true WHEN jsonb_typeof(p_value) <> 'number' THEN false
        ELSE (p_value #>> '{}')::numeric BETWEEN p_least AND p_most AND (p_value #>> '{}') ~ '^[0-9]+$' END
$$;

-- Schedules a timer in the caller's transaction, for any SQL client. `outcome` is `created`, `exists` (a timer with the key stays,
-- and `id` is that one's), `replaced` or `replaced_in_progress` (then `other` is the replaced timer). With `replace` false the
-- call may be repeated after a lost reply if it has a key.
--
--     SELECT id FROM timers.schedule('office', 'remind', '{"order": 8}'::jsonb, now() + interval '1 hour', key => 'order-8')
--
-- headers: an object of texts. retry: {"initial_ms", "max_ms", "jitter_percent", "timeout_ms"}. repeat: {"every_ms", "missed"
-- ("skip", "burst", "delay")}, {"delay_ms", "spread"} (after the end of the handler; with true, late ones return to their phase) or
-- {"cron", "zone"}, with "times", "until_ms" and "jitter_ms" (the first has it, too). A due time of now() + random() *
-- interval '1 hour' spreads timers over an hour. keep_key: the time for which the key stays taken when the
-- timer is complete.
CREATE FUNCTION @schema@.schedule(
    route text, message_type text, payload bytea, due timestamptz, key text DEFAULT NULL, replace boolean DEFAULT false,
    message_version int DEFAULT 1, headers jsonb DEFAULT NULL, max_attempts int DEFAULT NULL, retry jsonb DEFAULT NULL,
    repeat jsonb DEFAULT NULL, codec text DEFAULT NULL, keep_key interval DEFAULT NULL, OUT id uuid, OUT outcome text, OUT other uuid
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_nominal bigint;
    v_due bigint;
    v_times constant numeric := 70368744177663;
    v_wrong text;
    v_put record;
BEGIN
    v_wrong := CASE
        WHEN route IS NULL OR message_type IS NULL OR payload IS NULL OR due IS NULL OR message_version IS NULL OR replace IS NULL
            THEN 'route, message type, payload, due time, version and replace must not be null'
        WHEN NOT isfinite(due) OR due > to_timestamp(v_times / 1000) THEN 'a due time lies before the year 4199'
        WHEN octet_length(route) NOT BETWEEN 1 AND 255 OR route ~ '[[:cntrl:]]'
            THEN 'a name of a route has 1 to 255 bytes, and no control characters'
        WHEN octet_length(message_type) NOT BETWEEN 1 AND 255 OR message_type ~ '[[:cntrl:]]'
            THEN 'a name of a message type has 1 to 255 bytes, and no control characters'
        WHEN octet_length(key) > 512 THEN 'an idempotency key has up to 512 bytes: use a digest of it'
        WHEN extract(epoch FROM keep_key) NOT BETWEEN 0 AND v_times / 1000 THEN 'a key is kept for 0 s or longer, before the year 4199'
        WHEN octet_length(codec) > 255 THEN 'an id of a codec has up to 255 bytes'
        WHEN message_version < 0 THEN 'a message version is not negative'
        WHEN max_attempts < 1 THEN 'a budget has at least one attempt'
        WHEN jsonb_typeof(headers) <> 'object' THEN 'headers are an object of texts'
        WHEN (SELECT sum(octet_length(h.key || h.value)) FROM jsonb_each_text(headers) h) > 16384
            OR (SELECT count(*) FROM jsonb_object_keys(headers)) > 64
            OR EXISTS (SELECT FROM jsonb_each(headers) h WHERE jsonb_typeof(h.value) <> 'string'
                OR octet_length(h.key) NOT BETWEEN 1 AND 255 OR h.key ~ '[[:cntrl:]]')
            THEN 'headers are an object of up to 64 texts, with names of 1 to 255 bytes, of 16384 bytes'
        WHEN jsonb_typeof(retry) <> 'object' THEN 'retry is an object'
        WHEN retry - '{initial_ms,max_ms,jitter_percent,timeout_ms}'::text[] <> '{}'::jsonb
            OR NOT @schema@.is_number(retry -> 'initial_ms', 0, v_times) OR NOT @schema@.is_number(retry -> 'max_ms', 0, v_times)
            OR NOT @schema@.is_number(retry -> 'jitter_percent', 0, 100) OR NOT @schema@.is_number(retry -> 'timeout_ms', 0, v_times)
            THEN 'retry has numbers: initial_ms, max_ms, jitter_percent, timeout_ms'
        WHEN jsonb_typeof(repeat) <> 'object' THEN 'repeat is an object'
        WHEN repeat - '{every_ms,missed,delay_ms,spread,cron,zone,times,until_ms,jitter_ms}'::text[] <> '{}'::jsonb
            OR (repeat ? 'every_ms')::int + (repeat ? 'delay_ms')::int + (repeat ? 'cron')::int <> 1
            OR (repeat ? 'cron') <> (repeat ? 'zone') OR repeat ? 'missed' AND NOT repeat ? 'every_ms'
            OR repeat ? 'spread' AND NOT repeat ? 'delay_ms' OR coalesce(jsonb_typeof(repeat -> 'spread'), 'boolean') <> 'boolean'
            OR coalesce(repeat ->> 'missed', 'skip') NOT IN ('skip', 'burst', 'delay')
            OR coalesce(jsonb_typeof(repeat -> 'cron'), 'string') <> 'string' OR octet_length(repeat ->> 'cron') > 255
            OR coalesce(jsonb_typeof(repeat -> 'zone'), 'string') <> 'string' OR octet_length(repeat ->> 'zone') > 255
            OR NOT @schema@.is_number(repeat -> 'every_ms', 1, v_times) OR NOT @schema@.is_number(repeat -> 'times', 1, 9223372036854775807)
            OR NOT @schema@.is_number(repeat -> 'delay_ms', 1, v_times) OR NOT @schema@.is_number(repeat -> 'jitter_ms', 1, v_times)
            OR NOT @schema@.is_number(repeat -> 'until_ms', 0, v_times)
            THEN 'repeat is {"every_ms", "missed": "skip"|"burst"|"delay"}, {"delay_ms", "spread": true|false} or {"cron", "zone"}, '
                'with "times", "until_ms" and "jitter_ms"'
        WHEN (repeat ->> 'jitter_ms')::bigint >= coalesce(repeat ->> 'every_ms', repeat ->> 'delay_ms')::bigint
            THEN 'the jitter_ms of repeat are less than its period'
        WHEN (repeat ->> 'until_ms')::bigint < extract(epoch FROM due) * 1000
            THEN 'the until_ms of repeat are not before the due time'
        WHEN octet_length(payload) + octet_length(route) + octet_length(message_type) + coalesce(octet_length(key), 0)
            + coalesce(octet_length(codec), 0) + coalesce(octet_length(repeat ->> 'cron') + octet_length(repeat ->> 'zone'), 0)
            + coalesce((SELECT sum(octet_length(h.key || h.value)) FROM jsonb_each_text(headers) h), 0) > 1048576
            THEN 'a timer has up to 1048576 bytes: keep large data elsewhere'
    END;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', v_wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Not as a setting of this function, which would end before the commit.
    PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') <> 'remote_apply';
    -- As in `put`.
    PERFORM pg_current_xact_id();
    v_nominal := greatest(ceil(extract(epoch FROM due) * 1000), 0)::bigint;
    v_due := least(v_nominal + floor(random() * (coalesce((repeat ->> 'jitter_ms')::bigint, 0) + 1))::bigint, v_times);
    v_due := greatest(v_due, @schema@.server_now());
    id := (lpad(to_hex(v_due), 12, '0') || '8' || right(replace(gen_random_uuid()::text, '-', ''), 19))::uuid;
    SELECT * INTO v_put FROM @schema@.put(ROW(id, v_due, v_nominal, route, message_type, message_version, payload, codec, headers, key,
        max_attempts, retry, repeat, CASE WHEN key IS NOT NULL THEN ceil(extract(epoch FROM keep_key) * 1000)::bigint END)::@schema@.new_timer, replace, false);
    outcome := CASE WHEN NOT v_put.is_placed THEN 'exists' WHEN v_put.other IS NULL THEN 'created'
        WHEN v_put.in_progress THEN 'replaced_in_progress' ELSE 'replaced' END;
    IF v_put.is_placed THEN
        other := v_put.other;
    ELSE
        id := v_put.other;
    END IF;
END
$$;

-- Schedules a timer whose message is encoded as JSON.
CREATE FUNCTION @schema@.schedule(
    route text, message_type text, payload jsonb, due timestamptz, key text DEFAULT NULL, replace boolean DEFAULT false,
    message_version int DEFAULT 1, headers jsonb DEFAULT NULL, max_attempts int DEFAULT NULL, retry jsonb DEFAULT NULL,
    repeat jsonb DEFAULT NULL, codec text DEFAULT NULL, keep_key interval DEFAULT NULL, OUT id uuid, OUT outcome text, OUT other uuid
) LANGUAGE sql AS $$
    SELECT s.* FROM @schema@.schedule(route, message_type, convert_to(payload::text, 'UTF8'), due, key, replace, message_version,
        headers, max_attempts, retry, repeat, codec, keep_key) s
$$;

-- Cancels a timer: `cancelled`, `in_progress` if its last delivery may have begun, or `not_found`.
CREATE FUNCTION @schema@.cancel(id uuid) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_claimed boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') <> 'remote_apply';
    DELETE FROM @schema@.timers t WHERE t.id = cancel.id AND t.ended IS NULL RETURNING t.node IS NOT NULL INTO v_claimed;
    RETURN CASE WHEN NOT FOUND THEN 'not_found' WHEN v_claimed THEN 'in_progress' ELSE 'cancelled' END;
END
$$;

-- Ends a delivery in the transaction of its handler: both are committed, or neither. Without further values the timer is complete;
-- with a due time it continues then, as the next repetition or again as `next`, with `returned` attempts of its budget; with a reason it becomes a dead letter. With a
-- `note` it is noted for the past of its route. The call fails if the delivery has ended otherwise: by
-- a cancel, its time-out, or another node.
CREATE FUNCTION @schema@.end_delivery(
    id uuid, repetition bigint, attempt int, due bigint DEFAULT NULL, nominal bigint DEFAULT NULL, next bigint DEFAULT NULL,
    reason text DEFAULT NULL, returned int DEFAULT 0, note jsonb DEFAULT NULL
) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    v_node bigint;
    v_keep_key bigint;
BEGIN
    SELECT t.node, t.keep_key INTO v_node, v_keep_key FROM @schema@.timers t
        WHERE t.id = id AND t.repetition = repetition AND t.attempt = attempt;
    PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') <> 'remote_apply';
    -- So that a release of the node finds this transaction, and ends it: it has locked the row.
    PERFORM pg_advisory_xact_lock_shared(v_node);
    IF note IS NOT NULL THEN
        PERFORM @schema@.note(v_node, ARRAY[id], ARRAY[repetition], ARRAY[attempt], ARRAY[note]);
    END IF;
    IF reason IS NOT NULL THEN
        PERFORM FROM @schema@.bury(v_node, ARRAY[id], ARRAY[repetition], ARRAY[attempt], ARRAY[reason], ARRAY[due], ARRAY[nominal],
            ARRAY[next]);
    ELSIF due IS NULL AND v_keep_key IS NOT NULL THEN
        UPDATE @schema@.timers t SET ended = n.now, keep_until = least(n.now + least(v_keep_key, 70368744177663), 70368744177663),
            id = @schema@.kept_id(t.id), nominal = @schema@.first_due(t.id), moved = false, node = NULL, alone = false, parked = NULL, headers = NULL, errors = NULL, payload = ''
        FROM (SELECT @schema@.server_now() AS now) n
        WHERE t.id = id AND coalesce(t.node, 0) = v_node AND t.repetition = repetition AND t.attempt = attempt;
    ELSIF due IS NULL THEN
        DELETE FROM @schema@.timers t
        WHERE t.id = id AND coalesce(t.node, 0) = v_node AND t.repetition = repetition AND t.attempt = attempt;
    ELSE
        PERFORM FROM @schema@.again(v_node, ARRAY[id], ARRAY[repetition], ARRAY[attempt], ARRAY[due], ARRAY[nominal], ARRAY[next],
            ARRAY[returned]);
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the delivery % of the timer % has ended otherwise: by a cancel, its time-out, or another node', attempt, id
            USING ERRCODE = 'no_data_found', HINT = 'Roll the transaction back.';
    END IF;
END
$$;

-- A service that may only schedule needs USAGE on the schema and EXECUTE on `schedule` and `cancel`. Functions of others keep their
-- rights, also those of the same names.
REVOKE ALL ON FUNCTION @schema@.server_now(), @schema@.first_id(bigint), @schema@.first_due(uuid), @schema@.share_of(uuid, int), @schema@.keep_due(), @schema@.await_standbys(),
    @schema@.kept_id(uuid), @schema@.id_of(@schema@.timers), @schema@.paused(bigint), @schema@.is_suspect(int, int, int), @schema@.pause_settled(),
    @schema@.can_pause(text, text), @schema@.pause(text, text, timestamptz, text, text), @schema@.resume(text, text),
    @schema@.claimed_by(bigint, uuid, bigint, uuid, bigint),
    @schema@.end_sessions(bigint, bigint, boolean), @schema@.release(bigint, bigint, uuid[], boolean),
    @schema@.beat(bigint, uuid[], bigint[], int[], bigint, boolean, text[]), @schema@.tidy(), @schema@.note(bigint, uuid[], bigint[], int[], jsonb[]),
    @schema@.again(bigint, uuid[], bigint[], int[], bigint[], bigint[], bigint[], int[]),
    @schema@.bury(bigint, uuid[], bigint[], int[], text[], bigint[], bigint[], bigint[]), @schema@.requeue(uuid),
    @schema@.put(@schema@.new_timer, boolean, boolean), @schema@.is_number(jsonb, numeric, numeric),
    @schema@.schedule(text, text, bytea, timestamptz, text, boolean, int, jsonb, int, jsonb, jsonb, text, interval),
    @schema@.schedule(text, text, jsonb, timestamptz, text, boolean, int, jsonb, int, jsonb, jsonb, text, interval), @schema@.cancel(uuid),
    @schema@.end_delivery(uuid, bigint, int, bigint, bigint, bigint, text, int, jsonb)
    FROM PUBLIC;
