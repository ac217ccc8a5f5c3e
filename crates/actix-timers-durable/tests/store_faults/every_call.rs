//! Each system call of a store fails in turn, in the engine, too: as in the tests of SQLite.
//!
//! A [script](crate::script) runs in a process whose calls go through `interposer.c`. For each N it runs once more, and
//! the N-th call fails: once, a few times, or until the script ends the cause. The process reports the store's answers;
//! this module compares them with the disk, where no call fails.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use actix_timers_durable::StoreError;
use actix_timers_durable::store::{EmbeddedStore, Op, Part, Store};
use serde::{Deserialize, Serialize};
use support::copies::copy_directory;
use support::store::at;

use crate::script::{changes, contents, expected};
use crate::talking::Talking;
use crate::workshop::{all, apply, open, process_of, puts, say};

const ROOT: &str = "ACTIX_TIMERS_FAULTS_ROOT";
const TEMPLATE: &str = "template";
const RUNS: &str = "ACTIX_TIMERS_FAULTS_RUNS";

/// The groups of a script: present at the start, before the backup, during it, after it, after a reopening, and when
/// nothing fails any more.
const PARTS: [std::ops::Range<u64>; 6] = [0..3, 3..5, 5..8, 8..9, 9..12, 12..14];
/// The runs of each sort in an ordinary run of the tests.
const FEW: u64 = 4;
/// The runs of the long tests; this variable sets another number, such as one larger than that of all calls.
const MANY: (u64, &str) = (12, "ACTIX_TIMERS_FAULTS_MANY");
/// Timers that fill the log, and are gone at the end of their group.
const FILL: u64 = 1 << 30;
const WORKERS: usize = 2;
/// A store that has not recovered by then never will, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(30);

/// How calls fail.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Faults<'a> {
    /// The name in `interposer.c`.
    kind: &'a str,
    /// The number of failures in a row.
    length: u64,
    /// Only of files with this in their paths.
    files: &'a str,
    /// Whether the process ends without closing the store.
    crashes: bool,
    /// Whether it is killed soon after the first fault.
    dies: bool,
    /// Whether the store is only created. Otherwise it exists, and the rest of the script runs.
    creates: bool,
    /// Whether the log is filled, so that a checkpoint runs beside the groups.
    fills: bool,
}

impl Faults<'_> {
    fn may_die(self) -> bool {
        self.kind == "kill" || self.dies
    }
}

const EVERYTHING: &str = "/";
const LOG: &str = "-wal";

/// Until the script ends the cause.
const LASTING: u64 = 1 << 40;

fn control(command: &str) -> String {
    let answer = std::fs::read_link(format!("/faults/{command}")).expect("the interposer is loaded");
    answer.to_string_lossy().into_owned()
}

/// A store, if it could be opened, and the reports of its answers.
struct Subject {
    path: PathBuf,
    store: Option<EmbeddedStore>,
}

impl Subject {
    fn open(&mut self) {
        match open(&self.path) {
            Ok(opened) => self.store = Some(opened),
            Err(error) => say(format_args!("unopened {error}")),
        }
    }

    fn commit(&mut self, group: u64) -> Option<Result<(), StoreError>> {
        let store = self.store.as_mut()?;
        say(format_args!("trying {group}"));
        let done = apply(store, &changes(group)).map(drop);
        match &done {
            Ok(()) => say(format_args!("acknowledged {group}")),
            Err(StoreError::Rejected(_) | StoreError::Unavailable(_)) => say(format_args!("rejected {group} {done:?}")),
            Err(StoreError::Unknown(error)) => say(format_args!("unknown {group} {error}")),
            Err(other) => say(format_args!("odd {group} {other}")),
        }
        Some(done)
    }

    fn read(&mut self) {
        if let Some(Err(error)) = self.store.as_mut().map(|store| all(store, Part::Pending)) {
            say(format_args!("unread {error}"));
        }
    }

    /// Runs the script.
    fn run(&mut self, faults: Faults<'_>) -> String {
        self.open();
        if !faults.creates {
            self.go_through(faults.fills);
        }
        let calls = control("disarm");
        self.go_on();
        if faults.crashes {
            std::mem::forget(self.store.take());
        }
        calls
    }

