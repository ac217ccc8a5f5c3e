//! Pages of records in their order, around damage.
//!
//! The database reports a damaged block when it reads it, and loses its position. So the damage is bisected: from above
//! by the last key up to which a range can be read completely, from below by the first key from which one can be read
//! again. That takes some hundred reads for each damaged location, and never happens in a good year.

use std::ops::RangeBounds;

use fjall::Slice;

use super::engine::{Engine, ReadError, join};
use super::layout::{Region, Space, read_record};
use crate::DueTime;
use crate::store::names::Names;
use crate::store::{Found, Newer, Page, Part, Position};

/// Returns rows of a space in the order of their keys, from `lower` up to `upper` (exclusive), at most `limit`. Damaged
/// rows are skipped and counted.
pub(super) fn rows(
    engine: &Engine,
    space: Space,
    lower: Vec<u8>,
    upper: &[u8],
    limit: usize,
    damaged: &mut usize,
) -> Result<Vec<(Slice, Slice)>, ReadError> {
    let mut found = Vec::new();
    let mut lower = lower;
    while *lower < *upper {
        match read_range(engine, space, lower.clone()..upper.to_vec(), limit, &mut found) {
            Ok(()) => return Ok(found),
            Err(ReadError::Io(error)) => return Err(ReadError::Io(error)),
            // No row is decoded here.
            Err(ReadError::Damaged | ReadError::Newer(_)) => {
                *damaged += 1;
                if let Some((last, _)) = found.last() {
                    lower = successor(last);
                }
                lower = skip(engine, space, lower, upper, limit, &mut found)?;
                if found.len() >= limit {
                    break;
                }
            }
        }
    }
    Ok(found)
}

/// Reads a range, as far as possible. Rows before the damage may be missing.
fn read_range(
    engine: &Engine,
    space: Space,
    range: impl RangeBounds<Vec<u8>>,
    limit: usize,
    found: &mut Vec<(Slice, Slice)>,
) -> Result<(), ReadError> {
    let mut range = engine.space(space).range(range);
    while found.len() < limit {
        let Some(row) = range.next() else { break };
        found.push(row.into_inner()?);
    }
    Ok(())
}

/// Reads the rows between `lower` and the damage, and returns the key at which reading works again.
fn skip(
    engine: &Engine,
    space: Space,
    lower: Vec<u8>,
    upper: &[u8],
    limit: usize,
    found: &mut Vec<(Slice, Slice)>,
) -> Result<Vec<u8>, ReadError> {
    let wanted = limit - found.len();
    let mut tail = Vec::new();
    let end = bisect(&lower, upper, |middle| {
        let mut rows = Vec::new();
        let last = shortest(middle);
        let is_whole = last < lower || is_readable(read_range(engine, space, lower.clone()..=last, wanted, &mut rows))?;
        if is_whole && rows.len() > tail.len() {
            tail = rows;
        }
        Ok(!is_whole)
    })?;
    found.append(&mut tail);
    // A range that ends with the very last key before the damage also reads past it. But that key is known by now,
    // except for the zeros at its end.
    for candidate in [below(&end), end] {
        for length in shortest(&candidate).len()..=WIDTH {
            let key = &candidate[..length];
            let row = engine.space(space).get(key).map_err(ReadError::from);
            match row {
                Ok(Some(row)) if found.last().is_none_or(|(last, _)| **last < *key) => found.push((key.into(), row)),
                Err(ReadError::Io(error)) => return Err(ReadError::Io(error)),
                _ => {}
            }
        }
    }
    if found.len() >= limit {
        return Ok(end.to_vec());
    }
    // The first start from which a row can be read.
    let start = |middle: &[u8]| middle.to_vec()..upper.to_vec();
    let again =
        bisect(&end, upper, |middle| is_readable(read_range(engine, space, start(middle), 1, &mut Vec::new())))?;
    Ok(again.to_vec())
}

