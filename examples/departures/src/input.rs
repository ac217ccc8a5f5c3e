//! Reads flights from a file, and reports the exact position of a malformed line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use jiff::civil::date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::flight::{Flight, Outcome};

const HEADER: &str = "scheduled,departed,carrier,flight,origin,destination";
/// The maximum length of a line; well-formed lines are far shorter.
const LONGEST_LINE: u64 = 1024;
/// The accepted years. Airlines have flown since 1914; other years are typos.
const YEARS: std::ops::Range<i16> = 1914..2200;
const MOST_EARLY: SignedDuration = SignedDuration::from_hours(2);
const MOST_LATE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Reads all flights of a file, in the order of its lines, which may be any.
///
/// # Errors
/// Names file, line and problem.
pub(crate) fn read(file: &Path) -> Result<Vec<Flight>, String> {
    let shown = file.display();
    let opened = File::open(file).map_err(|wrong| format!("{shown}: {wrong}"))?;
    if opened.metadata().is_ok_and(|file| file.is_dir()) {
        return Err(format!("{shown}: this is a directory, not a file"));
    }
    let mut lines = Lines { reader: BufReader::new(opened), number: 0 };
    let at = |lines: &Lines<_>, wrong| format!("{shown}:{}: {wrong}", lines.number);

    match lines.next().map_err(|wrong| at(&lines, wrong))? {
        None => return Err(format!("{shown}: the file is empty; its first line must be '{HEADER}'")),
        Some(header) if header.trim_start_matches('\u{feff}') == HEADER => {}
        Some(header) => return Err(at(&lines, format!("unknown header {header:?}; it must be '{HEADER}'"))),
    }
    let mut flights = Vec::new();
    while let Some(line) = lines.next().map_err(|wrong| at(&lines, wrong))? {
        flights.push(flight(lines.number, &line).map_err(|wrong| at(&lines, wrong))?);
    }
    if flights.is_empty() { Err(format!("{shown}: there are no flights in it")) } else { Ok(flights) }
}

/// The lines of a text, terminated by LF or CR LF.
struct Lines<R> {
    reader: R,
    /// The number of the current line.
    number: usize,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<String>, String> {
        self.number += 1;
        let mut bytes = Vec::new();
        let limited: io::Result<usize> = self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes);
        if limited.map_err(|wrong| wrong.to_string())? == 0 {
            return Ok(None);
        }
        if bytes.len() as u64 == LONGEST_LINE && !bytes.ends_with(b"\n") {
            return Err(format!("the line is longer than {LONGEST_LINE} bytes"));
        }
        let mut line = String::from_utf8(bytes).map_err(|_| "the line is not valid UTF-8".to_owned())?;
        line.truncate(line.trim_end_matches('\n').trim_end_matches('\r').len());
        Ok(Some(line))
    }
}

fn flight(line: usize, text: &str) -> Result<Flight, String> {
    let fields: Vec<&str> = text.split(',').collect();
    let [scheduled, departed, carrier, number, origin, destination] = fields[..] else {
        return Err(match text {
            "" => "the line is empty".to_owned(),
            _ => format!("6 columns are wanted, here are {}", fields.len()),
        });
    };
    let scheduled = moment("scheduled", scheduled)?;
    Ok(Flight {
        line,
        scheduled,
        outcome: outcome(scheduled, departed)?,
        carrier: code("carrier", carrier, 2)?,
        number: flight_number(number)?,
        origin: code("origin", origin, 3)?,
        destination: code("destination", destination, 3)?,
    })
}

fn moment(column: &str, text: &str) -> Result<Timestamp, String> {
    let moment: Timestamp = text
        .parse()
        .map_err(|wrong| format!("{column} {text:?} is not a date and time like 2013-07-01T09:00:00Z: {wrong}"))?;
    let start_of = |year| date(year, 1, 1).to_zoned(TimeZone::UTC).map(|midnight| midnight.timestamp());
    match (start_of(YEARS.start), start_of(YEARS.end)) {
        (Ok(first), Ok(end)) if (first..end).contains(&moment) => Ok(moment),
        _ => Err(format!("{column} {text:?} is not in the years {} to {}", YEARS.start, YEARS.end - 1)),
    }
}

fn outcome(scheduled: Timestamp, departed: &str) -> Result<Outcome, String> {
    if departed.is_empty() {
        return Ok(Outcome::Cancelled);
    }
    let at = moment("departed", departed)?;
    let late = at.duration_since(scheduled);
    if late < -MOST_EARLY {
        return Err(format!("departed {:#} before the scheduled time; at most {MOST_EARLY:#} are believed", -late));
    }
    if late > MOST_LATE {
        return Err(format!("departed {late:#} after the scheduled time; at most {MOST_LATE:#} are believed"));
    }
    Ok(Outcome::Departed(at))
}

fn code(column: &str, text: &str, length: usize) -> Result<String, String> {
    let is_code = text.len() == length && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let wrong = || format!("{column} {text:?} is not a code of {length} capital letters or digits");
    is_code.then(|| text.to_owned()).ok_or_else(wrong)
}

fn flight_number(text: &str) -> Result<u32, String> {
    const LARGEST: u32 = 9999;
    let number = text.parse().ok().filter(|number| (1..=LARGEST).contains(number));
    number.ok_or_else(|| format!("flight {text:?} is not a number from 1 to {LARGEST}"))
}
