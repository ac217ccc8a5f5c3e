-- The database of a store, `timers.db`. Times are milliseconds since 1970 began in UTC, ids are UUIDs as blobs of 16 bytes.
--
-- To look at it while the service runs: sqlite3 -readonly timers.db
--   SELECT route, count(*), datetime(min(due) / 1000, 'unixepoch') FROM timers WHERE parked IS NULL AND ended IS NULL GROUP BY route;
--   SELECT hex(id), route, key, payload FROM timers WHERE node = (SELECT number FROM node);   -- with their handlers

PRAGMA page_size = 2048;              -- a row in a random place costs one page of the log
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA application_id = 0x61747472;
PRAGMA user_version = 1;

CREATE TABLE timers (
  id BLOB PRIMARY KEY,                -- begins with the first due time, in 48 bits: the index of due times
  due INTEGER NOT NULL,               -- the next delivery; never before the time at which it was written
  moved INTEGER NOT NULL DEFAULT 0,   -- due is not the id's time: then the index `moved` has it
  nominal INTEGER NOT NULL,           -- the due time of the message, retries aside; overdue timers run in this order
  node INTEGER,                       -- claimed by the process of this number; pending if that is not the present one
  alone INTEGER NOT NULL DEFAULT 0,   -- claimed alone: if its process ends, it is to blame
  attempt INTEGER NOT NULL DEFAULT 0, -- deliveries of this repetition that have begun
  used INTEGER NOT NULL DEFAULT 0,    -- the part of the budget that is used up
  max_attempts INTEGER,               -- the budget; null: the route's
  repetition INTEGER NOT NULL DEFAULT 1,
  parked TEXT,                        -- why nobody may deliver it; `paused ...`: until it is resumed
  ended INTEGER,                      -- it ended, but its key is kept until `keep_until`; its id begins with FFFFFFFFFFFF
                                      -- then, after all due times, and `nominal` is the time that it began with
  keep_until INTEGER,
  created INTEGER NOT NULL DEFAULT 0, -- the time at which it was scheduled; 0: not known
  keep_key INTEGER,                   -- ms for which the key is kept when the timer is complete
  errors TEXT,                        -- of the last 20 failures, if the route keeps a past: [{"at_ms", "attempt", "reason"}]
  crc INTEGER,                        -- checksum of what the caller gave; null: written by hand
  route TEXT NOT NULL,
  message_type TEXT NOT NULL,
  message_version INTEGER NOT NULL DEFAULT 1,
  key TEXT,
  codec TEXT,
  headers TEXT,                       -- JSON, as `retry` and `repeat`
  retry TEXT,
  repeat TEXT,
  payload BLOB NOT NULL               -- from some 400 bytes on, each search that passes the row reads it, too
) STRICT, WITHOUT ROWID;

CREATE INDEX moved ON timers (due, id) WHERE moved;
CREATE UNIQUE INDEX keys ON timers (route, key) WHERE key IS NOT NULL;
CREATE INDEX parked ON timers (due, id) WHERE parked IS NOT NULL;
CREATE INDEX alone ON timers (id) WHERE alone;
CREATE INDEX ended ON timers (keep_until) WHERE ended IS NOT NULL;

-- Timers whose last attempt has failed. A later letter of a series replaces its earlier one.
CREATE TABLE dead_letters (
  id BLOB PRIMARY KEY, due INTEGER NOT NULL, nominal INTEGER NOT NULL, attempt INTEGER NOT NULL, used INTEGER NOT NULL,
  max_attempts INTEGER, repetition INTEGER NOT NULL, crc INTEGER, route TEXT NOT NULL, message_type TEXT NOT NULL,
  message_version INTEGER NOT NULL, key TEXT, codec TEXT, headers TEXT, retry TEXT, repeat TEXT,
  keep_key INTEGER, errors TEXT, reason TEXT NOT NULL, dead_at INTEGER NOT NULL, payload BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX letters_by_due ON dead_letters (due, id);
CREATE INDEX letters_by_age ON dead_letters (dead_at, id);

-- Routes, and processes by name, that deliver nothing until a time, or until the row is deleted. A paused timer is `parked`.
CREATE TABLE pauses (
  kind TEXT NOT NULL CHECK (kind IN ('route', 'node')), name TEXT NOT NULL, until INTEGER, who TEXT, why TEXT,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Finished timers, and repetitions, of routes that keep a past; `outcome` is `complete` or `dead`.
CREATE TABLE past (
  id BLOB NOT NULL, repetition INTEGER NOT NULL, route TEXT NOT NULL, message_type TEXT NOT NULL, message_version INTEGER NOT NULL,
  key TEXT, headers TEXT, attempt INTEGER NOT NULL, nominal INTEGER NOT NULL,
  finished INTEGER NOT NULL,          -- its end; `took_ms` is the duration of the last attempt
  took_ms INTEGER NOT NULL, outcome TEXT NOT NULL, errors TEXT, result TEXT,
  PRIMARY KEY (id, repetition)
) STRICT, WITHOUT ROWID;

CREATE INDEX past_by_end ON past (route, finished, id);

-- The present process: the number of starts. The rows of an earlier one are pending, without a scan at the start.
CREATE TABLE node (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), number INTEGER NOT NULL, name TEXT NOT NULL) STRICT;
INSERT INTO node VALUES (1, 0, '');

-- Changes by hand, which no look of the running service may miss. The service's connection runs no triggers, and costs
-- nothing by them.
CREATE TRIGGER by_hand_insert AFTER INSERT ON timers BEGIN
  UPDATE timers SET due = max(due, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 1) WHERE id = NEW.id;
  UPDATE timers SET moved = printf('%012X', due) <> substr(hex(id), 1, 12) WHERE id = NEW.id;
END;
CREATE TRIGGER by_hand_claimable
AFTER UPDATE OF id, due, moved, node, parked, ended, route, message_type, message_version ON timers BEGIN
  UPDATE timers SET due = max(due, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 1) WHERE id = NEW.id;
  UPDATE timers SET moved = printf('%012X', due) <> substr(hex(id), 1, 12) WHERE id = NEW.id;
END;
CREATE TRIGGER by_hand_content
AFTER UPDATE OF id, route, message_type, message_version, key, keep_key, codec, max_attempts, headers, retry, repeat, payload
ON timers
WHEN NEW.crc IS OLD.crc BEGIN
  UPDATE timers SET crc = NULL WHERE id = NEW.id;
END;
