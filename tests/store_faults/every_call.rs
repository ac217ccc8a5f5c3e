//! Each call that a store makes to the system fails in turn, in the engine, too: as in the tests of SQLite.
//!
//! A [script](crate::script) runs in a process whose calls go through `interposer.c`. For each N it runs once more, and the N-th
//! call fails: once, a few times, or until the script says that the cause has passed. The process says what it was answered; what is
//! on disk then is compared here, where no call fails.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use actix_timers::durable::TimerStore;
use actix_timers::durable::store::{EmbeddedStore, Fence, StoreError};

use crate::script::{changes, contents, expected};
use crate::talking::Talking;

const ROOT: &str = "ACTIX_TIMERS_FAULTS_ROOT";
const RUNS: &str = "ACTIX_TIMERS_FAULTS_RUNS";

/// The groups of a script before the backup, during it, after it, after a reopening, and when nothing fails any more.
const PARTS: [std::ops::Range<u64>; 5] = [0..4, 4..7, 7..9, 9..12, 12..14];
/// A cause that has passed is noticed within this.
const NOTICED: Duration = Duration::from_secs(3);

/// How calls fail.
#[derive(Debug, Clone, Copy)]
struct Faults {
    /// As `interposer.c` calls it.
    kind: &'static str,
    /// So many in a row.
    length: u64,
    /// Whether the process ends without closing the store.
    crashes: bool,
}

/// Until the script says that the cause has passed.
const LASTING: u64 = 1 << 40;

fn say(words: std::fmt::Arguments<'_>) {
    // Past the harness, and in one piece.
    std::io::stderr().write_all(format!("{words}\n").replace('\r', " ").as_bytes()).unwrap();
}

fn control(command: &str) -> String {
    let answer = std::fs::read_link(format!("/faults/{command}")).expect("the interposer is loaded");
    answer.to_string_lossy().into_owned()
}

fn open(path: &Path) -> Result<(EmbeddedStore, Fence), StoreError> {
    let mut store = EmbeddedStore::options().reserve(0).memtable(16 << 10).open(path)?;
    let fence = store.acquire(0)?.fence;
    Ok((store, fence))
}

/// A store, as far as there is one, and what it answers.
struct Subject {
    path: PathBuf,
    store: Option<(EmbeddedStore, Fence)>,
}

impl Subject {
    fn open(&mut self) {
        match open(&self.path) {
            Ok(opened) => self.store = Some(opened),
            Err(error) => say(format_args!("unopened {error}")),
        }
    }

    fn commit(&mut self, group: u64) -> Option<Result<(), StoreError>> {
        let (store, fence) = self.store.as_mut()?;
        say(format_args!("trying {group}"));
        let done = store.commit(*fence, &changes(group)).map(drop);
        match &done {
            Ok(()) => say(format_args!("acknowledged {group}")),
            Err(StoreError::Refused(error)) => say(format_args!("refused {group} {error}")),
            Err(StoreError::Failed(error)) => say(format_args!("failed {group} {error}")),
            Err(other) => say(format_args!("odd {group} {other}")),
        }
        Some(done)
    }

    fn read(&mut self) {
        if let Some((store, _)) = &mut self.store
            && let Err(error) = store.load(
                actix_timers::durable::store::Part::Pending,
                0,
                None,
                actix_timers::durable::DueTime::MAX,
                20,
            )
        {
            say(format_args!("unread {error}"));
        }
    }