    fn go_through(&mut self, fills: bool) {
        if let (true, Some(store)) = (fills, &mut self.store) {
            // Twice, since a checkpoint begins after a commit.
            for numbers in [FILL..FILL + 9, FILL..FILL + 1] {
                let ops: Vec<_> = puts(numbers.clone(), 1_000_000);
                let cancels = numbers.map(crate::workshop::id).map(Op::Cancel);
                _ = store.apply(&ops.into_iter().chain(cancels).collect::<Vec<_>>(), at(0));
            }
        }
        PARTS[1].clone().for_each(|group| _ = self.commit(group));
        let backup = self.path.with_extension("backup");
        let copying = self.store.as_mut().and_then(|store| store.back_up(&backup).ok()).map(std::thread::spawn);
        if copying.is_some() {
            say(format_args!("copying"));
        }
        PARTS[2].clone().for_each(|group| _ = self.commit(group));
        self.read();
        match copying.map(|copying| copying.join().expect("a backup does not panic")) {
            Some(Ok(())) => say(format_args!("copied")),
            Some(Err(error)) => say(format_args!("uncopied {error}")),
            None => {}
        }
        PARTS[3].clone().for_each(|group| _ = self.commit(group));
        self.store = None;
        self.open();
        PARTS[4].clone().for_each(|group| _ = self.commit(group));
        self.read();
    }

    /// Continues after the last failure.
    fn go_on(&mut self) {
        let began = Instant::now();
        for group in PARTS[5].clone() {
            loop {
                match self.commit(group) {
                    Some(Ok(())) => break,
                    Some(Err(StoreError::Rejected(_) | StoreError::Unavailable(_))) if began.elapsed() < PATIENCE => {}
                    Some(Err(error)) => panic!("it does not go on: {error}"),
                    None => self.store = Some(open(&self.path).expect("nothing fails any more")),
                }
            }
        }
    }
}

/// The process whose calls fail. Does nothing in an ordinary run.
#[test]
fn in_the_process_whose_calls_fail() {
    let (Ok(root), Ok(runs)) = (std::env::var(ROOT), std::env::var(RUNS)) else { return };
    let (faults, first, last, step): (Faults<'_>, u64, u64, usize) = serde_json::from_str(&runs).unwrap();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        say(format_args!("panic {}", info.to_string().replace('\n', " ")));
        hook(info);
    }));
    for at in (first..=last).step_by(step) {
        say(format_args!("run {at}"));
        let path = Path::new(&root).join(at.to_string());
        if !faults.creates {
            copy_directory(&Path::new(&root).join(TEMPLATE), &path);
        }
        // At some point among the consequences of a fault.
        let death = if faults.dies { 1 + at * 7 % 50 } else { 0 };
        control(&format!("arm/{}/{at}/{}/{death}/{}", faults.kind, faults.length, faults.files));
        let calls = Subject { path, store: None }.run(faults);
        say(format_args!("end {calls}"));
    }
    // Without closing leaked files.
    std::process::exit(0);
}

/// Returns the interposer, compiled once.
fn interposer() -> Option<&'static Path> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("interposer-{}.so", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store_faults/interposer.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let made = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(source)
            .arg("-ldl")
            .output();
        match made {
            Ok(output) => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                Some(library)
            }
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "a C compiler is needed: {error}");
                None
            }
        }
    };
    let made = MADE.get_or_init(make).as_deref();
    if made.is_none() {
        eprintln!("not tested here: there is no C compiler, which the interposer needs");
    }
    made
}

/// Returns a directory for many small stores: in memory if possible, since no power fails here.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Returns the same with a copy of an initial store.
fn place_with_store(template: &Path) -> tempfile::TempDir {
    let place = place();
    copy_directory(template, &place.path().join(TEMPLATE));
    place
}

/// Makes a store with the first groups.
fn template() -> tempfile::TempDir {
    let place = place();
    let mut store = open(place.path()).unwrap();
    PARTS[0].clone().for_each(|group| _ = apply(&mut store, &changes(group)).unwrap());
    drop(store);
    place
}

/// Returns a process with a fault at each `step`-th call.
fn child(library: &Path, root: &Path, faults: Faults<'_>, (first, last, step): (u64, u64, u64)) -> Command {
    let mut child = process_of("every_call::in_the_process_whose_calls_fail");
    child.env(ROOT, root).env(RUNS, serde_json::to_string(&(faults, first, last, step)).unwrap());
    child.env("LD_PRELOAD", library).env("FAULTS_BELOW", root);
    child
}

/// The reports of one run.
#[derive(Default)]
struct Said {
    at: u64,
    lines: Vec<String>,
}