fn is_readable(result: Result<(), ReadError>) -> Result<bool, ReadError> {
    match result {
        Ok(()) => Ok(true),
        Err(ReadError::Damaged | ReadError::Newer(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the first key in the range for which `holds` holds, assuming monotonicity.
fn bisect(
    lower: &[u8],
    upper: &[u8],
    mut holds: impl FnMut(&[u8; WIDTH]) -> Result<bool, ReadError>,
) -> Result<[u8; WIDTH], ReadError> {
    let [mut low, mut high] = [number(lower), number(upper)];
    while let Some(middle) = between(&low, &high) {
        if holds(&middle)? { high = middle } else { low = middle }
    }
    Ok(high)
}

/// Width of keys as fractions, in digits: more than the key of any record has.
const WIDTH: usize = 26;

fn number(key: &[u8]) -> [u8; WIDTH] {
    let mut number = [0; WIDTH];
    let length = key.len().min(WIDTH);
    number[..length].copy_from_slice(&key[..length]);
    number
}

/// Returns the midpoint of two numbers, if there is one between them.
fn between(low: &[u8; WIDTH], high: &[u8; WIDTH]) -> Option<[u8; WIDTH]> {
    let mut sum = [0; WIDTH];
    let mut carry = 0;
    for byte in (0..WIDTH).rev() {
        let digit = u16::from(low[byte]) + u16::from(high[byte]) + carry;
        sum[byte] = digit as u8;
        carry = digit >> 8;
    }
    let mut half = [0; WIDTH];
    for byte in 0..WIDTH {
        half[byte] = (carry as u8) << 7 | sum[byte] >> 1;
        carry = u16::from(sum[byte] & 1);
    }
    (half > *low && half < *high).then_some(half)
}

/// Returns the number without trailing zeros.
fn shortest(number: &[u8; WIDTH]) -> Vec<u8> {
    let length = number.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
    number[..length].to_vec()
}

/// Returns the number minus one.
fn below(number: &[u8; WIDTH]) -> [u8; WIDTH] {
    let mut below = *number;
    for digit in below.iter_mut().rev() {
        let (less, is_borrowed) = digit.overflowing_sub(1);
        *digit = less;
        if !is_borrowed {
            break;
        }
    }
    below
}

/// Returns the key right after this one.
pub(super) fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Returns a page of records of a part, from the key `lower` on, due up to `until`.
pub(super) fn page(
    engine: &Engine,
    names: &mut Names,
    (part, shard): (Part, u16),
    lower: Vec<u8>,
    until: DueTime,
    limit: usize,
) -> Result<Page, ReadError> {
    let region = Region::new(part, shard);
    let upper = region.from(until.as_millis() + 1);
    let mut damaged = 0;
    // One more than requested shows whether more follow.
    let mut rows = rows(engine, region.space, lower, &upper, limit.saturating_add(1), &mut damaged)?;
    let is_more = rows.len() > limit;
    rows.truncate(limit);
    let mut page = Page { damaged: vec![None; damaged], ..Page::default() };
    page.found.reserve_exact(rows.len());
    let mut last = None;
    for (key, row) in rows {
        let Some(at) = region.position(&key) else {
            page.damaged.push(None);
            continue;
        };
        last = Some(at);
        match record(engine, names, part, at, (region.space, &key), row) {
            Ok(found) => page.found.push(found),
            Err(ReadError::Damaged) => page.damaged.push(Some(at.id)),
            Err(ReadError::Newer(version)) => page.newer.push(Newer { at, version }),
            Err(error) => return Err(error),
        }
    }
    page.next = if is_more { last } else { None };
    Ok(page)
}

/// Decodes the record of a row.
pub(super) fn record(
    engine: &Engine,
    names: &mut Names,
    part: Part,
    at: Position,
    key: (Space, &[u8]),
    row: Slice,
) -> Result<Found, ReadError> {
    let value = join(key, row, |piece| Ok(engine.space(Space::Pieces).get(piece)?))?;
    Ok(read_record(part, at, &value.bytes, &mut |name| names.get(name))?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn halfway_lies_between() {
        assert_eq!(between(&number(&[1]), &number(&[3])), Some(number(&[2])));
        assert_eq!(between(&number(&[0xFF]), &number(&[0xFF, 0xFF])).unwrap()[..2], [0xFF, 0x7F]);
        assert_eq!(between(&number(&[7]), &number(&[7])), None);
        let mut next = number(&[7]);
        next[WIDTH - 1] = 1;
        assert_eq!(between(&number(&[7]), &next), None);
    }

    #[test]
    fn bisecting_finds_the_first_key() {
        let border = [3, 200, 17];
        let found = bisect(&[0], &[9], |key| Ok(key[..] >= border[..])).unwrap();
        assert_eq!(found, number(&border));
        assert_eq!(shortest(&found), border);
        assert!(shortest(&below(&found))[..] < border[..]);
        let never = bisect(&[0], &[9], |_| Ok(false)).unwrap();
        assert_eq!(never, number(&[9]));
    }
}
