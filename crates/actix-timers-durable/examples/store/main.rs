//! Inspects a store of durable timers that no process has open.
//!
//! ```text
//! cargo run --example store -- check DIR                        is everything readable and consistent?
//! cargo run --example store -- list DIR [pending|parked|dead] [LIMIT]
//! cargo run --example store -- stats DIR                        how much is there, how large is it?
//! ```
//!
//! The exit code is 0 on success, 1 for a problem of the store, 2 for invalid arguments. Without arguments it creates a
//! store in a temporary directory and inspects that.

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use actix_timers_durable::store::{Change, EmbeddedStore, OnKey, Part, StoreError};
use actix_timers_durable::{DueTime, DurableId, Record, RecordState, TimerStore};

const USAGE: &str = "\
usage: store check DIR
       store list DIR [pending|parked|dead] [LIMIT]
       store stats DIR

check  reads everything, and says what is damaged or does not fit together
list   the first timers of a part by due time: pending (if none is named), parked or dead; at most LIMIT (100)
stats  how much there is in each shard, and how large it is on disk

The store must not be open in another process.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(&arguments, &mut io::stdout().lock(), &mut io::stderr().lock())
}

/// A parsed command line.
enum Question<'a> {
    Check(&'a Path),
    List { directory: &'a Path, part: Part, limit: usize },
    Statistics(&'a Path),
    Help,
    Demonstration,
}

/// The reason for an exit code other than 0.
enum Problem {
    Store(StoreError),
    Output(io::Error),
    Issues(usize),
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Writes the answer to a question to `out`, and problems to `wrong`.
pub(crate) fn run(arguments: &[&str], out: &mut dyn Write, wrong: &mut dyn Write) -> ExitCode {
    let question = match Question::read(arguments) {
        Ok(question) => question,
        Err(what) => {
            let _ = write!(wrong, "{}\n\n{USAGE}", Shown(&what));
            return ExitCode::from(2);
        }
    };
    match question.answer(out) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe.
        Err(Problem::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = match problem {
                Problem::Store(error) => writeln!(wrong, "{error}"),
                Problem::Output(error) => writeln!(wrong, "the answer cannot be written: {error}"),
                Problem::Issues(count) => {
                    writeln!(wrong, "{count} issues: restore a backup, or keep the readable timers")
                }
            };
            ExitCode::FAILURE
        }
    }
}

impl<'a> Question<'a> {
    fn read(arguments: &[&'a str]) -> Result<Self, String> {
        match *arguments {
            [] => Ok(Self::Demonstration),
            ["--help" | "-h" | "help", ..] => Ok(Self::Help),
            ["check", directory] => Ok(Self::Check(Path::new(directory))),
            ["stats", directory] => Ok(Self::Statistics(Path::new(directory))),
            ["list", directory, ref rest @ ..] => {
                let (part, rest) = match *rest {
                    ["pending", ref rest @ ..] => (Part::Pending, rest),
                    ["parked", ref rest @ ..] => (Part::Parked, rest),
                    ["dead", ref rest @ ..] => (Part::Dead, rest),
                    ref rest => (Part::Pending, rest),
                };
                let limit = match *rest {
                    [] => 100,
                    [limit] => limit.parse().map_err(|_| format!("{limit} is neither a part nor a number"))?,
                    [_, extra, ..] => return Err(format!("{extra} is too much")),
                };
                Ok(Self::List { directory: Path::new(directory), part, limit })
            }
            ["check" | "stats" | "list"] => Err("the directory is missing".to_owned()),
            ["check" | "stats", _, extra, ..] => Err(format!("{extra} is too much")),
            [other, ..] => Err(format!("{other} is not known")),
        }
    }

    fn answer(&self, out: &mut dyn Write) -> Result<(), Problem> {
        match *self {
            Self::Check(directory) => check(&mut EmbeddedStore::open_existing(directory)?, out),
            Self::List { directory, part, limit } => {
                list(&mut EmbeddedStore::open_existing(directory)?, part, limit, out)
            }
            Self::Statistics(directory) => statistics(&mut EmbeddedStore::open_existing(directory)?, out),
            Self::Help => Ok(write!(out, "{USAGE}")?),
            Self::Demonstration => demonstrate(out),
        }
    }
}

fn check(store: &mut EmbeddedStore, out: &mut dyn Write) -> Result<(), Problem> {
    let issues = store.check()?;
    for issue in &issues {
        writeln!(out, "{issue}")?;
    }
    if !issues.is_empty() {
        return Err(Problem::Issues(issues.len()));
    }
    let path = store.path().to_string_lossy();
    writeln!(out, "{}: everything can be read and fits together", Shown(&path))?;
    Ok(())
}

fn list(store: &mut EmbeddedStore, part: Part, limit: usize, out: &mut dyn Write) -> Result<(), Problem> {
    let mut damaged = 0;
    for shard in store.shards()? {
        let page = store.load(part, shard, None, DueTime::MAX, limit)?;
        damaged += page.damaged.len();
        for found in &page.found {
            let Record { id, progress, route, message_type, message_version, key, payload, .. } = &*found.record;
            let [route, message_type] = [Shown(route), Shown(message_type)];
            write!(out, "{} {id} {route}/{message_type}.{message_version}", time(progress.due))?;
            write!(out, " attempt {}, {} bytes", progress.attempt, payload.len())?;
            if let Some(key) = key {
                write!(out, ", key {}", Shown(key))?;
            }
            if let Some((reason, dead_at)) = &found.dead_letter {
                write!(out, ", dead since {}: {}", time(*dead_at), Shown(reason))?;
            }
            writeln!(out)?;
        }
        for newer in &page.newer {
            let (due, id) = (time(newer.at.due), newer.at.id);
            writeln!(out, "{due} {id} was written by a newer version (record version {})", newer.version)?;
        }
        if page.next.is_some() {
            writeln!(out, "and more in shard {shard}")?;
        }
    }
    if damaged > 0 { Err(Problem::Issues(damaged)) } else { Ok(()) }
}

fn statistics(store: &mut EmbeddedStore, out: &mut dyn Write) -> Result<(), Problem> {
    let statistics = store.statistics()?;
    writeln!(out, "format {}, {} bytes on disk", statistics.format, statistics.disk_bytes)?;
    for shard in &statistics.shards {
        let counts = shard.counts;
        write!(out, "shard {}: {} pending", shard.shard, counts.pending)?;
        if let Some(due) = shard.first_due {
            write!(out, " (the first is due {})", time(due))?;
        }
        writeln!(
            out,
            ", {} parked, {} dead letters, {} claims, {} commits",
            counts.parked, counts.dead, shard.claims, shard.commits
        )?;
    }
    Ok(())
}

/// Foreign text for a terminal: with an escape in place of each non-printable character.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '"' | '\'' => f.write_char(character),
            _ => write!(f, "{}", character.escape_debug()),
        })
    }
}

