//! The subjects: each writes the same timers in the same groups, each group on disk before the next.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix_timers_durable::store::{
    Claim, Delivery, EmbeddedStore, Filter, Look, NewTimer, Next, NodeInfo, Note, OnKey, Op, Outcome, Position,
    Reads as _, Served, Store as _, Suspects,
};
use actix_timers_durable::{DueTime, DurableId};
use bench::durable::{self, MESSAGE_TYPE, PAYLOAD};
use rusqlite::Connection;

/// A timer of the bench: its number, and its due time in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    pub(crate) number: u64,
    pub(crate) due: u64,
}

/// With a message, id, due time and the name of the type these are 135 bytes.
const ROUTE: &str = "reminders";

impl Timer {
    pub(crate) fn id(self) -> DurableId {
        durable::id(self.due(), self.number)
    }

    fn due(self) -> DueTime {
        DueTime::from_millis(1_700_000_000_000 + self.due).unwrap()
    }

    fn to_put(self) -> NewTimer {
        let record = durable::record(self.id(), self.due(), ROUTE, self.payload());
        NewTimer { record: Arc::new(record), on_key: OnKey::KeepExisting }
    }

    fn payload(self) -> [u8; PAYLOAD] {
        [self.number as u8; PAYLOAD]
    }

    /// Appends the bytes that a file without structure stores for it.
    fn append_to(self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(self.id().as_uuid().as_bytes());
        buffer.extend_from_slice(&self.due().as_millis().to_le_bytes());
        buffer.extend_from_slice(ROUTE.as_bytes());
        buffer.extend_from_slice(MESSAGE_TYPE.as_bytes());
        buffer.extend_from_slice(&self.payload());
    }

    /// Returns the minimum number of bytes that a subject has to store for it.
    pub(crate) fn bytes(self) -> usize {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes.len()
    }
}

pub(crate) trait Subject {
    fn name(&self) -> &'static str;

    /// Adds and removes timers in one group, and returns when it is on disk.
    fn commit(&mut self, put: &[Timer], remove: &[Timer]);

    /// Returns the number of pending timers, if the subject counts them.
    fn pending(&mut self) -> Option<u64> {
        None
    }

    fn disk_bytes(&mut self) -> Option<u64> {
        None
    }
}

/// The names of the subjects: ours first, then the ones it is compared with.
pub(crate) const NAMES: [&str; 4] = [STORE, SQLITE, LOG, WRITE_AND_SYNC];
pub(crate) const STORE: &str = "actix-timers, store alone";
pub(crate) const SQLITE: &str = "SQLite";
pub(crate) const LOG: &str = "append-only log";
pub(crate) const WRITE_AND_SYNC: &str = "write of 4 kB and fdatasync";

/// Returns the subject of this name, with its files in a directory.
pub(crate) fn named(name: &str, directory: &Path) -> Box<dyn Subject> {
    match name {
        SQLITE => Box::new(BareSqlite::new(directory)),
        LOG => Box::new(AppendOnlyLog::new(directory)),
        WRITE_AND_SYNC => Box::new(WriteAndSync::new(directory)),
        STORE => Box::new(Store::new(directory)),
        other => panic!("{other} is not known"),
    }
}

/// The lower bound of a store: one appended block with a record and one `fdatasync` per timer of the group.
struct WriteAndSync(File);

impl WriteAndSync {
    fn new(directory: &Path) -> Self {
        Self(File::create(directory.join("write")).unwrap())
    }
}

impl Subject for WriteAndSync {
    fn name(&self) -> &'static str {
        WRITE_AND_SYNC
    }

    fn commit(&mut self, put: &[Timer], _: &[Timer]) {
        for timer in put {
            let mut bytes = Vec::new();
            timer.append_to(&mut bytes);
            bytes.resize(4096, 0);
            self.0.write_all(&bytes).unwrap();
            self.0.sync_data().unwrap();
        }
    }
}

