//! Claims of the pages: a figure that stands in a sentence is that of its table in the benchmarks, and sentences that
//! were found wrong do not return.

use std::fs;

use crate::links::markdown_files;
use crate::source::repository;

/// A page, a sentence with figures in braces, and for each the table of the benchmarks, the number of pending timers
/// and the subject.
type Claim = (&'static str, &'static str, &'static [(&'static str, &'static str, &'static str)]);

const BURST: &str = "burst to 1 | whole | ms until all came";
const HEARTBEAT: &str = "sessions, heartbeat | whole | bytes allocated per session";
const TIME_OUT: &str = "sessions, time-out | whole | bytes allocated per session";
const LATE_P50: &str = "fire | whole | p50 ms late";
const LATE_P99: &str = "fire | whole | p99 ms late";
const CPU: &str = "fire | whole | CPU s after scheduling";
const MILLION: &str = "1 000 000";

const CLAIMS: &[Claim] = &[
    // A million take as many milliseconds as one takes nanoseconds.
    (
        "docs/guide/scaling.md",
        "one tick take N × {} ns until the last is delivered if they are their actors' own, N × {} ns for other recipients",
        &[(BURST, MILLION, "actix-timers, context"), (BURST, MILLION, "actix-timers, recipient")],
    ),
    (
        "docs/guide/scaling.md",
        "a million due within two seconds are {} ms late at the median and {} ms at p99",
        &[(LATE_P50, MILLION, "actix-timers, context"), (LATE_P99, MILLION, "actix-timers, context")],
    ),
    (
        "README.md",
        "take {} bytes with actix's own `run_interval`, and {} here",
        &[(HEARTBEAT, "10 000", "run-interval"), (HEARTBEAT, "10 000", "actix-timers")],
    ),
    (
        "docs/guide/migration.md",
        "{} and {} bytes an actor, instead of {} and {} with messages here",
        &[
            (HEARTBEAT, "10 000", "run-interval"),
            (TIME_OUT, "10 000", "run-later"),
            (HEARTBEAT, "10 000", "actix-timers"),
            (TIME_OUT, "10 000", "actix-timers"),
        ],
    ),
    (
        "docs/guide/benchmarks.md",
        "{} bytes an actor instead of {} with a heartbeat, {} instead of {} with an idle time-out",
        &[
            (HEARTBEAT, "10 000", "run-interval"),
            (HEARTBEAT, "10 000", "actix-timers"),
            (TIME_OUT, "10 000", "run-later"),
            (TIME_OUT, "10 000", "actix-timers"),
        ],
    ),
    (
        "docs/guide/benchmarks.md",
        "own messages are {} ms late at the median and {} ms at p99, messages to another actor {} and {} ms, those of a \
         DelayQueue that sends with `do_send` {} and {} ms",
        &[
            (LATE_P50, MILLION, "actix-timers, context"),
            (LATE_P99, MILLION, "actix-timers, context"),
            (LATE_P50, MILLION, "actix-timers, recipient"),
            (LATE_P99, MILLION, "actix-timers, recipient"),
            (LATE_P50, MILLION, "delay-queue, do_send"),
            (LATE_P99, MILLION, "delay-queue, do_send"),
        ],
    ),
    (
        "docs/guide/benchmarks.md",
        "for {}, {} and {} s of CPU time; Netty's calls {} and {} ms, for {} s",
        &[
            (CPU, MILLION, "actix-timers, context"),
            (CPU, MILLION, "actix-timers, recipient"),
            (CPU, MILLION, "delay-queue, do_send"),
            (LATE_P50, MILLION, "netty"),
            (LATE_P99, MILLION, "netty"),
            (CPU, MILLION, "netty"),
        ],
    ),
    (
        "docs/guide/benchmarks.md",
        "A million due at one tick take {} ms as own messages, {} ms to another actor, and {} ms with that DelayQueue",
        &[
            (BURST, MILLION, "actix-timers, context"),
            (BURST, MILLION, "actix-timers, recipient"),
            (BURST, MILLION, "delay-queue, do_send"),
        ],
    ),
];

/// Phrases that claim too much, with the truth.
const WRONG: &[(&str, &str)] = &[
    ("never lost.", "a volatile timer ends with its process: \"never lost silently\""),
    ("no polling", "nodes on PostgreSQL poll each 100 ms for timers that others have stored"),
    ("*exactly once* for handlers", "only effects outside the store cannot happen exactly once"),
    ("*no exactly once*:", "only effects outside the store cannot happen exactly once"),
    ("up to two milliseconds elsewhere", "tokio's timer is about 15 ms late on Windows"),
    ("they are siphash", "the tags of ids are ChaCha12"),
];

#[test]
fn figures_in_sentences_are_those_of_the_tables() {
    let benchmarks = fs::read_to_string(repository().join("docs/guide/benchmarks.md")).unwrap();
    let mut wrong = Vec::new();
    for (page, sentence, figures) in CLAIMS {
        let mut expected = (*sentence).to_owned();
        for (table, pending, subject) in *figures {
            expected = expected.replacen("{}", &median(&benchmarks, table, pending, subject), 1);
        }
        if !text_of(page).contains(&expected) {
            wrong.push(format!("{page} does not say: {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sentences_that_were_wrong_do_not_return() {
    let mut found = Vec::new();
    for file in markdown_files() {
        let text = text_of(&file).to_lowercase();
        let wrong = WRONG.iter().filter(|(phrase, _)| text.contains(phrase));
        found.extend(wrong.map(|(phrase, truth)| format!("{file}: {phrase:?}: {truth}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns a page in one line.
fn text_of(page: &str) -> String {
    let text = fs::read_to_string(repository().join(page)).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the median in a row of a table.
fn median(benchmarks: &str, table: &str, pending: &str, subject: &str) -> String {
    let start = format!("<!-- table: {table} -->");
    let rows = benchmarks.lines().skip_while(|line| *line != start).take_while(|line| *line != "<!-- end of table -->");
    let mut of = "";
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, number, of_row, median, ..] = cells.as_slice() else { continue };
        of = if number.is_empty() { of } else { number };
        if of == pending && of_row.trim_matches('*') == subject {
            return median.split(" (").next().unwrap_or_default().to_owned();
        }
    }
    panic!("no row of {subject} at {pending} in the table {table}");
}
