//! Looks into stores of durable timers, changes single timers, and copies all of them to another store.
//!
//! `stores` opens a store by its address, `copy` copies. The usage is below.

mod copy;
mod stores;

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::SystemTime;

use actix_timers_durable::store::{EmbeddedStore, Found, Op, Outcome, Part, Query, Record, State, Store, StoreError};
use actix_timers_durable::{DueTime, DurableId};

use stores::Address;

const USAGE: &str = "\
usage: actix-timers list STORE [pending|parked|dead|past] [LIMIT]
       actix-timers show|cancel|requeue|discard STORE ID
       actix-timers check DIR
       actix-timers copy STORE STORE

list     the first timers by due time: pending (if nothing else is named), parked, dead, or past (finished) by the time of the
         end; at most LIMIT (100)
show     one timer, with its message
cancel   deletes a timer that is not a dead letter
requeue  makes a dead letter a pending timer again, due now, with its whole budget
discard  deletes a dead letter
check    reads all but the past, and lists damage
copy     copies all timers and dead letters from the first store to the second, but neither the past nor keys that are kept
         for timers that are complete; fails if routes or nodes are paused, and lists them: pauses are not copied

STORE is a directory that no service has open, or an address such as postgres://user@host/database, with
--schema NAME for another schema than timers. PGPASSWORD is the password if the address has none. Nothing is encrypted:
connect through a local socket or a tunnel. Stop the services of both stores before a copy.
";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    run(&arguments, &mut io::stdout().lock(), &mut io::stderr().lock())
}

/// The timers that a list reads at once, at most.
const PAGE: usize = 1000;