/// A log: one write of the whole group, and `fdatasync`. A removal is an id.
struct AppendOnlyLog {
    file: File,
    buffer: Vec<u8>,
}

impl AppendOnlyLog {
    fn new(directory: &Path) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(directory.join("log")).unwrap();
        Self { file, buffer: Vec::new() }
    }
}

impl Subject for AppendOnlyLog {
    fn name(&self) -> &'static str {
        LOG
    }

    fn commit(&mut self, put: &[Timer], remove: &[Timer]) {
        self.buffer.clear();
        for timer in put {
            timer.append_to(&mut self.buffer);
        }
        for timer in remove {
            self.buffer.extend_from_slice(timer.id().as_uuid().as_bytes());
        }
        self.file.write_all(&self.buffer).unwrap();
        self.file.sync_data().unwrap();
    }
}

/// The engine below the store: rows of the data alone, inserted and deleted. No claims, keys, indexes or checksums.
pub(crate) struct BareSqlite {
    connection: Connection,
    path: PathBuf,
    found: Vec<Id>,
    /// The last id that was found.
    after: Id,
}

type Id = [u8; 16];

impl BareSqlite {
    pub(crate) fn new(directory: &Path) -> Self {
        let path = directory.join("sqlite");
        std::fs::create_dir(&path).unwrap();
        let connection = Connection::open(path.join("bare.db")).unwrap();
        let create = "PRAGMA page_size = 2048; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -32768;
            CREATE TABLE timers (id BLOB PRIMARY KEY, due INTEGER NOT NULL, route TEXT NOT NULL, message_type TEXT NOT NULL,
              payload BLOB NOT NULL) STRICT, WITHOUT ROWID";
        connection.execute_batch(create).unwrap();
        Self { connection, path, found: Vec::new(), after: Id::default() }
    }

    /// Deletes the timers of the last step, and finds others up to this due time, with new ones in one transaction. Returns
    /// the number of the former.
    pub(crate) fn step(&mut self, put: &[Timer], until: u64) -> usize {
        let end = DurableId::from_parts(Timer { number: 0, due: until + 1 }.due(), 0, 0);
        let mut find = self.connection.prepare_cached("SELECT id FROM timers WHERE id > ?1 AND id < ?2").unwrap();
        let rows = find.query_map((self.after, end.as_uuid().as_bytes()), |row| row.get(0)).unwrap();
        let found: Vec<Id> = rows.map(Result::unwrap).collect();
        drop(find);
        self.after = found.last().copied().unwrap_or(self.after);
        let ended = std::mem::replace(&mut self.found, found);
        self.change(put, &ended);
        ended.len()
    }

    fn change(&mut self, put: &[Timer], remove: &[Id]) {
        let transaction = self.connection.transaction().unwrap();
        let mut insert = transaction.prepare_cached("INSERT INTO timers VALUES (?1, ?2, ?3, ?4, ?5)").unwrap();
        for timer in put {
            let (id, due) = (timer.id(), timer.due().as_millis().cast_signed());
            insert.execute((id.as_uuid().as_bytes(), due, ROUTE, MESSAGE_TYPE, timer.payload())).unwrap();
        }
        let mut delete = transaction.prepare_cached("DELETE FROM timers WHERE id = ?1").unwrap();
        for id in remove {
            assert_eq!(delete.execute([id]).unwrap(), 1);
        }
        drop((insert, delete));
        transaction.commit().unwrap();
    }
}

impl Subject for BareSqlite {
    fn name(&self) -> &'static str {
        SQLITE
    }

    fn commit(&mut self, put: &[Timer], remove: &[Timer]) {
        let ids: Vec<Id> = remove.iter().map(|timer| *timer.id().as_uuid().as_bytes()).collect();
        self.change(put, &ids);
    }

    fn pending(&mut self) -> Option<u64> {
        let count = self.connection.query_row("SELECT count(*) FROM timers", (), |row| row.get::<_, i64>(0));
        Some(count.unwrap().cast_unsigned())
    }

    fn disk_bytes(&mut self) -> Option<u64> {
        Some(size_on_disk(&self.path))
    }
}

