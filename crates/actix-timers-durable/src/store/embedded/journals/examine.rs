//! Complete groups of a journal, and the bytes after them.
//!
//! [`examine`] reads a journal in linear time, regardless of its content: once from the front, group by group, and the
//! rest once from the back. There each possible position of an entry is examined once: the number of entries from it to
//! the end of a group is one more than from the position after it, which is already known. So a group is recognized by
//! its beginning and its number of entries, without reading its entries again for each beginning.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use xxhash_rust::xxh3::Xxh3;

/// The last bytes of a group.
const END: [u8; 4] = *b"FJL\x03";
/// Tag, number of entries, sequence number.
const START_LENGTH: usize = 13;
/// An entry up to its key.
const HEAD_LENGTH: usize = 21;
/// An entry without a key: tag, key space.
const CLEAR_LENGTH: usize = 9;
/// Maximum length of entries in the search, many times that of any entry the store writes.
pub(super) const MAX_ENTRY_LEN: usize = (1 << 20) - 1;

/// The state of a journal after its complete groups.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing follows.
    Whole,
    /// Data follow, but no complete group.
    Torn {
        /// The first byte after the complete groups.
        from: u64,
    },
    /// Complete groups follow the damage.
    Damaged {
        /// The first byte after the complete groups.
        from: u64,
    },
}

/// Returns the state of a journal.
pub fn examine(journal: impl Read + Seek) -> io::Result<State> {
    let mut journal = BufReader::with_capacity(1 << 16, journal);
    let mut from = 0;
    let mut last = None;
    while let Some(sequence) = group(&mut journal)? {
        // The checksum does not cover it, but it increases from group to group.
        if last.is_some_and(|last| sequence <= last) {
            return Ok(State::Damaged { from });
        }
        last = Some(sequence);
        from = journal.stream_position()?;
    }
    // The next group may begin where this one became invalid.
    let stop = journal.stream_position()?;
    Ok(match search(journal.get_mut(), from, stop)? {
        Rest::Zeros => State::Whole,
        Rest::NoGroup => State::Torn { from },
        Rest::Groups => State::Damaged { from },
    })
}

