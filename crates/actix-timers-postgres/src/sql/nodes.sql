-- Nodes: joining, taking over, balancing.

-- Adds a node, with shards for its pools and for those that it only declares, if these have none yet.
CREATE OR REPLACE FUNCTION @schema@.join_node(
    p_node bigint, p_name text, p_version text, p_reads smallint, p_routes text[], p_pools text[], p_declared text[], p_serves bool,
    p_pids int[], p_started text[], p_lease interval
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    wanted text;
    first int;
    number int;
BEGIN
    -- Either this node finds the newer version, or `older_node` finds this node, also in a transaction of one snapshot.
    UPDATE @schema@.meta m SET record_version = m.record_version RETURNING m.record_version INTO number;
    IF number > p_reads THEN
        RAISE EXCEPTION 'the store has records of a version newer than %, which this node does not read: use a newer version of actix-timers', p_reads
            USING ERRCODE = 'ATU03';
    END IF;
    FOREACH wanted IN ARRAY p_pools || p_declared LOOP
        IF NOT EXISTS (SELECT FROM @schema@.shards s WHERE s.pool = wanted) THEN
            SELECT m.shards INTO number FROM @schema@.meta m FOR UPDATE;
            CONTINUE WHEN EXISTS (SELECT FROM @schema@.shards s WHERE s.pool = wanted);
            SELECT coalesce(max(s.shard) + 1, 0) INTO first FROM @schema@.shards s;
            IF first + number > 4096 THEN
                RAISE EXCEPTION 'no shards are left for the pool "%": there are 4096, % for each pool', wanted, number
                    USING ERRCODE = 'ATU02';
            END IF;
            INSERT INTO @schema@.shards (shard, pool) SELECT i, wanted FROM generate_series(first, first + number - 1) AS i;
            INSERT INTO @schema@.progress (shard) SELECT i FROM generate_series(first, first + number - 1) AS i;
        END IF;
    END LOOP;
    INSERT INTO @schema@.nodes (id, name, version, reads, routes, pools, serves, pids, started, lease_until)
    VALUES (p_node, p_name, p_version, p_reads, p_routes, p_pools, p_serves, p_pids, p_started::timestamptz[], clock_timestamp() + p_lease);
END
$$;

-- Allows records of this version from now on, for ever, or returns a live node that could not read them.
CREATE OR REPLACE FUNCTION @schema@.older_node(p_version smallint) RETURNS TABLE (name text, reads smallint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM @schema@.meta m WHERE m.record_version >= p_version;
    IF FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT n.name, n.reads FROM @schema@.nodes n
        WHERE n.reads < p_version AND n.lease_until > clock_timestamp() ORDER BY n.reads, n.name LIMIT 1;
    IF NOT FOUND THEN
        PERFORM FROM @schema@.meta m FOR UPDATE;
        RETURN QUERY SELECT n.name, n.reads FROM @schema@.nodes n
            WHERE n.reads < p_version AND n.lease_until > clock_timestamp() ORDER BY n.reads, n.name LIMIT 1;
        IF NOT FOUND THEN
            UPDATE @schema@.meta m SET record_version = greatest(m.record_version, p_version);
        END IF;
    END IF;
END
$$;

-- Renews the lease of a node after a quarter of it; returns the time and the rest of the lease in microseconds, or no row
-- if the lease has ended. Each renewal leaves a version of the row that others step over, as long as it is visible to the
-- oldest snapshot.
CREATE OR REPLACE FUNCTION @schema@.renew(p_node bigint, p_lease interval, p_serves bool)
RETURNS TABLE (now bigint, rest bigint) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE @schema@.nodes n SET lease_until = clock_timestamp() + p_lease, serves = p_serves
    WHERE n.id = p_node AND n.lease_until > clock_timestamp() AND (
        n.serves <> p_serves
        OR n.lease_until NOT BETWEEN clock_timestamp() + p_lease * 0.75 AND clock_timestamp() + p_lease
    );
    RETURN QUERY SELECT (extract(epoch FROM c.now) * 1000000)::bigint, (extract(epoch FROM n.lease_until - c.now) * 1000000)::bigint
        FROM (SELECT clock_timestamp() AS now) c JOIN @schema@.nodes n ON n.lease_until > c.now WHERE n.id = p_node;
END
$$;

-- Returns the nodes that may own a shard, of shards that not every node of the pool may own: parked timers are of routes that
-- some of its nodes know. They are the nodes that know all of these, if there are such; else one that knows some, in turn
-- for 10 s.
CREATE OR REPLACE FUNCTION @schema@.suitable_owners(p_pools text[]) RETURNS TABLE (shard smallint, nodes bigint[])
LANGUAGE sql STABLE AS $$
    WITH known AS (
        SELECT s.shard, s.pool, w.route, n.id
        FROM @schema@.wanted_routes w JOIN @schema@.shards s ON s.shard = w.shard AND s.pool = ANY (p_pools)
            JOIN @schema@.nodes n ON n.serves AND s.pool = ANY (n.pools) AND w.route = ANY (n.routes)
    ), numbers AS (
        SELECT k.shard, k.pool, k.id, count(*) AS number,
            (SELECT count(DISTINCT r.route) FROM known r WHERE r.shard = k.shard) AS total
        FROM known k GROUP BY k.shard, k.pool, k.id
    ), owners AS (
        SELECT n.shard, n.pool, array_agg(n.id) FILTER (WHERE n.number = n.total) AS of_all,
            array_agg(n.id ORDER BY n.id) AS of_some
        FROM numbers n GROUP BY n.shard, n.pool
    )
    SELECT o.shard, coalesce(o.of_all, ARRAY[
        o.of_some[1 + (extract(epoch FROM clock_timestamp())::bigint / 10 % cardinality(o.of_some))::int]
    ])
    FROM owners o
    WHERE coalesce(cardinality(o.of_all), 0)
        < (SELECT count(*) FROM @schema@.nodes n WHERE n.serves AND o.pool = ANY (n.pools))
$$;

-- Takes over from nodes whose leases have ended, takes free shards up to the node's share, and returns all shards of the
-- node, with those marked that it must give up: beyond its share, or for a node that knows the routes of parked timers;
-- and a row without a shard for each node that it has taken over from.
CREATE OR REPLACE FUNCTION @schema@.keep(p_node bigint, p_serves bool, p_pools text[])
RETURNS TABLE (shard smallint, epoch bigint, is_surplus bool) LANGUAGE plpgsql AS $$
DECLARE
    dead record;
    wanted text;
    total int;
    live int;
    before int;
    mine int;
    share int;
    surplus smallint[] := '{}';
    mine_only smallint[] := '{}';
    not_mine smallint[] := '{}';
BEGIN
    -- A session that was stopped within a statement would hold its locks, also that of its node's row.
    FOR dead IN SELECT n.pids, n.started FROM @schema@.nodes n WHERE n.lease_until < clock_timestamp() AND n.id <> p_node LOOP
        PERFORM pg_terminate_backend(a.pid) FROM pg_stat_activity a
        JOIN unnest(dead.pids, dead.started) AS s(pid, started) ON a.pid = s.pid AND a.backend_start = s.started;
    END LOOP;
    FOR dead IN
        SELECT n.id FROM @schema@.nodes n
        WHERE n.lease_until < clock_timestamp() AND n.id <> p_node ORDER BY n.id FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE @schema@.shards s SET epoch = s.epoch + 1, owner = CASE
            WHEN p_serves AND s.pool = ANY (p_pools)
                AND NOT EXISTS (SELECT FROM @schema@.wanted_routes w WHERE w.shard = s.shard) THEN p_node
        END
        WHERE s.owner = dead.id;
        DELETE FROM @schema@.outcomes o WHERE o.node = dead.id;
        DELETE FROM @schema@.nodes n WHERE n.id = dead.id;
        RETURN QUERY SELECT NULL::smallint, NULL::bigint, false;
    END LOOP;
    IF p_serves THEN
        IF EXISTS (SELECT FROM @schema@.wanted_routes) THEN
            SELECT coalesce(array_agg(o.shard) FILTER (WHERE p_node = ANY (o.nodes)), '{}'),
                coalesce(array_agg(o.shard) FILTER (WHERE p_node <> ALL (o.nodes)), '{}')
            INTO mine_only, not_mine FROM @schema@.suitable_owners(p_pools) o;
        END IF;
        surplus := not_mine;
        -- Also beyond the share, unless another node that may own them has fewer shards.
        IF mine_only <> '{}' THEN
            UPDATE @schema@.shards s SET owner = p_node, epoch = s.epoch + 1
            FROM (
                SELECT f.shard FROM @schema@.shards f JOIN @schema@.suitable_owners(p_pools) o ON o.shard = f.shard
                WHERE f.shard = ANY (mine_only)
                    AND (f.owner IS NULL OR NOT EXISTS (SELECT FROM @schema@.nodes n WHERE n.id = f.owner))
                    AND (SELECT count(*) FROM @schema@.shards x WHERE x.pool = f.pool AND x.owner = p_node) <= ALL (
                        SELECT (SELECT count(*) FROM @schema@.shards x WHERE x.pool = f.pool AND x.owner = other)
                        FROM unnest(o.nodes) AS other
                    )
                ORDER BY f.shard FOR UPDATE OF f SKIP LOCKED
            ) free WHERE s.shard = free.shard;
        END IF;
        FOREACH wanted IN ARRAY p_pools LOOP
            SELECT count(*), count(*) FILTER (WHERE s.owner = p_node) INTO total, mine FROM @schema@.shards s WHERE s.pool = wanted;
            -- The first nodes have one more if the number cannot be divided.
            SELECT count(*), count(*) FILTER (WHERE n.id < p_node) INTO live, before
            FROM @schema@.nodes n WHERE n.serves AND wanted = ANY (n.pools);
            live := greatest(live, 1);
            share := total / live + (before < total % live)::int;
            IF mine < share THEN
                UPDATE @schema@.shards s SET owner = p_node, epoch = s.epoch + 1
                FROM (
                    SELECT f.shard FROM @schema@.shards f
                    WHERE f.pool = wanted AND f.shard <> ALL (not_mine)
                        AND (f.owner IS NULL OR NOT EXISTS (SELECT FROM @schema@.nodes n WHERE n.id = f.owner))
                    ORDER BY f.shard LIMIT share - mine FOR UPDATE SKIP LOCKED
                ) free WHERE s.shard = free.shard;
            ELSIF mine > share THEN
                surplus := surplus || ARRAY(
                    SELECT s.shard FROM @schema@.shards s
                    WHERE s.pool = wanted AND s.owner = p_node AND s.shard <> ALL (not_mine)
                        AND (s.shard <> ALL (mine_only) OR EXISTS (
                            SELECT FROM @schema@.suitable_owners(ARRAY[wanted]) o CROSS JOIN unnest(o.nodes) AS other
                            WHERE o.shard = s.shard AND other <> p_node
                                AND (SELECT count(*) FROM @schema@.shards x WHERE x.pool = wanted AND x.owner = other) + 1 < mine
                        ))
                    -- One by one, if others may own only some.
                    ORDER BY s.shard DESC LIMIT CASE WHEN mine_only = '{}' THEN mine - share ELSE 1 END
                );
            END IF;
        END LOOP;
    END IF;
    RETURN QUERY SELECT s.shard, s.epoch, s.shard = ANY (surplus) FROM @schema@.shards s WHERE s.owner = p_node ORDER BY s.shard;
END
$$;

-- Removes a node, and frees its shards.
CREATE OR REPLACE FUNCTION @schema@.leave(p_node bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE @schema@.shards s SET owner = NULL, epoch = s.epoch + 1 WHERE s.owner = p_node;
    DELETE FROM @schema@.outcomes o WHERE o.node = p_node;
    DELETE FROM @schema@.nodes n WHERE n.id = p_node;
END
$$;

-- Returns the state of shards for their new owner: a lower bound on due times, that of timers included which the previous
-- owner has not seen, and the snapshot from which on other nodes' writes are unseen. A bound that would take long to
-- find is 0.
CREATE OR REPLACE FUNCTION @schema@.leases(p_node bigint, p_shards smallint[])
RETURNS TABLE (shard smallint, epoch bigint, stored bigint, bound bigint, seen text) LANGUAGE sql STABLE AS $$
    SELECT s.shard, s.epoch, p.cursor, least(p.cursor, (
        SELECT CASE WHEN count(*) > 10000 THEN 0 ELSE min(u.due) END FROM (
            SELECT t.due FROM @schema@.timers t WHERE t.shard::int = s.shard AND t.arrived >= pg_snapshot_xmax(p.seen)
            UNION ALL
            SELECT t.due FROM @schema@.timers t
            WHERE t.shard::int = s.shard AND t.arrived = ANY (ARRAY(SELECT pg_snapshot_xip(p.seen)))
            LIMIT 10001
        ) u
    )), pg_current_snapshot()::text
    FROM @schema@.shards s JOIN @schema@.progress p ON p.shard = s.shard
    WHERE s.owner = p_node AND s.shard = ANY (p_shards) ORDER BY s.shard
$$;