/// Ours. Timers to be removed are claimed, and end with the next group, as those of an application do.
pub(crate) struct Store {
    store: EmbeddedStore,
    path: PathBuf,
    filter: Arc<Filter>,
    claimed: Vec<Delivery>,
    now: DueTime,
    /// The last timer that was found.
    after: Option<Position>,
}

impl Store {
    pub(crate) fn new(directory: &Path) -> Self {
        let path = directory.join("store");
        let mut store = EmbeddedStore::open(&path).unwrap();
        let (route, message_type) = (ROUTE.into(), MESSAGE_TYPE.into());
        let filter = Filter { served: vec![Served { index: 0, route, message_type, version: 1, max_attempts: 10 }] };
        store.join(&NodeInfo { name: String::new(), serves: filter.clone() }, DueTime::MIN).unwrap();
        Self { store, path, filter: Arc::new(filter), claimed: Vec::new(), now: DueTime::MIN, after: None }
    }

    /// Ends the claimed timers, and claims others up to this due time, with new ones in the same group.
    /// Returns the number of the former. A past gets a row for each.
    pub(crate) fn step(&mut self, put: &[Timer], until: u64, keeps_past: bool) -> usize {
        self.now = Timer { number: 0, due: until }.due();
        let look = Look {
            after: self.after,
            until: self.now,
            filter: Arc::clone(&self.filter),
            limit: 16 * 1024,
            share: None,
        };
        let hints = self.store.look(&look, self.now)().unwrap().hints;
        self.after = hints.last().map(|hint| Position { due: hint.due, id: hint.id }).or(self.after);
        let ended = self.claimed.len();
        let puts = put.iter().map(|timer| Op::Put(vec![timer.to_put()])).collect();
        self.turn(puts, hints.iter().map(|hint| hint.id).collect(), keeps_past);
        ended
    }

    fn turn(&mut self, mut ops: Vec<Op>, ids: Vec<DurableId>, keeps_past: bool) {
        ops.extend(self.claimed.drain(..).map(|delivery| {
            let note = || Note { took_ms: 7, outcome: Some("complete"), error: None, result: None };
            let noted = || Next::Noted(Box::new(Next::Delete), Box::new(note()));
            Op::End(delivery, if keeps_past { noted() } else { Next::Delete })
        }));
        let claims = ids.len();
        if claims > 0 {
            ops.push(Op::Claim(Claim { ids, suspects: Suspects::Left }));
        }
        for outcome in self.store.apply(&ops, self.now).unwrap() {
            if let Outcome::Claimed { records, .. } = outcome.unwrap() {
                self.claimed.extend(records.iter().map(|record| record.delivery()));
            }
        }
        assert_eq!(self.claimed.len(), claims);
    }
}

impl Subject for Store {
    fn name(&self) -> &'static str {
        STORE
    }

    fn commit(&mut self, put: &[Timer], remove: &[Timer]) {
        self.now = remove.iter().map(|timer| timer.due()).max().unwrap_or(self.now).max(self.now);
        let puts = vec![Op::Put(put.iter().map(|timer| timer.to_put()).collect())];
        self.turn(puts, remove.iter().map(|timer| timer.id()).collect(), false);
    }

    fn pending(&mut self) -> Option<u64> {
        Some(self.store.counts(None).unwrap().pending - self.claimed.len() as u64)
    }

    fn disk_bytes(&mut self) -> Option<u64> {
        Some(size_on_disk(&self.path))
    }
}

/// Returns the size of the files in a directory, in bytes.
pub(crate) fn size_on_disk(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(path).unwrap().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_on_disk(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        // The file was removed meanwhile.
        Err(_) => 0,
    };
    entries.map(size).sum()
}
