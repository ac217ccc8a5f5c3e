//! The outcome of a group whose commit failed because the disk was full, read from the journals.
//!
//! The engine must be closed: otherwise it may still write the rest of the group from its buffer. A group without its
//! end is dropped at the next opening. A complete group may be in the system's cache only, because its fsync failed;
//! the system may then consider its pages clean, and a later fsync would skip them. So its bytes are written again, in
//! place, and synced. If that fails the group is cut off.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::examine::group;
use super::journals;
use crate::store::safe_directory;

/// As [`settle`](super::settle), for journals of a known form.
pub(super) fn settle(data: &Path, entry: &[u8]) -> io::Result<bool> {
    let Some(last) = last_group(data)? else { return Ok(false) };
    if !last.bytes.windows(entry.len()).any(|window| window == entry) {
        return Ok(false);
    }
    let mut file = safe_directory::options().write(true).open(&last.path)?;
    let again = file.seek(SeekFrom::Start(last.from)).and_then(|_| file.write_all(&last.bytes));
    match again.and_then(|()| file.sync_all()) {
        Ok(()) => Ok(true),
        Err(_) => {
            file.set_len(last.from)?;
            file.sync_all()?;
            Ok(false)
        }
    }
}

struct Last {
    path: PathBuf,
    from: u64,
    bytes: Vec<u8>,
}

/// Returns the last complete group of the last journal that has one.
fn last_group(data: &Path) -> io::Result<Option<Last>> {
    let mut journals = journals(data)?;
    journals.sort_unstable();
    for (_, path) in journals.into_iter().rev() {
        let mut file =
            Copying { file: BufReader::with_capacity(1 << 16, safe_directory::open(&path)?), bytes: Vec::new() };
        let (mut from, mut last) = (0, None);
        while group(&mut file)?.is_some() {
            let bytes = std::mem::take(&mut file.bytes);
            let length = bytes.len() as u64;
            last = Some((from, bytes));
            from += length;
        }
        if let Some((from, bytes)) = last {
            return Ok(Some(Last { path, from, bytes }));
        }
    }
    Ok(None)
}

/// A reader that keeps a copy of its bytes.
struct Copying {
    file: BufReader<File>,
    bytes: Vec<u8>,
}

impl Read for Copying {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(into)?;
        self.bytes.extend_from_slice(&into[..length]);
        Ok(length)
    }
}
