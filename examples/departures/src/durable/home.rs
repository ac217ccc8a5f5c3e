//! The directory of a replay.
//!
//! | | |
//! |---|---|
//! | `timers` | the store; locked while a process runs |
//! | `input` | a mark of the replayed flights |
//! | `log` | the log of all starts; it is created once everything is scheduled |

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use actix_timers_durable::EmbeddedStore;

use super::logbook::Logbook;
use crate::flight::Flight;
use crate::log::Log;

const TIMERS: &str = "timers";
const INPUT: &str = "input";
const UNFINISHED_INPUT: &str = "input.new";
const LOG: &str = "log";
/// A directory that file systems create by themselves.
const NOT_OURS: &str = "lost+found";

pub(super) struct Home {
    path: PathBuf,
}

impl Home {
    /// Opens or creates the directory for a replay of these flights.
    ///
    /// # Errors
    /// The directory contains something else, is in use, belongs to other flights, or cannot be written.
    pub(super) fn open(path: &Path, flights: &[Flight]) -> Result<(Self, EmbeddedStore), String> {
        fs::create_dir_all(path).map_err(|wrong| format!("cannot be made: {wrong}"))?;
        let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        for entry in entries.map_err(|wrong| format!("cannot be read: {wrong}"))? {
            let name = entry.file_name();
            if ![TIMERS, INPUT, UNFINISHED_INPUT, LOG, NOT_OURS].iter().any(|ours| name == *ours) {
                return Err(format!("is not the directory of a replay: there is '{}' in it", name.display()));
            }
        }
        let store = EmbeddedStore::open(path.join(TIMERS)).map_err(|wrong| wrong.to_string())?;
        let home = Self { path: path.to_owned() };
        home.claim(flights)?;
        Ok((home, store))
    }

    /// Writes the mark of the flights, or compares it.
    fn claim(&self, flights: &[Flight]) -> Result<(), String> {
        let (path, mark) = (self.path.join(INPUT), mark(flights));
        match fs::read_to_string(&path) {
            Ok(found) if found == mark => return Ok(()),
            Ok(found) => {
                let [found, mark] = [&found, &mark].map(|mark| mark.trim_end());
                return Err(format!("is about other flights: {found}, and not {mark}; take another directory"));
            }
            Err(missing) if missing.kind() == io::ErrorKind::NotFound && !self.path.join(LOG).exists() => {}
            Err(wrong) => return Err(format!("{}: {wrong}", path.display())),
        }
        let draft = self.path.join(UNFINISHED_INPUT);
        let written = File::create(&draft).and_then(|mut file| {
            file.write_all(mark.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            self.sync()
        });
        written.map_err(|wrong| format!("{}: {wrong}", path.display()))
    }

    /// Opens the log, if everything is scheduled.
    pub(super) fn logbook(&self) -> Result<Option<(Logbook, Log)>, String> {
        Logbook::open(&self.path.join(LOG))
    }

    /// Creates the log, which marks everything as scheduled.
    pub(super) fn begin_logbook(&self) -> Result<Logbook, String> {
        let logbook = Logbook::create(&self.path.join(LOG))?;
        self.sync().map_err(|wrong| format!("{}: {wrong}", self.path.display()))?;
        Ok(logbook)
    }

    /// Makes new directory entries durable.
    fn sync(&self) -> io::Result<()> {
        // Other systems cannot open a directory as a file.
        if cfg!(unix) { File::open(&self.path)?.sync_all() } else { Ok(()) }
    }
}

/// Returns a mark of the input: FNV-1a of all flights and their lines.
pub(super) fn mark(flights: &[Flight]) -> String {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    let hash =
        flights.iter().fold(BASIS, |hash, flight| format!("{flight:?}").into_bytes().into_iter().fold(hash, add));
    format!("{} flights with the mark {hash:016x}\n", flights.len())
}