impl Said {
    fn of(lines: Vec<String>) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for line in lines {
            match line.strip_prefix("run ") {
                Some(at) => runs.push(Self { at: at.parse().unwrap(), lines: vec![] }),
                None => runs.last_mut().into_iter().for_each(|run| run.lines.push(line.clone())),
            }
        }
        runs
    }

    fn calls(&self) -> Option<u64> {
        self.lines.iter().find_map(|line| line.strip_prefix("end ")?.parse().ok())
    }

    /// Compares the reports with the disk.
    fn check(&self, root: &Path, faults: Faults<'_>) -> Result<(), String> {
        let mut groups: Vec<_> = if faults.creates { vec![] } else { PARTS[0].clone().collect() };
        let mut unknown = Vec::new();
        let mut at_backup = None;
        let mut is_copied = false;
        for line in &self.lines {
            let mut words = line.split(' ');
            let (what, group) =
                (words.next().unwrap_or_default(), words.next().and_then(|word| word.parse::<u64>().ok()));
            match (what, group) {
                ("trying", Some(group)) => unknown.push(group),
                ("acknowledged", Some(group)) => {
                    unknown.retain(|unknown| *unknown != group);
                    groups.push(group);
                }
                ("rejected", Some(group)) => unknown.retain(|unknown| *unknown != group),
                ("copying", None) => at_backup = Some((groups.clone(), unknown.clone())),
                ("copied", None) => is_copied = true,
                ("panic" | "odd", _) => return Err(line.clone()),
                _ => {}
            }
        }
        if self.calls().is_none() && !faults.may_die() {
            return Err("it did not end".to_owned());
        }
        let path = root.join(self.at.to_string());
        let found = open(&path).and_then(|mut store| contents(&mut store));
        let issues = EmbeddedStore::integrity_check(&path);
        let (found, issues) =
            found.and_then(|found| Ok((found, issues?))).map_err(|error| format!("afterwards: {error}"))?;
        if !issues.is_empty() {
            return Err(format!("{issues:?}"));
        }
        // Whether all groups, and some of the unknown ones, are these rows.
        let is_possible = |groups: &[u64], unknown: &[u64], found: &_| {
            (0..1u32 << unknown.len()).any(|kept| {
                let kept = unknown.iter().enumerate().filter(|(bit, _)| kept >> bit & 1 == 1).map(|(_, group)| *group);
                let mut groups: Vec<_> = groups.iter().copied().chain(kept).collect();
                groups.sort_unstable();
                *found == expected(groups)
            })
        };
        if !is_possible(&groups, &unknown, &found) {
            let wanted = expected(groups.iter().copied());
            let missing: Vec<_> = wanted.iter().filter(|row| !found.contains(row)).collect();
            let extra: Vec<_> = found.iter().filter(|row| !wanted.contains(row)).collect();
            return Err(format!("{groups:?}, perhaps {unknown:?}: missing {missing:?}, extra {extra:?}"));
        }
        if let (true, Some((groups, unknown))) = (is_copied, at_backup) {
            let copy = open(&path.with_extension("backup")).and_then(|mut store| contents(&mut store));
            let copy = copy.map_err(|error| format!("backup: {error}"))?;
            if !is_possible(&groups, &unknown, &copy) {
                return Err("the backup has something else".to_owned());
            }
        }
        Ok(())
    }
}

/// Returns the number of calls in which no fault occurs.
fn calls(library: &Path, template: &Path, faults: Faults<'_>) -> u64 {
    static COUNTED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
    let Faults { kind, files, creates, fills, .. } = faults;
    let key = format!("{kind} {files} {creates} {fills}");
    if let Some(counted) = COUNTED.lock().unwrap().get(&key) {
        return *counted;
    }
    let root = place_with_store(template);
    let said = Said::of(Talking::start(child(library, root.path(), faults, (LASTING, LASTING, 1))).rest());
    let [run] = &said[..] else { panic!("it reports nothing") };
    run.check(root.path(), faults).unwrap_or_else(|error| panic!("without a fault: {error}: {:?}", run.lines));
    let counted = run.calls().unwrap();
    COUNTED.lock().unwrap().insert(key, counted);
    counted
}

