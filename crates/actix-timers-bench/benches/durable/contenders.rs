//! The subjects: each writes the same timers in the same groups, each group on disk before the next.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix_timers_durable::store::{Change, EmbeddedStore, Fence, OnKey, TimerStore, codec};
use actix_timers_durable::{DueTime, DurableId, Record, RecordState};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};

/// A timer of the bench: its number, and its due time in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    pub(crate) number: u64,
    pub(crate) due: u64,
}

/// Bytes of each timer's message. With the names of route and type a record takes some 120 bytes.
pub(crate) const PAYLOAD: usize = 96;

impl Timer {
    pub(crate) fn id(self) -> DurableId {
        // Consecutive numbers are poor random bits, so they are mixed.
        DurableId::from_parts(0, self.due(), self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn due(self) -> DueTime {
        DueTime::from_millis(1_700_000_000_000 + self.due).unwrap()
    }

    pub(crate) fn record(self) -> Record {
        Record {
            id: self.id(),
            progress: RecordState::first(self.due()),
            sequence: self.number,
            route: "reminders".into(),
            message_type: "Remind".into(),
            message_version: 1,
            key: None,
            repeat: None,
            retry: None,
            headers: Default::default(),
            payload_codec: None,
            payload: [self.number as u8; PAYLOAD].into(),
        }
    }

    /// Returns the key of 24 bytes: shard, due time, random bits.
    fn key(self) -> [u8; 24] {
        let mut key = [0; 24];
        key[2..10].copy_from_slice(&self.due().as_millis().to_be_bytes());
        key[10..18].copy_from_slice(&self.id().random().to_be_bytes());
        key
    }

    fn value(self) -> Vec<u8> {
        let mut value = Vec::with_capacity(128);
        codec::encode(&self.record(), &mut value);
        value
    }

    /// Returns the minimum number of bytes that a subject has to store for it.
    pub(crate) fn bytes(self) -> usize {
        24 + self.value().len()
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
pub(crate) const NAMES: [&str; 4] = [STORE, FJALL, LOG, WRITE_AND_SYNC];
pub(crate) const STORE: &str = "actix-timers, store alone";
pub(crate) const FJALL: &str = "fjall";
pub(crate) const LOG: &str = "append-only log";
pub(crate) const WRITE_AND_SYNC: &str = "write and fdatasync";

/// Returns the subject of this name, with its files in a directory.
pub(crate) fn named(name: &str, directory: &Path) -> Box<dyn Subject> {
    match name {
        FJALL => Box::new(BareFjall::new(directory)),
        LOG => Box::new(AppendOnlyLog::new(directory)),
        WRITE_AND_SYNC => Box::new(WriteAndSync::new(directory)),
        STORE => Box::new(Store::new(directory)),
        other => panic!("{other} is not known"),
    }
}

/// The lower bound: one write of a record and one `fdatasync` per timer of the group.
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
            self.0.write_all(&timer.key().into_iter().chain(timer.value()).collect::<Vec<_>>()).unwrap();
            self.0.sync_data().unwrap();
        }
    }
}

/// A log: one write of the whole group, and `fdatasync`. A removal is a key.
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
            self.buffer.extend_from_slice(&timer.key());
            codec::encode(&timer.record(), &mut self.buffer);
        }
        for timer in remove {
            self.buffer.extend_from_slice(&timer.key());
        }
        self.file.write_all(&self.buffer).unwrap();
        self.file.sync_data().unwrap();
    }
}

/// The engine below the store, with the same settings and without the store's extra work: no counts, no reads, no
/// second change of a key.
struct BareFjall {
    db: Database,
    timers: Keyspace,
    path: PathBuf,
}

impl BareFjall {
    fn new(directory: &Path) -> Self {
        let path = directory.join("fjall");
        let db = Database::builder(&path)
            .worker_threads(2)
            .max_journaling_size(128 << 20)
            .manual_journal_persist(true)
            .open()
            .unwrap();
        let options = || KeyspaceCreateOptions::default().max_memtable_size(16 << 20).manual_journal_persist(true);
        let timers = db.keyspace("timers", options).unwrap();
        Self { db, timers, path }
    }
}

impl Subject for BareFjall {
    fn name(&self) -> &'static str {
        FJALL
    }

    fn commit(&mut self, put: &[Timer], remove: &[Timer]) {
        let mut batch = OwnedWriteBatch::with_capacity(self.db.clone(), put.len() + remove.len())
            .durability(Some(PersistMode::SyncData));
        for timer in put {
            batch.insert(&self.timers, timer.key(), timer.value());
        }
        for timer in remove {
            batch.remove(&self.timers, timer.key());
        }
        batch.commit().unwrap();
    }

    fn disk_bytes(&mut self) -> Option<u64> {
        Some(size_on_disk(&self.path))
    }
}

/// Ours.
struct Store {
    store: EmbeddedStore,
    fence: Fence,
    changes: Vec<Change>,
}

impl Store {
    fn new(directory: &Path) -> Self {
        let mut store = EmbeddedStore::open(directory.join("store")).unwrap();
        let fence = store.acquire(0).unwrap().fence;
        Self { store, fence, changes: Vec::new() }
    }
}

impl Subject for Store {
    fn name(&self) -> &'static str {
        STORE
    }

    fn commit(&mut self, put: &[Timer], remove: &[Timer]) {
        self.changes.clear();
        let put = put.iter().map(|timer| Change::Put { record: Arc::new(timer.record()), on_key: OnKey::KeepExisting });
        self.changes.extend(put);
        self.changes.extend(remove.iter().map(|timer| Change::Remove { id: timer.id(), at: Some(timer.due()) }));
        self.store.commit(self.fence, &self.changes).unwrap();
    }

    fn pending(&mut self) -> Option<u64> {
        Some(self.store.counts(0).unwrap().pending)
    }

    fn disk_bytes(&mut self) -> Option<u64> {
        Some(self.store.statistics().unwrap().disk_bytes)
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
