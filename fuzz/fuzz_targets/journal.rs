//! Fuzzes the bytes behind a whole group of a journal: the examination agrees with a simple one, which parses each
//! candidate separately, and reads the journal at most twice.
//!
//! ```text
//! RUSTC_BOOTSTRAP=1 cargo fuzz run journal -- -max_total_time=60
//! ```

#![no_main]

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use actix_timers_durable::store::fuzzing::{State, examine};
use libfuzzer_sys::fuzz_target;

const END: &[u8] = b"FJL\x03";

/// A reader that counts its bytes.
struct Counting<'a> {
    journal: Cursor<&'a [u8]>,
    bytes: usize,
}

impl Read for Counting<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.journal.read(into)?;
        self.bytes += read;
        Ok(read)
    }
}

impl Seek for Counting<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.journal.seek(to)
    }
}

/// Returns the length of the form of a group at the beginning of `bytes`.
fn form(bytes: &[u8]) -> Option<usize> {
    let entries = u32::from_le_bytes(*bytes.strip_prefix(&[1])?.first_chunk()?);
    let mut at = 13;
    for _ in 0..entries {
        at += match *bytes.get(at)? {
            2 => {
                let head: &[u8; 20] = bytes.get(at + 1..)?.first_chunk()?;
                let [key, value, on_disk] = [&head[10..12], &head[12..16], &head[16..]];
                if !matches!(head[0], 0..=2 | 4) || head[1] != 0 || value != on_disk {
                    return None;
                }
                let key = usize::from(u16::from_le_bytes(key.try_into().ok()?));
                21 + key + u32::from_le_bytes(value.try_into().ok()?) as usize
            }
            4 => 9,
            _ => return None,
        };
    }
    let end = bytes.get(at..at + 13)?;
    (end[0] == 3 && end.ends_with(END)).then_some(at + 13)
}

fuzz_target!(|bytes: &[u8]| {
    let mut journal = Counting { journal: Cursor::new(bytes), bytes: 0 };
    let Ok(state) = examine(&mut journal) else { panic!("memory can be read") };
    assert!(journal.bytes <= 2 * bytes.len(), "{} of {} bytes were read", journal.bytes, bytes.len());
    let from = match state {
        State::Whole => return,
        State::Torn { from } | State::Damaged { from } => from as usize,
    };
    let has_form = |at: usize| bytes.get(at..).and_then(form).is_some();
    let mut ends = (from..bytes.len()).filter(|at| bytes[*at..].starts_with(END));
    if ends.any(|at| has_form(at + END.len())) {
        assert_eq!(state, State::Damaged { from: from as u64 });
    } else if state == (State::Damaged { from: from as u64 }) {
        // Damage where the parse stopped, or the sequence went back.
        assert!((from..bytes.len()).any(has_form), "there is no group behind {from}");
    }
});
