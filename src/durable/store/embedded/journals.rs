//! The journals of the database, looked at before it opens them.
//!
//! What was written last may be torn: such a group was not answered, and the database cuts it off. But it cuts at whatever
//! it cannot read, and all that comes after is gone, too, without a word. So before it does we look whether whole groups
//! follow: then not the end is torn, but the middle is damaged, and something that was acknowledged would be lost.
//!
//! A journal is a row of groups, and then zeros. A group: `1`, number of entries (4 bytes), sequence number (8); the entries:
//! `2`, kind, compression, key space (8), length of the key (2), length of the value (4), length on disk (4), key, value, or
//! `4`, key space (8); and then `3`, checksum (8), `FJL` and `3`. Integers are little-endian.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const END: [u8; 4] = *b"FJL\x03";

/// Refuses journals of which a part would be lost, and says why.
pub(super) fn check(data: &Path) -> Result<(), String> {
    let mut journals = journals(data).map_err(|error| format!("{}: {error}", data.display()))?;
    journals.sort_unstable();
    let active = journals.pop();
    let sealed = journals.iter().map(|journal| (journal, true)).chain(active.iter().map(|journal| (journal, false)));
    for ((_, path), is_sealed) in sealed {
        match damage(path, is_sealed) {
            Ok(None) => {}
            Ok(Some(at)) => {
                return Err(format!(
                    "the journal {} is damaged at byte {at}, and what was committed after that would be lost",
                    path.display()
                ));
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Ok(())
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

/// Where a journal is damaged in its middle. The end of one that is still written to may be torn.
fn damage(path: &Path, is_sealed: bool) -> io::Result<Option<u64>> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let mut whole = 0;
    while group(&mut file)? {
        whole = file.stream_position()?;
    }
    // The next one may begin where this ends in another way than it should, or behind any later end.
    let mut ends = vec![file.stream_position()?];
    file.seek(SeekFrom::Start(whole))?;
    let is_empty = find_ends(&mut file, whole, &mut ends)?;
    if is_empty {
        return Ok(None);
    }
    for end in ends {
        file.seek(SeekFrom::Start(end))?;
        if group(&mut file)? {
            return Ok(Some(whole));
        }
    }
    Ok(is_sealed.then_some(whole))
}

/// Reads one group, and answers whether a whole one was there.
fn group(input: &mut (impl Read + Seek)) -> io::Result<bool> {
    match read_group(input) {
        Ok(is_whole) => Ok(is_whole),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn read_group(input: &mut (impl Read + Seek)) -> io::Result<bool> {
    let [tag] = bytes(input)?;
    if tag != 1 {
        return Ok(false);
    }
    let entries = u32::from_le_bytes(bytes(input)?);
    let _sequence: [u8; 8] = bytes(input)?;
    for _ in 0..entries {
        let [tag] = bytes(input)?;
        match tag {
            2 => {
                let [kind, compression] = bytes(input)?;
                // A value, one of two sorts of tombstones, or an indirection; never compressed.
                if !matches!(kind, 0..=2 | 4) || compression != 0 {
                    return Ok(false);
                }
                let _space: [u8; 8] = bytes(input)?;
                let key = u16::from_le_bytes(bytes(input)?);
                let _length: [u8; 4] = bytes(input)?;
                let value = u32::from_le_bytes(bytes(input)?);
                skip(input, u64::from(key) + u64::from(value))?;
            }
            4 => {
                let _space: [u8; 8] = bytes(input)?;
            }
            _ => return Ok(false),
        }
    }
    let [tag] = bytes(input)?;
    let _checksum: [u8; 8] = bytes(input)?;
    let end: [u8; 4] = bytes(input)?;
    Ok(tag == 3 && end == END)
}

fn bytes<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn skip(input: &mut impl Read, count: u64) -> io::Result<()> {
    let skipped = io::copy(&mut input.by_ref().take(count), &mut io::sink())?;
    if skipped == count { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
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

    fn group_of(values: &[&[u8]]) -> Vec<u8> {
        let mut group = vec![1];
        group.extend((values.len() as u32).to_le_bytes());
        group.extend(7u64.to_le_bytes());
        for value in values {
            group.extend([2, 0, 0]);
            group.extend(1u64.to_le_bytes());
            group.extend(3u16.to_le_bytes());
            group.extend((value.len() as u32).to_le_bytes());
            group.extend((value.len() as u32).to_le_bytes());
            group.extend(b"key");
            group.extend(*value);
        }
        group.push(3);
        group.extend(9u64.to_le_bytes());
        group.extend(END);
        group
    }

    fn damage_of(journal: &[u8], is_sealed: bool) -> Option<u64> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(journal).unwrap();
        damage(file.path(), is_sealed).unwrap()
    }

    #[test]
    fn a_whole_journal_and_one_with_a_torn_end_are_fine() {
        let groups = [group_of(&[b"one", &[0; 70_000]]), group_of(&[b"FJL\x03\x01\x02"])].concat();
        let mut journal = groups.clone();
        journal.extend([0; 200_000]);
        assert_eq!(damage_of(&journal, true), None);
        assert_eq!(damage_of(&journal, false), None);
        assert_eq!(damage_of(&[], true), None);
        for length in groups.len() - 40..groups.len() {
            assert_eq!(damage_of(&groups[..length], false), None, "{length} bytes");
            assert_eq!(damage_of(&groups[..length], true), Some(group_of(&[b"one", &[0; 70_000]]).len() as u64));
        }
    }

    #[test]
    fn whole_groups_behind_something_unreadable_are_found() {
        let [first, second, third] = [group_of(&[b"a"]), group_of(&[b"bb", b"b"]), group_of(&[&[1; 66_000]])];
        let journal = [&first[..], &second, &third, &[0; 1000]].concat();
        for is_sealed in [true, false] {
            for (at, byte) in
                [(0, 0), (1, 9), (14, 3), (15, 1), (24, 200), (second.len() - 1, 4), (second.len() - 13, 0)]
            {
                let mut damaged = journal.clone();
                damaged[first.len() + at] = byte;
                assert_eq!(damage_of(&damaged, is_sealed), Some(first.len() as u64), "byte {at}");
            }
        }
    }
}