    /// The script.
    fn run(&mut self, faults: Faults) -> Option<String> {
        self.open();
        PARTS[0].clone().for_each(|group| _ = self.commit(group));
        let backup = self.path.with_extension("backup");
        let copying = self.store.as_mut().and_then(|(store, _)| store.back_up(&backup).ok()).map(std::thread::spawn);
        if copying.is_some() {
            say(format_args!("copying"));
        }
        PARTS[1].clone().for_each(|group| _ = self.commit(group));
        self.read();
        match copying.map(|copying| copying.join().expect("a backup does not panic")) {
            Some(Ok(())) => say(format_args!("copied")),
            Some(Err(error)) => say(format_args!("uncopied {error}")),
            None => {}
        }
        PARTS[2].clone().for_each(|group| _ = self.commit(group));
        self.store = None;
        self.open();
        PARTS[3].clone().for_each(|group| _ = self.commit(group));
        self.read();
        let calls = control("disarm");
        let began = Instant::now();
        for group in PARTS[4].clone() {
            loop {
                match self.commit(group) {
                    Some(Ok(())) => break,
                    Some(Err(StoreError::Refused(_))) if began.elapsed() < NOTICED => {}
                    Some(Err(StoreError::Refused(error))) => panic!("it does not go on: {error}"),
                    Some(Err(StoreError::Failed(_))) | None => {
                        self.store = None;
                        self.store = Some(open(&self.path).expect("nothing fails any more"));
                    }
                    Some(Err(other)) => panic!("{other}"),
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        if faults.crashes {
            std::mem::forget(self.store.take());
        }
        Some(calls)
    }
}

/// The process whose calls fail. Does nothing in an ordinary run.
#[test]
fn in_the_process_whose_calls_fail() {
    let (Ok(root), Ok(runs)) = (std::env::var(ROOT), std::env::var(RUNS)) else { return };
    let words: Vec<_> = runs.split(' ').collect();
    let [kind, length, crashes, first, last, step] = words[..] else { panic!("{runs}") };
    let kind: &'static str = ["full", "short", "io", "kill"].into_iter().find(|known| *known == kind).unwrap();
    let faults = Faults { kind, length: length.parse().unwrap(), crashes: crashes.parse().unwrap() };
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        say(format_args!("panic {}", info.to_string().replace('\n', " ")));
        hook(info);
    }));
    for at in (first.parse::<u64>().unwrap()..=last.parse().unwrap()).step_by(step.parse().unwrap()) {
        say(format_args!("run {at}"));
        let path = Path::new(&root).join(at.to_string());
        control(&format!("arm/{kind}/{at}/{}", faults.length));
        let calls = Subject { path, store: None }.run(faults).unwrap();
        say(format_args!("end {calls}"));
    }
    // Without closing what was forgotten.
    std::process::exit(0);
}

/// The interposer, made once.
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

/// A place for many small stores: in memory if possible, since no power fails here.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn child(library: &Path, root: &Path, faults: Faults, (first, last, step): (u64, u64, u64)) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "every_call::in_the_process_whose_calls_fail", "--nocapture"]);
    let Faults { kind, length, crashes } = faults;
    child.env(ROOT, root).env(RUNS, format!("{kind} {length} {crashes} {first} {last} {step}"));
    child.env("LD_PRELOAD", library).env("FAULTS_BELOW", root);
    child.stdout(Stdio::null()).stderr(Stdio::piped());
    child
}