fn time(due: DueTime) -> String {
    let millis = i64::try_from(due.as_millis()).ok();
    let time = millis.and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    time.map_or_else(|| due.to_string(), |time| time.to_string())
}

/// Creates a store with a few timers, and asks all questions about it.
fn demonstrate(out: &mut dyn Write) -> Result<(), Problem> {
    let directory = tempfile::tempdir()?;
    writeln!(
        out,
        "no directory was named (--help tells how): a look into a new store in {}",
        directory.path().display()
    )?;
    let mut store = EmbeddedStore::open(directory.path())?;
    fill(&mut store)?;
    statistics(&mut store, out)?;
    for part in [Part::Pending, Part::Parked, Part::Dead] {
        writeln!(out, "{part:?}:")?;
        list(&mut store, part, 2, out)?;
    }
    check(&mut store, out)
}

pub(crate) fn fill(store: &mut EmbeddedStore) -> Result<(), StoreError> {
    fill_with(store, "order", "no such customer")
}

pub(crate) fn fill_with(store: &mut EmbeddedStore, key: &str, reason: &str) -> Result<(), StoreError> {
    let fence = store.acquire(0)?.fence;
    let ids: Vec<DurableId> = (0..5).map(|number| DurableId::new(0, nine_o_clock(number))).collect();
    let put = ids.iter().zip(0..).map(|(id, number)| {
        let record = Record {
            id: *id,
            progress: RecordState::first(nine_o_clock(number)),
            sequence: number,
            route: "reminders".into(),
            message_type: "Remind".into(),
            message_version: 1,
            key: Some(format!("{key}-{number}").into()),
            repeat: None,
            retry: None,
            headers: Default::default(),
            payload_codec: None,
            payload: format!(r#"{{"order":{number}}}"#).into_bytes().into(),
        };
        Change::Put { record: Arc::new(record), on_key: OnKey::KeepExisting }
    });
    store.commit(fence, &put.collect::<Vec<_>>())?;
    let dead_at = nine_o_clock(9);
    let dead_letter = Change::DeadLetter { id: ids[3], at: None, reason: reason.into(), dead_at, then: None };
    store.commit(fence, &[dead_letter, Change::Park { id: ids[4], at: None }])?;
    Ok(())
}

/// Returns a time on the morning of a day in 2033.
fn nine_o_clock(days_later: u64) -> DueTime {
    const DAY: u64 = 24 * 3600 * 1000;
    DueTime::from_millis(2_000_019_600_000 + days_later * DAY).unwrap_or(DueTime::MAX)
}
