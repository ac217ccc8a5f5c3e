//! A fence around the private files of the database: its journals, examined and cut before it opens them.
//!
//! Nothing else of this crate reads or writes them, and only two calls lead in here: [`prepare`] before the database is
//! opened, and [`settle`] after it was closed because of a full disk. Both reject files of another [`version`], and a
//! test fails when the locked version of the database changes: fjall does not guarantee the form below.
//!
//! The last group written may be torn: it was not acknowledged, and may be dropped. But the database silently cuts a
//! journal at the first unreadable byte, with all that follows, and fails to open on a wrong checksum, even of a torn
//! end. So the journals are examined first. If complete groups follow unreadable bytes, the damage is in the middle,
//! and acknowledged timers would be lost: the store is rejected. Otherwise the torn end is cut off here.
//!
//! A journal is a sequence of groups, and then zeros. A group: `1`, number of entries (4 bytes), sequence number (8);
//! the entries: `2`, kind, compression, key space (8), length of the key (2), length of the value (4), length on disk
//! (4), key, value, or `4`, key space (8); and then `3`, the checksum of all entries (XXH3, 8 bytes), `FJL` and `3`.
//! Integers are little-endian.
//!
//! `version`: the supported version; `examine`: one journal; `doubt`: the outcome of the last group.

mod doubt;
#[allow(unreachable_pub, reason = "public for the fuzz target alone")]
mod examine;
mod version;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use self::examine::{MAX_ENTRY_LEN, State, examine};
use super::layout::PIECE;
use crate::shown::shown;
use crate::store::{MAX_KEY_LEN, safe_directory};

/// Access for the fuzz target.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use super::examine::{State, examine};
}

// With room for the fields before keys and values.
const _: () = assert!(PIECE + MAX_KEY_LEN + 1024 < MAX_ENTRY_LEN);

/// Returns whether the last group, which has this entry, is kept. If it is, it is on disk.
///
/// # Errors
/// The outcome is unknown.
pub(super) fn settle(data: &Path, entry: &[u8]) -> io::Result<bool> {
    version::check(data).map_err(io::Error::other)?;
    doubt::settle(data, entry)
}

/// Cuts off torn ends, and rejects journals that would lose acknowledged groups.
pub(super) fn prepare(data: &Path) -> Result<(), String> {
    version::check(data)?;
    let mut journals = journals(data).map_err(|error| format!("{}: {error}", shown(data)))?;
    journals.sort_unstable();
    // It may be empty, but one always exists.
    if journals.is_empty() {
        return Err(format!("there is no journal in {}", shown(data)));
    }
    let active = journals.pop();
    let sealed = journals.iter().map(|journal| (journal, true)).chain(active.iter().map(|journal| (journal, false)));
    for ((_, path), is_sealed) in sealed {
        let done = safe_directory::open(path).and_then(examine).and_then(|state| match state {
            State::Whole => Ok(None),
            State::Torn { from } if !is_sealed => cut(path, from).map(|()| None),
            State::Torn { from } | State::Damaged { from } => Ok(Some(from)),
        });
        match done {
            Ok(None) => {}
            Ok(Some(from)) => {
                return Err(format!(
                    "the journal {} is damaged at byte {from}, and later commits would be lost",
                    shown(path)
                ));
            }
            Err(error) => return Err(format!("{}: {error}", shown(path))),
        }
    }
    Ok(())
}

fn cut(path: &Path, from: u64) -> io::Result<()> {
    let file = safe_directory::options().write(true).open(path)?;
    file.set_len(from)?;
    file.sync_all()
}

fn journals(data: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    for entry in fs::read_dir(data)? {
        let path = entry?.path();
        let is_journal = path.extension().is_some_and(|extension| extension == "jnl");
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        if let (true, Some(number)) = (is_journal, number) {
            journals.push((number, path));
        }
    }
    Ok(journals)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::examine::tests::group_of;
    use super::*;

    #[test]
    fn only_the_last_journal_may_have_a_torn_end() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("version"), version::MARKER).unwrap();
        let [whole, torn] = [group_of(7, &[b"one"]), group_of(8, &[b"two"])[..20].to_vec()];
        let write = |number: u64, groups: &[&[u8]]| {
            // Numbers, not names, determine the last one.
            fs::write(data.path().join(format!("{number}.jnl")), groups.concat()).unwrap();
        };
        write(9, &[&whole]);
        write(10, &[&whole, &torn]);
        prepare(data.path()).unwrap();
        assert_eq!(fs::read(data.path().join("10.jnl")).unwrap(), whole, "the torn end is cut off");
        write(9, &[&whole, &torn]);
        let rejected = prepare(data.path()).unwrap_err();
        assert!(rejected.contains("9.jnl is damaged at byte"), "{rejected}");
        assert_eq!(fs::read(data.path().join("9.jnl")).unwrap(), [whole, torn].concat());
    }

    #[test]
    fn journals_of_another_version_are_left_as_they_are() {
        let data = tempfile::tempdir().unwrap();
        let torn = group_of(8, &[b"two"])[..20].to_vec();
        let journal = data.path().join("0.jnl");
        fs::write(&journal, &torn).unwrap();
        for marker in [&b"FJL\x02"[..], b"FJL\x04", b"FJL", b"", b"FJL\x03\0"] {
            fs::write(data.path().join("version"), marker).unwrap();
            let rejected = prepare(data.path()).unwrap_err();
            assert!(rejected.contains("another version of the database"), "{rejected}");
            assert!(settle(data.path(), b"two").is_err());
            assert_eq!(fs::read(&journal).unwrap(), torn);
        }
        fs::remove_file(data.path().join("version")).unwrap();
        assert!(prepare(data.path()).is_err());
        assert_eq!(fs::read(&journal).unwrap(), torn);
        fs::write(data.path().join("version"), version::MARKER).unwrap();
        prepare(data.path()).unwrap();
        assert_eq!(fs::read(&journal).unwrap(), b"", "the torn end is cut off");
    }
}