/// Reads one group, and returns its sequence number if it is complete.
pub(super) fn group(input: &mut impl Read) -> io::Result<Option<u64>> {
    match read_group(input) {
        Ok(sequence) => Ok(sequence),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_group(input: &mut impl Read) -> io::Result<Option<u64>> {
    let [tag] = bytes(input)?;
    if tag != 1 {
        return Ok(None);
    }
    let entries = u32::from_le_bytes(bytes(input)?);
    let sequence = u64::from_le_bytes(bytes(input)?);
    let mut checksum = Xxh3::new();
    for _ in 0..entries {
        let [tag] = bytes(input)?;
        checksum.update(&[tag]);
        match tag {
            2 => {
                let head = bytes(input)?;
                let Some(length) = length_behind(&head) else { return Ok(None) };
                checksum.update(&head);
                pass(input, length, &mut checksum)?;
            }
            4 => checksum.update(&bytes::<8>(input)?),
            _ => return Ok(None),
        }
    }
    let [tag] = bytes(input)?;
    let expected = u64::from_le_bytes(bytes(input)?);
    let end: [u8; 4] = bytes(input)?;
    let is_whole = tag == 3 && end == END && checksum.digest() == expected;
    Ok(is_whole.then_some(sequence))
}

/// Returns the length of key and value, given the bytes between an entry's tag and its key; none if they are invalid.
fn length_behind(head: &[u8; HEAD_LENGTH - 1]) -> Option<u64> {
    let [kind, compression, _, _, _, _, _, _, _, _, k0, k1, v0, v1, v2, v3, d0, d1, d2, d3] = *head;
    // A value, one of two sorts of tombstones, or an indirection; never compressed.
    let is_known = matches!(kind, 0..=2 | 4) && compression == 0 && [v0, v1, v2, v3] == [d0, d1, d2, d3];
    is_known.then(|| u64::from(u16::from_le_bytes([k0, k1])) + u64::from(u32::from_le_bytes([v0, v1, v2, v3])))
}

/// Adds this many bytes to the checksum, in chunks: the unchecked length must not determine an allocation.
fn pass(input: &mut impl Read, mut length: u64, checksum: &mut Xxh3) -> io::Result<()> {
    let mut chunk = [0; 4096];
    while length > 0 {
        let chunk = &mut chunk[..length.min(4096) as usize];
        input.read_exact(chunk)?;
        checksum.update(chunk);
        length -= chunk.len() as u64;
    }
    Ok(())
}

fn bytes<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The rest of a journal.
enum Rest {
    Zeros,
    NoGroup,
    Groups,
}

/// Searches for the form of a complete group from `from` on: at `stop`, and after each [`END`]. Checksums are ignored:
/// a complete group with wrong content was committed once, too.
fn search(journal: &mut (impl Read + Seek), from: u64, stop: u64) -> io::Result<Rest> {
    const CHUNK: usize = 1 << 18;
    const BLOCK: usize = 1 << 10;
    // The state of a position depends on at most this many bytes.
    const AHEAD: usize = END.len() + START_LENGTH + HEAD_LENGTH;
    static ZEROS: [u8; BLOCK] = [0; BLOCK];
    let mut chains = Chains::new();
    let mut buffer = vec![0; CHUNK + AHEAD];
    let mut is_zero = true;
    let mut end = journal.seek(SeekFrom::End(0))?;
    while end > from {
        let start = end.saturating_sub(CHUNK as u64).max(from);
        let length = (end - start) as usize;
        // The bytes after this chunk are the first of the previous one.
        buffer.copy_within(..AHEAD, length);
        journal.seek(SeekFrom::Start(start))?;
        journal.read_exact(&mut buffer[..length])?;
        for first in (0..length).step_by(BLOCK).rev() {
            let behind = length.min(first + BLOCK);
            if buffer[first..behind] == ZEROS[..behind - first] {
                chains.pass_zeros(start + first as u64, behind - first);
                continue;
            }
            is_zero = false;
            for at in (first..behind).rev() {
                if chains.look(start + at as u64, &buffer[at..at + AHEAD], stop) {
                    return Ok(Rest::Groups);
                }
            }
        }
        end = start;
    }
    Ok(if is_zero { Rest::Zeros } else { Rest::NoGroup })
}

/// The number of entries from a position to the end of a group, for the [`MAX_ENTRY_LEN`] positions examined last.
struct Chains {
    /// One more than that number, or 0 without a path to an end.
    entries: Vec<u32>,
    /// Whether all are 0.
    is_empty: bool,
}

impl Chains {
    const SLOTS: usize = MAX_ENTRY_LEN + 1;

    fn new() -> Self {
        Self { entries: vec![0; Self::SLOTS], is_empty: true }
    }

    fn slot(position: u64) -> usize {
        (position % Self::SLOTS as u64) as usize
    }

    /// Examines a position, from the back. Returns whether a group begins there, or after it with an end.
    fn look(&mut self, position: u64, ahead: &[u8], stop: u64) -> bool {
        let entries = match ahead {
            [2, rest @ ..] => match rest.first_chunk().and_then(length_behind) {
                Some(length) => self.one_more(position, length + HEAD_LENGTH as u64),
                None => 0,
            },
            [3, rest @ ..] => u32::from(rest[8..12] == END),
            [4, ..] => self.one_more(position, CLEAR_LENGTH as u64),
            _ => 0,
        };
        if entries != 0 || !self.is_empty {
            self.is_empty = false;
            self.entries[Self::slot(position)] = entries;
        }
        match ahead.split_first_chunk() {
            Some((&END, behind)) => self.is_group(position + END.len() as u64, behind),
            _ => position == stop && self.is_group(position, ahead),
        }
    }

    /// Returns one more than the value after an entry of this length.
    fn one_more(&self, position: u64, length: u64) -> u32 {
        if length > MAX_ENTRY_LEN as u64 {
            return 0;
        }
        match self.entries[Self::slot(position + length)] {
            0 => 0,
            entries => entries.checked_add(1).unwrap_or(0),
        }
    }

    /// Examines zeros: no entry begins with one.
    fn pass_zeros(&mut self, start: u64, length: usize) {
        if !self.is_empty {
            let first = Self::slot(start);
            let to_the_last = length.min(Self::SLOTS - first);
            self.entries[first..first + to_the_last].fill(0);
            self.entries[..length - to_the_last].fill(0);
        }
    }

    /// Returns whether a group begins at a position. Its entries have been examined.
    fn is_group(&self, position: u64, ahead: &[u8]) -> bool {
        match ahead {
            [1, n0, n1, n2, n3, ..] => {
                let entries = u64::from(u32::from_le_bytes([*n0, *n1, *n2, *n3]));
                u64::from(self.entries[Self::slot(position + START_LENGTH as u64)]) == entries + 1
            }
            _ => false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use std::io::Cursor;

    use super::*;

    pub(in super::super) fn group_of(sequence: u64, values: &[&[u8]]) -> Vec<u8> {
        let mut group = vec![1];
        group.extend((values.len() as u32).to_le_bytes());
        group.extend(sequence.to_le_bytes());
        let start = group.len();
        for value in values {
            group.extend([2, 0, 0]);
            group.extend(1u64.to_le_bytes());
            group.extend(3u16.to_le_bytes());
            group.extend((value.len() as u32).to_le_bytes());
            group.extend((value.len() as u32).to_le_bytes());
            group.extend(b"key");
            group.extend(*value);
        }
        let mut checksum = Xxh3::new();
        checksum.update(&group[start..]);
        group.push(3);
        group.extend(checksum.digest().to_le_bytes());
        group.extend(END);
        group
    }

    /// Returns whether this is a byte of the group's sequence number.
    fn is_sequence(at: usize) -> bool {
        (5..13).contains(&at)
    }

    fn state_of(journal: &[u8]) -> State {
        let mut counting = Counting { journal: Cursor::new(journal), bytes: 0 };
        let state = examine(&mut counting).unwrap();
        // Once forwards and once backwards, plus a buffer.
        let most = 2 * journal.len() as u64 + (1 << 17);
        assert!(counting.bytes <= most, "{} bytes of a journal of {} were read", counting.bytes, journal.len());
        state
    }

    /// A reader that counts its bytes.
    struct Counting<'a> {
        journal: Cursor<&'a [u8]>,
        bytes: u64,
    }

    impl Read for Counting<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let read = self.journal.read(into)?;
            self.bytes += read as u64;
            Ok(read)
        }
    }

    impl Seek for Counting<'_> {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.journal.seek(to)
        }
    }

    #[test]
    fn a_whole_journal_is_told_from_one_with_a_torn_end() {
        let [first, second] = [group_of(7, &[b"one", &[0; 70_000]]), group_of(8, &[b"FJL\x03\x01\x02"])];
        let mut journal = [&first[..], &second].concat();
        let from = first.len() as u64;
        for length in first.len() + 1..journal.len() {
            assert_eq!(state_of(&journal[..length]), State::Torn { from }, "{length} bytes");
        }
        for hole in first.len()..journal.len() {
            if is_sequence(hole - first.len()) {
                continue;
            }
            let mut holed = [&journal[..], &[0; 90_000]].concat();
            holed[hole] = !holed[hole];
            assert_eq!(state_of(&holed), State::Torn { from }, "byte {hole}");
        }
        journal.extend([0; 200_000]);
        assert_eq!(state_of(&journal), State::Whole);
        assert_eq!(state_of(&[]), State::Whole);
    }

    #[test]
    fn whole_groups_behind_something_unreadable_are_found() {
        let [first, second, third] = [group_of(6, &[b"a"]), group_of(7, &[b"bb", b"b"]), group_of(8, &[&[1; 66_000]])];
        let journal = [&first[..], &second, &third, &[0; 1000]].concat();
        for at in first.len()..first.len() + second.len() {
            for bit in 0..8 {
                let mut damaged = journal.clone();
                damaged[at] ^= 1 << bit;
                let state = state_of(&damaged);
                if is_sequence(at - first.len()) {
                    // If the number became larger, the next one is the first impossible one.
                    assert!(matches!(state, State::Damaged { .. }), "bit {bit} of byte {at}: {state:?}");
                } else {
                    assert_eq!(state, State::Damaged { from: first.len() as u64 }, "bit {bit} of byte {at}");
                }
            }
        }
    }

    /// A journal is searched in chunks of 64 KiB.
    #[test]
    fn whole_groups_are_found_wherever_the_damaged_one_ends() {
        for size in (1 << 16) - 80..1 << 16 {
            let [first, second, third] = [group_of(6, &[b"a"]), group_of(7, &[&vec![1; size]]), group_of(8, &[b"c"])];
            let mut journal = [&first[..], &second, &third].concat();
            // From here on its length is unknown.
            journal[first.len() + 13] = 9;
            assert_eq!(state_of(&journal), State::Damaged { from: first.len() as u64 }, "{size} bytes");
        }
    }

    /// Content of a torn group that looks like ends of groups followed by large groups.
    #[test]
    fn a_torn_end_that_is_full_of_ends_is_read_in_proportion_to_its_length() {
        const LENGTH: usize = 1 << 20;
        let whole = group_of(7, &[b"one"]);
        let from = whole.len() as u64;
        let start = |entries: u32| [&END[..], &[1], &entries.to_le_bytes(), &8u64.to_le_bytes()].concat();
        let value = |length: u32| {
            let lengths = [length.to_le_bytes(), length.to_le_bytes()].concat();
            [&[2, 0, 0][..], &1u64.to_le_bytes(), &0u16.to_le_bytes(), &lengths].concat()
        };
        let last = group_of(8, &[&[7; 100]]);
        let filler = [0xFF; 100];
        let patterns = [
            END.to_vec(),
            start(1),
            // Each group would reach the end of the journal.
            [start(1), value(LENGTH as u32 - (1 << 17))].concat(),
            [start(u32::MAX), value(0)].concat(),
            // Many short entries, the next group among them.
            [start(1000), value(17), start(2)].concat(),
            [start(100_000), value(21), value(0)].concat(),
            // A row of entries that all groups share.
            [start(3), [4; 9].repeat(40)].concat(),
        ];
        for (number, pattern) in patterns.iter().enumerate() {
            for (repeated, rest) in [(pattern, &[0; 1][..]), (pattern, &filler), (pattern, &[4]), (pattern, pattern)] {
                let mut journal = [&whole[..], &[1, 9, 9]].concat();
                journal.extend(repeated.iter().cycle().take(1 << 16));
                journal.extend(rest.iter().cycle().take(LENGTH));
                assert_eq!(state_of(&journal), State::Torn { from }, "pattern {number}");
                journal.extend(&END);
                journal.extend(&last);
                assert_eq!(state_of(&journal), State::Damaged { from }, "pattern {number} and a group");
            }
        }
    }

    /// It was complete and acknowledged once: only the last group can be torn.
    #[test]
    fn a_group_whose_checksum_does_not_fit_is_not_taken_for_a_torn_end_behind_something_unreadable() {
        let [first, second, mut third] = [group_of(6, &[b"a"]), group_of(7, &[b"b"]), group_of(8, &[b"c", b"d"])];
        let from = first.len() as u64;
        let at = third.len() - 14;
        third[at] ^= 1;
        assert_eq!(state_of(&[&first[..], &third].concat()), State::Torn { from }, "it may be the torn one");
        let mut journal = [&first[..], &second, &third].concat();
        journal[first.len()] = 9;
        assert_eq!(state_of(&journal), State::Damaged { from });
    }

    #[test]
    fn lengths_of_more_bytes_than_there_are_take_no_memory() {
        let whole = group_of(7, &[b"one"]);
        let mut journal = [&whole[..], &[1], &u32::MAX.to_le_bytes(), &8u64.to_le_bytes(), &[2, 0, 0]].concat();
        journal.extend(1u64.to_le_bytes());
        journal.extend(u16::MAX.to_le_bytes());
        journal.extend([0xFF; 8]);
        journal.extend([7; 1000]);
        assert_eq!(state_of(&journal), State::Torn { from: whole.len() as u64 });
    }
}
