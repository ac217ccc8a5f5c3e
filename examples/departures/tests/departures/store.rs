//! The example `departures` with durable timers, killed with SIGKILL again and again; the tests read the files in its
//! directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::program::{FIVE, Finished, Folder, Running, TOO_LONG, row, run, start};

const JULY: &str = include_str!("../../data/nyc-departures-2013-07.csv");
/// The number of killed starts.
pub(crate) const KILLS: u64 = 10;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The totals expected from an input.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) calls: usize,
    pub(crate) cancelled: usize,
    pub(crate) rescheduled: usize,
}

impl Wanted {
    pub(crate) fn by(input: &str) -> Self {
        let mut wanted = Self::default();
        for line in input.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            // All times of the input have the same format, so texts compare like times.
            match (fields[0], fields[1]) {
                (_, "") => wanted.cancelled += 1,
                (scheduled, departed) => {
                    wanted.calls += 1;
                    wanted.rescheduled += usize::from(departed > scheduled);
                }
            }
        }
        wanted
    }
}

/// Returns the attempts in a log, by line of the input and kind of message.
fn handled<'a>(log: impl IntoIterator<Item = &'a str>) -> BTreeMap<(usize, String), Vec<u32>> {
    let mut handled: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for line in log {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, flight, attempt, what] = fields[..] else { panic!("{line:?}") };
        // A cancel done by a killed attempt is not found by the next one.
        let kind = if what == "cancel: not found" { "cancelled" } else { what };
        let key = (flight.parse().expect("a line"), kind.to_owned());
        handled.entry(key).or_default().push(attempt.parse().expect("an attempt"));
    }
    handled
}

/// Returns the number of handled messages, or `None` until all are scheduled.
fn progress(home: &Path) -> Option<usize> {
    let log = fs::read(home.join("log")).ok()?;
    Some(log.iter().filter(|byte| **byte == b'\n').count())
}

/// A pseudo-random generator (SplitMix64) with the same numbers in every run.
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ bits >> 31) as usize % end.max(1)
    }
}

