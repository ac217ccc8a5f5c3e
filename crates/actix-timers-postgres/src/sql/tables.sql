-- Tables, format 1. Written once, by the first node that connects. `@schema@` is the quoted name of the schema.

CREATE TABLE @schema@.meta (
    format int NOT NULL,
    -- The revision of the functions.
    revision int NOT NULL,
    -- Shards of each pool.
    shards int NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    -- The identifier of the server's files, if it may be read: a restored copy has another one, and other transactions.
    system bigint,
    -- The newest version that records may have: no node joins that cannot read it.
    record_version smallint NOT NULL DEFAULT 1,
    is_only bool PRIMARY KEY DEFAULT true CHECK (is_only)
);

-- Processes. Ids are random: after the promotion of a standby that lacks the last seconds a sequence would repeat some.
CREATE TABLE @schema@.nodes (
    id bigint PRIMARY KEY,
    name text NOT NULL,
    version text NOT NULL,
    -- The newest version of records that it reads.
    reads smallint NOT NULL,
    -- Routes with their message types: the texts of `route_of`.
    routes text[] NOT NULL,
    pools text[] NOT NULL,
    -- Whether it takes shards.
    serves bool NOT NULL,
    -- The processes of its sessions, with their start times, which tell them from later ones with the same number.
    pids int[] NOT NULL,
    started timestamptz[] NOT NULL,
    joined timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Changed by a new owner only: each commit of an owner locks its rows.
CREATE TABLE @schema@.shards (
    shard smallint PRIMARY KEY,
    pool text NOT NULL,
    owner bigint,
    epoch bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE @schema@.progress (
    shard smallint PRIMARY KEY,
    -- Lower bound on due times of pending timers, of those visible in the snapshot `seen`.
    cursor bigint NOT NULL DEFAULT 0,
    seen pg_snapshot NOT NULL DEFAULT '1:1:'
) WITH (fillfactor = 20);

-- Pending timers. Null stands for the default: nominal = due, attempt 1, repetition 1.
CREATE TABLE @schema@.timers (
    due bigint NOT NULL,
    nominal bigint,
    repetition bigint,
    -- The transaction of another node, or of a user, that made it pending: its owner looks for it.
    arrived xid8,
    id uuid NOT NULL,
    attempt int,
    shard smallint NOT NULL,
    -- Parts of the record that no longer count: 1 the repetition, 2 the key.
    stripped smallint,
    -- Whether its due time differs from that in its id.
    moved bool NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (shard, due, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_analyze_scale_factor = 0.1);
CREATE UNIQUE INDEX timers_moved ON @schema@.timers (id) WHERE moved;
-- Of an expression: for a look at arrivals no plan can take the primary key instead.
CREATE INDEX timers_arrived ON @schema@.timers ((shard::int), arrived, id) WHERE arrived IS NOT NULL;

CREATE TABLE @schema@.parked (
    due bigint NOT NULL,
    nominal bigint,
    repetition bigint,
    id uuid NOT NULL,
    attempt int,
    shard smallint NOT NULL,
    stripped smallint,
    record bytea NOT NULL,
    PRIMARY KEY (shard, due, id)
);
CREATE UNIQUE INDEX parked_id ON @schema@.parked (id);

CREATE TABLE @schema@.dead_letters (
    due bigint NOT NULL,
    nominal bigint,
    repetition bigint,
    dead_at bigint NOT NULL,
    id uuid NOT NULL,
    attempt int,
    shard smallint NOT NULL,
    stripped smallint,
    reason bytea NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (shard, due, id)
);
CREATE UNIQUE INDEX dead_letters_id ON @schema@.dead_letters (id);

-- Routes whose timers an owner of the shard has parked. As long as some live nodes know such a route and others do not, the
-- shard belongs to one that does.
CREATE TABLE @schema@.wanted_routes (
    shard smallint NOT NULL,
    route text NOT NULL,
    PRIMARY KEY (shard, route)
);

-- Keys of pending and parked timers. The id says where the timer is.
CREATE TABLE @schema@.keys (
    key bytea PRIMARY KEY,
    id uuid NOT NULL
);

-- Deliveries in progress.
CREATE TABLE @schema@.claims (
    shard smallint NOT NULL,
    number bigint NOT NULL,
    node bigint NOT NULL,
    ids uuid[] NOT NULL,
    dues bigint[] NOT NULL,
    attempts int[] NOT NULL,
    PRIMARY KEY (shard, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Results of the last commits of each node, for a lost reply.
CREATE TABLE @schema@.outcomes (
    node bigint NOT NULL,
    number bigint NOT NULL,
    ords int[],
    codes smallint[],
    others uuid[],
    PRIMARY KEY (node, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- The outcome of a change that is not the usual one; see `outcomes.rs` for the codes.
CREATE TYPE @schema@.outcome AS (
    ord int,
    code smallint,
    other uuid,
    due bigint,
    nominal bigint,
    attempt int,
    repetition bigint,
    stripped smallint,
    record bytea
);