/// The reason for an exit code other than 0.
enum Problem {
    Usage(String),
    Store(StoreError),
    Output(io::Error),
    Other(String),
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

/// Writes the answer to `out`, and problems to `wrong`.
pub(crate) fn run(arguments: &[impl AsRef<OsStr>], out: &mut dyn Write, wrong: &mut dyn Write) -> ExitCode {
    let texts: Option<Vec<&str>> = arguments.iter().map(|argument| argument.as_ref().to_str()).collect();
    let not_text = || Problem::Usage("an argument is not UTF-8".to_owned());
    let (problem, code) = match texts.ok_or_else(not_text).and_then(|texts| answer(&texts, out, wrong)) {
        Ok(()) => return ExitCode::SUCCESS,
        // The reader has closed the pipe.
        Err(Problem::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(Problem::Usage(reason)) => (format!("{}\n\n{USAGE}", Shown(&reason)), 2),
        Err(Problem::Store(error)) => (format!("{error}\n"), 1),
        Err(Problem::Output(error)) => (format!("the answer cannot be written: {error}\n"), 1),
        Err(Problem::Other(reason)) => (format!("{}\n", Shown(&reason)), 1),
    };
    let _ = write!(wrong, "{problem}");
    ExitCode::from(code)
}

fn answer(arguments: &[&str], out: &mut dyn Write, wrong: &mut dyn Write) -> Result<(), Problem> {
    let usage = |reason: String| Err(Problem::Usage(reason));
    if arguments.iter().any(|argument| matches!(*argument, "--help" | "-h")) {
        return Ok(write!(out, "{USAGE}")?);
    }
    let (mut schema, mut others, mut rest) = (None, Vec::new(), arguments.iter().copied());
    while let Some(argument) = rest.next() {
        if argument == "--schema" {
            schema = rest.next();
            if schema.is_none() {
                return usage("the name of the schema is missing".to_owned());
            }
        } else if let Some(name) = argument.strip_prefix("--schema=") {
            schema = Some(name);
        } else if argument.starts_with("--") && argument != "--version" {
            let option = argument.split_once('=').map_or(argument, |(option, _)| option);
            return usage(format!("{option} is not known"));
        } else {
            others.push(argument);
        }
    }
    let arguments = others;
    if arguments.iter().any(|argument| stores::is_mistaken(argument)) {
        return usage(
            "an address of a database begins with postgres:// or postgresql://; a directory with such a name with ./"
                .to_owned(),
        );
    }
    // An address may hold a password.
    let named = |argument| if stores::is_database(argument) { "the address of a database" } else { argument };
    if schema.is_some() && !arguments.iter().any(|argument| stores::is_database(argument)) {
        return usage("only a database has schemas".to_owned());
    }
    let open = |store| Address { store, schema }.open(false);
    match *arguments {
        [] => usage("the command is missing".to_owned()),
        ["help", ..] => Ok(write!(out, "{USAGE}")?),
        ["--version" | "-V"] => Ok(writeln!(out, "actix-timers {}", env!("CARGO_PKG_VERSION"))?),
        ["list", store, ref rest @ ..] => {
            let (part, rest) = match *rest {
                ["pending", ref rest @ ..] => (Part::Pending, rest),
                ["parked", ref rest @ ..] => (Part::Parked, rest),
                ["dead", ref rest @ ..] => (Part::Dead, rest),
                ["past", ref rest @ ..] => (Part::Past, rest),
                ref rest => (Part::Pending, rest),
            };
            match *rest {
                [] => list(&mut *open(store)?, part, 100, out, wrong),
                [limit] => match limit.parse() {
                    Ok(limit) => list(&mut *open(store)?, part, limit, out, wrong),
                    Err(_) => usage(format!("{} is neither a state nor a number", named(limit))),
                },
                [_, extra, ..] => usage(format!("{} is too much", named(extra))),
            }
        }
        ["check", store] if stores::is_database(store) => usage("only a directory can be checked".to_owned()),
        ["check", directory] => check(directory, &mut Unheard(out)),
        ["copy", from, to] if from == to => usage("both stores are the same; a schema is that of both".to_owned()),
        ["copy", from, to] => {
            let mut from = open(from)?;
            copy::copy(&mut *from, &mut *Address { store: to, schema }.open(true)?, &mut Unheard(out))
        }
        [command @ ("show" | "cancel" | "requeue" | "discard"), store, id] => match id.parse() {
            Ok(id) if command == "show" => show(&mut *open(store)?, id, out),
            Ok(id) => change(&mut *open(store)?, command, id, out),
            Err(error) => usage(error.to_string()),
        },
        ["show" | "cancel" | "requeue" | "discard", _] => usage("the id is missing".to_owned()),
        ["copy", _] => usage("the second store is missing".to_owned()),
        ["list" | "check" | "copy" | "show" | "cancel" | "requeue" | "discard"] => {
            usage("the store is missing".to_owned())
        }
        ["check", _, extra, ..] | ["copy" | "show" | "cancel" | "requeue" | "discard", _, _, extra, ..] => {
            usage(format!("{} is too much", named(extra)))
        }
        [other, ..] => usage(format!("{} is not known", named(other))),
    }
}

fn list(
    store: &mut dyn Store,
    part: Part,
    limit: usize,
    out: &mut dyn Write,
    wrong: &mut dyn Write,
) -> Result<(), Problem> {
    let mut query = Query::of(part);
    let (mut left, mut damaged) = (limit, 0);
    loop {
        query.limit = left.min(PAGE);
        let page = store.list(&query)?;
        damaged += page.damaged;
        for found in &page.found {
            writeln!(out, "{}", line(found))?;
        }
        left = left.saturating_sub(page.found.len());
        query.after = page.next;
        match page.next {
            Some(_) if left > 0 => {}
            Some(_) => {
                if has_any(store, query)? {
                    writeln!(wrong, "and more")?;
                }
                break;
            }
            None => break,
        }
    }
    if damaged == 0 { Ok(()) } else { Err(Problem::Other(format!("{damaged} rows cannot be read"))) }
}

/// Returns whether a query finds anything: pages may be empty, and not the last.
fn has_any(store: &mut dyn Store, mut query: Query) -> Result<bool, Problem> {
    query.limit = 1;
    loop {
        let page = store.list(&query)?;
        if !page.found.is_empty() || page.damaged > 0 {
            return Ok(true);
        }
        query.after = page.next;
        if page.next.is_none() {
            return Ok(false);
        }
    }
}

fn line(Found { record, state }: &Found) -> String {
    let Record { id, progress, route, message_type, message_version, key, payload, .. } = &**record;
    let [route, message_type] = [Shown(route), Shown(message_type)];
    let mut line = format!("{} {id} {route}/{message_type}.{message_version}", time(progress.due));
    let _ = write!(line, ", {} attempts, {} bytes", progress.attempt, payload.len());
    if let Some(key) = key {
        let _ = write!(line, ", key {}", Shown(key));
    }
    let _ = match state {
        State::Parked { reason } => write!(line, ", parked: {}", Shown(reason)),
        State::Dead { reason, since } => write!(line, ", dead since {}: {}", time(*since), Shown(reason)),
        State::Finished(end) => {
            let outcome = if end.is_dead { "dead" } else { "complete" };
            let error = end.errors.last().map_or("", |error| &*error.reason);
            let result = end.result.as_deref().unwrap_or(error);
            write!(line, ", repetition {}, {outcome} in {:?}: {}", progress.repetition, end.took, Shown(result))
        }
        _ => Ok(()),
    };
    line
}

fn show(store: &mut dyn Store, id: DurableId, out: &mut dyn Write) -> Result<(), Problem> {
    let Some(found) = store.get(id)? else { return Err(missing(id)) };
    writeln!(out, "{}", line(&found))?;
    for (name, value) in found.record.headers.iter() {
        writeln!(out, "{}: {}", Shown(name), Shown(value))?;
    }
    Ok(writeln!(out, "{}", Shown(&String::from_utf8_lossy(&found.record.payload)))?)
}

fn change(store: &mut dyn Store, command: &str, id: DurableId, out: &mut dyn Write) -> Result<(), Problem> {
    let op = match command {
        "cancel" => Op::Cancel(id),
        "requeue" => Op::Requeue(id),
        _ => Op::Discard(id),
    };
    let now = DueTime::reached_at(SystemTime::now());
    let done = match made(store, op, now)? {
        Outcome::Deleted => "deleted".to_owned(),
        Outcome::InProgress => "deleted; its last delivery is in progress".to_owned(),
        Outcome::Moved(due) => format!("due {}", time(due)),
        Outcome::KeyInUse(other) => return Err(Problem::Other(format!("the timer {other} has its key now"))),
        Outcome::StillPending => return Err(Problem::Other(format!("the timer {id} is pending"))),
        _ => return Err(missing(id)),
    };
    Ok(writeln!(out, "{id} is {done}")?)
}

/// Makes one change.
fn made(store: &mut dyn Store, op: Op, now: DueTime) -> Result<Outcome, StoreError> {
    store.apply(&[op], now)?.pop().unwrap_or(Ok(Outcome::NotFound))
}

fn missing(id: DurableId) -> Problem {
    Problem::Other(format!("no timer in this state has the id {id}"))
}

fn check(directory: &str, out: &mut dyn Write) -> Result<(), Problem> {
    stores::find(directory)?;
    let issues = EmbeddedStore::integrity_check(directory)?;
    for issue in &issues {
        writeln!(out, "{}", Shown(issue))?;
    }
    if !issues.is_empty() {
        return Err(Problem::Other(format!("{} issues: restore a backup", issues.len())));
    }
    Ok(writeln!(out, "{}: each timer and dead letter is as it was stored", Shown(directory))?)
}

/// The output of a command that goes on when its reader has closed the pipe.
struct Unheard<'a>(&'a mut dyn Write);

impl Write for Unheard<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
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
    time.map_or_else(|| due.to_string(), |time| format!("{time:.3}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