/// Kills the process as soon as it has got that far. Returns false if it ended before.
fn kill_when(mut running: Running, has_got_there: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if running.0.try_wait().expect("it can be asked").is_some() {
            return false;
        }
        if has_got_there() {
            // Dropping kills the process, on Unix with SIGKILL, and waits for it.
            return true;
        }
        assert!(began.elapsed() < TOO_LONG, "it gets nowhere");
        // The pause between two looks at the files is arbitrary.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Returns the first flights of the month, as many as `ACTIX_TIMERS_FLIGHTS`, for example 30000 for all.
pub(crate) fn input() -> String {
    let flights = std::env::var("ACTIX_TIMERS_FLIGHTS").map_or(1500, |number| number.parse().expect("a number"));
    JULY.lines().take(1 + flights).map(|line| format!("{line}\n")).collect()
}

fn assert_done(home: &Path, finished: &Finished, wanted: &Wanted) {
    let log = fs::read_to_string(home.join("log")).expect("a log");
    assert_replayed(log.lines(), finished, wanted);
}

/// Checks the log and the report of a replay.
pub(crate) fn assert_replayed<'a>(log: impl IntoIterator<Item = &'a str>, finished: &Finished, wanted: &Wanted) {
    assert_eq!(finished.code, Some(0), "{}\n{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.ends_with("\nchecked against the file: ok\n"), "{}", finished.stdout);
    let handled = handled(log);
    let count = |what: &str| handled.keys().filter(|(_, kind)| kind == what).count();
    assert_eq!(count("called"), wanted.calls);
    assert_eq!(count("cancelled"), wanted.cancelled);
    assert_eq!(count("rescheduled"), wanted.rescheduled);
    assert_eq!(handled.len(), wanted.calls + wanted.cancelled + wanted.rescheduled, "nothing else");
    for (message, attempts) in &handled {
        assert!(attempts.is_sorted_by(|one, next| one < next), "{message:?} came as attempts {attempts:?}");
    }
    let again: Vec<_> = handled.iter().filter(|(_, attempts)| attempts.len() > 1).collect();
    let deliveries: usize = again.iter().map(|(_, attempts)| attempts.len() - 1).sum();
    assert_eq!(row(finished, "handled again"), format!("handledagain {deliveries}messages"));
    for ((line, _), attempts) in again {
        let attempts = attempts.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let told = |told: &str| {
            told.starts_with(&format!("  line {line}, ")) && told.ends_with(&format!("attempts {attempts}"))
        };
        assert!(finished.stdout.lines().any(told), "line {line}, attempts {attempts}: {}", finished.stdout);
    }
    let total = row(finished, "total");
    let Wanted { calls, cancelled, rescheduled } = wanted;
    assert!(total.starts_with(&format!("total {} {calls} {cancelled} {rescheduled} ", calls + cancelled)), "{total}");
    assert_eq!(row(finished, "store"), "store 0pending,0setaside,0deadletters");
}

/// Kills the example ten times, the first three while it schedules, and lets it finish.
fn killed_again_and_again(seed: u64, options: &[&str]) {
    let (folder, input) = (Folder::new(), input());
    let home = folder.path("home");
    let wanted = Wanted::by(&input);
    let messages = wanted.calls + wanted.cancelled + wanted.rescheduled;
    let path = folder.file("july", &input);
    let arguments = [&["--input", &path, "--store", text(&home)], options].concat();
    let mut random = Seeded(seed);
    assert!(kill_when(start(&arguments), || home.exists()), "before anything is in it");
    assert!(kill_when(start(&arguments), || home.join("input").exists()), "while everything is being scheduled");
    assert!(kill_when(start(&arguments), || progress(&home).is_some()), "when everything is scheduled");
    for life in 3..KILLS {
        let before = progress(&home).unwrap_or(0);
        // Each further life handles a part of the rest, and leaves enough that a slow check still kills it in time.
        let share = (messages - before.min(messages)) / (KILLS - life + 3) as usize;
        let until = before + 1 + random.below(share);
        assert!(
            kill_when(start(&arguments), || progress(&home) >= Some(until)),
            "life {life} was not killed at {until}"
        );
    }
    let finished = run(&arguments);
    assert!(finished.stderr.contains("departures: carries on at 2013-07-"), "{}", finished.stderr);
    assert_done(&home, &finished, &wanted);
    let log = fs::read(home.join("log")).expect("a log");

    let again = run(&arguments);
    assert!(again.stderr.contains("departures: this replay is finished, nothing is left to do"), "{}", again.stderr);
    assert_done(&home, &again, &wanted);
    assert_eq!(fs::read(home.join("log")).expect("a log"), log, "nothing was done");
}

#[test]
fn killed_ten_times_it_ends_with_the_exact_totals() {
    killed_again_and_again(1, &[]);
}

#[test]
fn killed_ten_times_at_a_speed_it_ends_with_the_exact_totals() {
    killed_again_and_again(2, &["--speed", "1e9"]);
}

#[test]
fn a_small_file_is_replayed_durably_at_the_speed_asked_for() {
    let folder = Folder::new();
    let (home, five) = (folder.path("home"), folder.file("speed", FIVE));
    let began = Instant::now();
    let finished = run(&["--input", &five, "--store", text(&home), "--speed", "36000.5"]);
    assert_done(&home, &finished, &Wanted::by(FIVE));
    // From 08:10, when the cancellation becomes known, to 10:30, when the late flight boards.
    let least = std::time::Duration::from_secs(140 * 60).div_f64(36000.5);
    assert!(began.elapsed() >= least, "not faster than asked for");
    assert!(row(&finished, "speed").contains("36000.5timesrealtime"));
}

#[test]
fn a_line_that_was_being_written_does_not_count() {
    let folder = Folder::new();
    let (home, five) = (folder.path("home"), folder.file("torn", FIVE));
    let arguments = ["--input", &five, "--store", text(&home)];
    let whole = run(&arguments);
    assert_done(&home, &whole, &Wanted::by(FIVE));
    let log = fs::read_to_string(home.join("log")).expect("a log");
    fs::write(home.join("log"), format!("{log}2013-07-01T10:30:0")).expect("it can be written");
    assert_done(&home, &run(&arguments), &Wanted::by(FIVE));
    assert_eq!(fs::read_to_string(home.join("log")).expect("a log"), log);

    // Foreign lines are reported; missing lines are detected, since the check reads the log.
    fs::write(home.join("log"), format!("{log}tea\n")).expect("it can be written");
    assert_rejected(&arguments, &[":8: \"tea\" is no line of this log"]);
    let (_, shorter) = log.split_once('\n').expect("a line");
    fs::write(home.join("log"), shorter).expect("it can be written");
    let finished = run(&arguments);
    assert_eq!(finished.code, Some(1));
    assert!(finished.stdout.contains("was lost"), "{}", finished.stdout);
}

/// One clear line, and exit code 2.
fn assert_rejected(arguments: &[&str], messages: &[&str]) {
    let Finished { code, stdout, stderr } = run(arguments);
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("departures: --store '"), "{stderr}");
    for message in messages {
        assert!(stderr.contains(message), "{message:?} is not in {stderr:?}");
    }
}

