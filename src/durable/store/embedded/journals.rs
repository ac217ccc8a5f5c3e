//! The journals of the database, looked at before it opens them.
//!
//! The group that was written last may be torn: it was not answered, and may go. But the database cuts a journal off at
//! whatever it cannot read, with all that comes after, and without a word; and where a checksum does not fit it refuses to
//! open, even if that is the torn end. So we look first. If whole groups follow what cannot be read, not the end is torn, but
//! the middle is damaged, and something that was acknowledged would be lost: the store is refused. Else the torn end is cut
//! off here, whatever it looks like.
//!
//! A journal is a row of groups, and then zeros. A group: `1`, number of entries (4 bytes), sequence number (8); the entries:
//! `2`, kind, compression, key space (8), length of the key (2), length of the value (4), length on disk (4), key, value, or
//! `4`, key space (8); and then `3`, the checksum of all entries (XXH3, 8 bytes), `FJL` and `3`. Integers are little-endian.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

const END: [u8; 4] = *b"FJL\x03";

/// Refuses journals of which a part would be lost, and says why. Cuts off what is torn.
pub(super) fn prepare(data: &Path) -> Result<(), String> {
    let mut journals = journals(data).map_err(|error| format!("{}: {error}", data.display()))?;
    journals.sort_unstable();
    // One may be empty, but there always is one.
    if journals.is_empty() {
        return Err(format!("there is no journal in {}", data.display()));
    }
    let active = journals.pop();
    let sealed = journals.iter().map(|journal| (journal, true)).chain(active.iter().map(|journal| (journal, false)));
    for ((_, path), is_sealed) in sealed {
        let done = examine(path).and_then(|state| match state {
            State::Whole => Ok(None),
            State::Torn { from } if !is_sealed => cut(path, from).map(|()| None),
            State::Torn { from } | State::Damaged { from } => Ok(Some(from)),
        });
        match done {
            Ok(None) => {}
            Ok(Some(from)) => {
                return Err(format!(
                    "the journal {} is damaged at byte {from}, and what was committed after that would be lost",
                    path.display()
                ));
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Ok(())
}

fn cut(path: &Path, from: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(from)?;
    file.sync_all()
}

/// What a journal looks like behind its whole groups.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// There is nothing.
    Whole,
    /// There is something, but no whole group.
    Torn { from: u64 },
    /// There are whole groups again.
    Damaged { from: u64 },
}

pub(super) fn journals(data: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
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

fn examine(path: &Path) -> io::Result<State> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let mut from = 0;
    let mut last = None;
    while let Some(sequence) = group(&mut file)? {
        // The checksum does not cover it, but it goes up from group to group.
        if last.is_some_and(|last| sequence <= last) {
            return Ok(State::Damaged { from });
        }
        last = Some(sequence);
        from = file.stream_position()?;
    }
    // The next one may begin where this ends in another way than it should, or behind any later end.
    let mut ends = vec![file.stream_position()?];
    file.seek(SeekFrom::Start(from))?;
    if find_ends(&mut file, from, &mut ends)? {
        return Ok(State::Whole);
    }
    for end in ends {
        file.seek(SeekFrom::Start(end))?;
        if group(&mut file)?.is_some() {
            return Ok(State::Damaged { from });
        }
    }
    Ok(State::Torn { from })
}

/// Reads one group, and answers its sequence number if a whole one was there.
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
    let mut entry = Vec::new();
    let mut checksum = Xxh3::new();
    for _ in 0..entries {
        entry.clear();
        input.take(1).read_to_end(&mut entry)?;
        match *entry {
            [2] => {
                let head: [u8; 20] = bytes(input)?;
                let [kind, compression, _, _, _, _, _, _, _, _, k0, k1, _, _, _, _, v0, v1, v2, v3] = head;
                // A value, one of two sorts of tombstones, or an indirection; never compressed.
                if !matches!(kind, 0..=2 | 4) || compression != 0 {
                    return Ok(None);
                }
                let length = u64::from(u16::from_le_bytes([k0, k1])) + u64::from(u32::from_le_bytes([v0, v1, v2, v3]));
                entry.extend_from_slice(&head);
                if input.take(length).read_to_end(&mut entry)? as u64 != length {
                    return Ok(None);
                }
            }
            [4] => entry.extend_from_slice(&bytes::<8>(input)?),
            _ => return Ok(None),
        }
        checksum.update(&entry);
    }
    let [tag] = bytes(input)?;
    let expected = u64::from_le_bytes(bytes(input)?);
    let end: [u8; 4] = bytes(input)?;
    let is_whole = tag == 3 && end == END && checksum.digest() == expected;
    Ok(is_whole.then_some(sequence))
}

fn bytes<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Where groups may end after `from`; and whether there is nothing but zeros.
fn find_ends(input: &mut impl Read, from: u64, ends: &mut Vec<u64>) -> io::Result<bool> {
    const CHUNK: usize = 1 << 16;
    static ZEROS: [u8; CHUNK] = [0; CHUNK];
    // An end may lie across two chunks.
    const OVERLAP: usize = END.len() - 1;
    let mut buffer = vec![0; OVERLAP + CHUNK];
    let mut position = from;
    let mut is_empty = true;
    loop {
        let mut length = 0;
        while length < CHUNK {
            let read = input.read(&mut buffer[OVERLAP + length..])?;
            if read == 0 {
                break;
            }
            length += read;
        }
        if length == 0 {
            return Ok(is_empty);
        }
        let chunk = &buffer[OVERLAP..OVERLAP + length];
        if chunk != &ZEROS[..length] {
            is_empty = false;
            let window = &buffer[..OVERLAP + length];
            let found = window.windows(END.len()).enumerate().filter(|(_, bytes)| *bytes == END);
            // As many bytes of the window as an end has lie before the chunk, but one.
            ends.extend(found.map(|(at, _)| position + at as u64 + 1));
        }
        position += length as u64;
        buffer.copy_within(length..length + OVERLAP, 0);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use super::*;

    fn group_of(sequence: u64, values: &[&[u8]]) -> Vec<u8> {
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

    /// Where a group has its sequence number.
    fn is_sequence(at: usize) -> bool {
        (5..13).contains(&at)
    }

    fn state_of(journal: &[u8]) -> State {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(journal).unwrap();
        examine(file.path()).unwrap()
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
                    // If it is larger than it was, the next is the first that cannot be.
                    assert!(matches!(state, State::Damaged { .. }), "bit {bit} of byte {at}: {state:?}");
                } else {
                    assert_eq!(state, State::Damaged { from: first.len() as u64 }, "bit {bit} of byte {at}");
                }
            }
        }
    }

    /// A journal is searched a chunk of 64 KiB at a time.
    #[test]
    fn whole_groups_are_found_wherever_the_damaged_one_ends() {
        for size in (1 << 16) - 80..1 << 16 {
            let [first, second, third] = [group_of(6, &[b"a"]), group_of(7, &[&vec![1; size]]), group_of(8, &[b"c"])];
            let mut journal = [&first[..], &second, &third].concat();
            // From here on nothing tells how long it is.
            journal[first.len() + 13] = 9;
            assert_eq!(state_of(&journal), State::Damaged { from: first.len() as u64 }, "{size} bytes");
        }
    }

    #[test]
    fn only_the_last_journal_may_have_a_torn_end() {
        let data = tempfile::tempdir().unwrap();
        let [whole, torn] = [group_of(7, &[b"one"]), group_of(8, &[b"two"])[..20].to_vec()];
        let write = |number: u64, groups: &[&[u8]]| {
            // Numbers, not names, say which is the last.
            fs::write(data.path().join(format!("{number}.jnl")), groups.concat()).unwrap();
        };
        write(9, &[&whole]);
        write(10, &[&whole, &torn]);
        prepare(data.path()).unwrap();
        assert_eq!(fs::read(data.path().join("10.jnl")).unwrap(), whole, "the torn end is cut off");
        write(9, &[&whole, &torn]);
        let refused = prepare(data.path()).unwrap_err();
        assert!(refused.contains("9.jnl is damaged at byte"), "{refused}");
        assert_eq!(fs::read(data.path().join("9.jnl")).unwrap(), [whole, torn].concat());
    }
}