/// What was said of one run.
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

    /// Compares what was said with what is on disk.
    fn check(&self, root: &Path, faults: Faults) -> Result<(), String> {
        let mut groups = Vec::new();
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
                ("refused", Some(group)) => unknown.retain(|unknown| *unknown != group),
                ("failed", Some(_)) if faults.kind != "io" => return Err("it failed for good".to_owned()),
                ("copying", None) => at_backup = Some(groups.clone()),
                ("copied", None) => is_copied = true,
                ("panic" | "odd", _) => return Err(line.clone()),
                _ => {}
            }
        }
        if self.calls().is_none() && faults.kind != "kill" {
            return Err("it did not end".to_owned());
        }
        let path = root.join(self.at.to_string());
        let found = open(&path).and_then(|(mut store, _)| Ok((contents(&mut store)?, store.check()?)));
        let (found, findings) = found.map_err(|error| format!("afterwards: {error}"))?;
        if !findings.is_empty() {
            return Err(format!("{findings:?}"));
        }
        let is_possible = (0..1u32 << unknown.len()).any(|kept| {
            let kept = unknown.iter().enumerate().filter(|(bit, _)| kept >> bit & 1 == 1).map(|(_, group)| *group);
            let mut groups: Vec<_> = groups.iter().copied().chain(kept).collect();
            groups.sort_unstable();
            found == expected(groups)
        });
        if !is_possible {
            let wanted = expected(groups.iter().copied());
            let missing: Vec<_> = wanted.iter().filter(|row| !found.contains(row)).collect();
            let extra: Vec<_> = found.iter().filter(|row| !wanted.contains(row)).collect();
            return Err(format!("{groups:?}, perhaps {unknown:?}: missing {missing:?}, extra {extra:?}"));
        }
        if let (true, Some(groups)) = (is_copied, at_backup) {
            let copy = open(&path.with_extension("backup")).and_then(|(mut store, _)| contents(&mut store));
            let copy = copy.map_err(|error| format!("backup: {error}"))?;
            if copy != expected(groups) {
                return Err("the backup has something else".to_owned());
            }
        }
        Ok(())
    }
}

/// Lets each call fail in turn, or every so many.
fn sweep(faults: Faults, step: u64) {
    let step = std::env::var("ACTIX_TIMERS_FAULTS_STEP").map_or(step, |step| step.parse().unwrap());
    let Some(library) = interposer() else { return };
    let began = Instant::now();
    let whole = {
        let root = place();
        let runs = Said::of(Talking::start(child(library, root.path(), faults, (LASTING, LASTING, 1))).rest());
        runs[0]
            .check(root.path(), faults)
            .unwrap_or_else(|error| panic!("without a fault: {error}: {:?}", runs[0].lines));
        runs[0].calls().unwrap()
    };
    let workers = 4;
    // One process each for these, since it does not outlive them.
    let batch = if faults.kind == "kill" { 1 } else { 16 };
    let next = std::sync::atomic::AtomicU64::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    let counted = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let first = 1 + number * batch * step;
                    if first > whole {
                        break;
                    }
                    let last = (first + (batch - 1) * step).min(whole);
                    let root = place();
                    let lines = Talking::start(child(library, root.path(), faults, (first, last, step))).rest();
                    for run in Said::of(lines) {
                        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if let Err(error) = run.check(root.path(), faults) {
                            wrong.lock().unwrap().push((run.at, error, run.lines));
                        }
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort_unstable_by_key(|(at, ..)| *at);
    eprintln!("{faults:?}: {whole} calls, {} runs in {:?}", counted.into_inner(), began.elapsed());
    for (at, error, lines) in &wrong {
        let shorter: Vec<_> =
            lines.iter().filter(|line| !line.starts_with("trying") && !line.starts_with("acknowledged")).collect();
        eprintln!("call {at}: {error}\n    {shorter:?}");
    }
    assert!(wrong.is_empty(), "{} of them went wrong", wrong.len());
}

#[test]
fn a_disk_that_is_full_for_one_call() {
    sweep(Faults { kind: "full", length: 1, crashes: false }, 1);
}

#[test]
fn a_disk_that_is_full_until_space_returns() {
    sweep(Faults { kind: "full", length: LASTING, crashes: true }, 1);
}

#[test]
fn a_disk_that_is_full_in_the_middle_of_a_write() {
    sweep(Faults { kind: "short", length: 20, crashes: true }, 1);
}

#[test]
fn a_disk_that_fails_once() {
    sweep(Faults { kind: "io", length: 1, crashes: true }, 1);
}

#[test]
fn a_disk_that_fails_for_a_while() {
    sweep(Faults { kind: "io", length: LASTING, crashes: false }, 1);
}

#[test]
fn a_process_that_dies_at_a_call() {
    sweep(Faults { kind: "kill", length: 1, crashes: true }, 1);
}