#[test]
fn a_second_process_in_the_same_directory_is_rejected() {
    // Ten months without a message.
    let later = "2014-05-01T00:00:00Z,2014-05-01T00:00:00Z,US,1431,EWR,CLT\n";
    let folder = Folder::new();
    let (home, input) = (folder.path("home"), folder.file("second", format!("{FIVE}{later}")));
    let arguments = ["--input", &input, "--store", text(&home), "--speed", "36000"];
    let first = start(&arguments);
    let killed = kill_when(first, || {
        if progress(&home) != Some(7) {
            return false;
        }
        assert_rejected(&arguments, &["is in use"]);
        true
    });
    assert!(killed);
    assert_eq!(progress(&home), Some(7));
}

#[test]
fn a_directory_that_is_not_fit_is_rejected_and_left_alone() {
    let folder = Folder::new();
    let five = folder.file("unfit", FIVE);
    let rejected = |home: &Path, messages: &[&str]| {
        assert_rejected(&["--input", &five, "--store", text(home)], messages);
    };
    let foreign = folder.path("foreign");
    fs::create_dir_all(&foreign).expect("a directory");
    fs::write(foreign.join("letter.txt"), "dear").expect("a file");
    rejected(&foreign, &["is not the directory of a replay", "'letter.txt'"]);
    assert_eq!(fs::read_dir(&foreign).expect("a directory").count(), 1);

    // A foreign file in place of the store is rejected, too.
    let other = folder.path("other-store");
    fs::create_dir_all(other.join("timers")).expect("a directory");
    fs::write(other.join("timers/letter.txt"), "dear").expect("a file");
    rejected(&other, &["timers"]);

    rejected(Path::new(&five), &["cannot be made"]);
    rejected(&Path::new(&five).join("below"), &["cannot be made"]);
    #[cfg(target_os = "linux")]
    rejected(Path::new("/proc/departures"), &["cannot be made"]);
}

#[test]
fn a_directory_is_about_one_input() {
    let folder = Folder::new();
    let (home, five) = (folder.path("home"), folder.file("input", FIVE));
    assert_eq!(run(&["--input", &five, "--store", text(&home)]).code, Some(0));
    let other = folder.file("other-input", FIVE.replace("11:00:00", "11:01:00"));
    assert_rejected(&["--input", &other, "--store", text(&home)], &["is about other flights"]);
    let copy = folder.file("same-input", FIVE);
    assert_eq!(run(&["--input", &copy, "--store", text(&home)]).code, Some(0), "whatever its name is");
}

#[test]
fn flights_before_1970_are_rejected() {
    let folder = Folder::new();
    let input = folder.file("1969", FIVE.replace("2013-", "1969-"));
    let home = folder.path("home");
    assert_rejected(&["--input", &input, "--store", text(&home)], &["before 1970"]);
    assert!(!home.exists());
}