/// Lets calls fail in turn, in at most `runs` runs from the call number `begin` on: each call, or every n-th one.
fn sweep(faults: Faults<'_>, runs: u64, begin: u64) {
    let Some(library) = interposer() else { return };
    let began = Instant::now();
    let template = template();
    let whole = calls(library, template.path(), faults);
    // An odd step, so that it does not always hit the same one of a pair.
    let step = (whole / runs) | 1;
    let begin = 1 + begin % step;
    // One process for each of these, since it does not outlive them.
    let batch = if faults.may_die() { 1 } else { 16 };
    let (next, counted) = (AtomicU64::new(0), AtomicU64::new(0));
    let wrong = Mutex::new(Vec::new());
    let work = || {
        loop {
            let first = begin + next.fetch_add(1, Relaxed) * batch * step;
            if first > whole {
                break;
            }
            let last = (first + (batch - 1) * step).min(whole);
            let root = place_with_store(template.path());
            let lines = Talking::start(child(library, root.path(), faults, (first, last, step))).rest();
            for run in Said::of(lines) {
                counted.fetch_add(1, Relaxed);
                if let Err(error) = run.check(root.path(), faults) {
                    wrong.lock().unwrap().push((run.at, error, run.lines));
                }
            }
        }
    };
    std::thread::scope(|scope| (0..WORKERS).for_each(|_| _ = scope.spawn(work)));
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort_unstable_by_key(|(at, ..)| *at);
    let runs = counted.into_inner();
    eprintln!("{faults:?}: of {whole} calls each {step}., from {begin} on: {runs} runs in {:?}", began.elapsed());
    for (at, error, lines) in &wrong {
        eprintln!("call {at}: {error}\n    {lines:?}");
    }
    assert!(wrong.is_empty(), "{} of {runs} runs went wrong", wrong.len());
    assert!(runs >= (whole - begin) / step, "{runs} runs");
}

fn many() -> u64 {
    std::env::var(MANY.1).map_or(MANY.0, |many| many.parse().unwrap())
}

const fn faults(kind: &'static str, length: u64, crashes: bool) -> Faults<'static> {
    Faults { kind, length, files: EVERYTHING, crashes, dies: false, creates: false, fills: false }
}

/// Each test is named after its failure: at a few calls, the same ones each time, or at many, different ones each time.
macro_rules! sweeps {
    ($($name:ident: $faults:expr;)*) => {
        $(
            #[test]
            fn $name() {
                sweep($faults, FEW, 0);
            }
        )*

        mod many {
            use super::*;

            $(
                #[test]
                #[ignore = "takes long; `.ci/run` runs it"]
                fn $name() {
                    sweep($faults, many(), u64::from(std::process::id()));
                }
            )*
        }
    };
}

sweeps! {
    a_disk_that_is_full_for_one_call: faults("full", 1, false);
    a_disk_that_is_full_for_a_moment_before_a_crash: faults("full", 6, true);
    a_disk_that_is_full_until_space_returns: faults("full", LASTING, false);
    a_disk_that_is_full_until_space_returns_before_a_crash: faults("full", LASTING, true);
    a_disk_that_is_full_in_the_middle_of_a_write: faults("short", 20, true);
    a_disk_that_fails_once: faults("io", 1, true);
    a_disk_that_fails_from_then_on: faults("io", LASTING, false);
    a_log_that_has_no_room_for_one_call: Faults { files: LOG, ..faults("full", 1, false) };
    a_log_that_has_room_for_half_a_write: Faults { files: LOG, ..faults("short", 3, true) };
    a_log_that_fails_for_a_while: Faults { files: LOG, ..faults("io", 5, true) };
    a_process_that_is_killed_after_its_log_had_no_room: Faults { files: LOG, dies: true, ..faults("full", 1, true) };
    a_checkpoint_on_a_disk_that_fails_once: Faults { fills: true, ..faults("io", 1, true) };
    a_checkpoint_on_a_disk_that_is_full: Faults { fills: true, ..faults("full", LASTING, false) };
    a_process_that_is_killed_while_its_disk_is_full: Faults { dies: true, ..faults("full", LASTING, true) };
    a_process_that_is_killed_after_its_disk_was_full: Faults { dies: true, ..faults("full", 3, true) };
    a_process_that_is_killed_after_its_disk_failed: Faults { dies: true, ..faults("io", 1, true) };
    a_process_that_is_killed: faults("kill", 1, true);
    a_store_that_is_made_on_a_disk_that_is_full: Faults { creates: true, ..faults("full", LASTING, true) };
    a_store_that_is_made_on_a_disk_that_fails_once: Faults { creates: true, ..faults("io", 1, false) };
    a_process_that_is_killed_while_it_makes_a_store: Faults { creates: true, ..faults("kill", 1, true) };
}
