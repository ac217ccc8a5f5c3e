//! Tests of the example `store`: its answers and exit codes.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use actix_timers_durable::store::EmbeddedStore;

use crate as store;

/// Returns exit code, answer and problems.
fn ask(arguments: &[&str]) -> (ExitCode, String, String) {
    let (mut out, mut wrong) = (Vec::new(), Vec::new());
    let code = store::run(arguments, &mut out, &mut wrong);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(wrong).unwrap())
}

#[test]
fn without_a_directory_it_shows_all_answers_on_a_store_of_its_own() {
    assert_eq!(store::main(), ExitCode::SUCCESS);
    let (code, out, wrong) = ask(&[]);
    assert_eq!((code, wrong.as_str()), (ExitCode::SUCCESS, ""));
    for expected in [
        "shard 0: 3 pending (the first is due 2033-05-18T09:00:00Z), 1 parked, 1 dead letters, 0 claims",
        "2033-05-18T09:00:00Z",
        "reminders/Remind.1 attempt 1, 11 bytes, key order-0",
        "and more in shard 0",
        "dead since 2033-05-27T09:00:00Z: no such customer",
        "everything can be read and fits together",
    ] {
        assert!(out.contains(expected), "{expected} is not in\n{out}");
    }
}

#[test]
fn questions_that_are_not_understood_get_the_usage() {
    for (arguments, reason) in [
        (&["chekc", "x"][..], "chekc is not known"),
        (&["check"], "the directory is missing"),
        (&["stats", "x", "y"], "y is too much"),
        (&["list", "x", "buried"], "buried is neither a part nor a number"),
        (&["list", "x", "dead", "3", "4"], "4 is too much"),
    ] {
        let (code, out, wrong) = ask(arguments);
        assert_eq!((code, out.as_str()), (ExitCode::from(2), ""));
        assert!(wrong.starts_with(reason) && wrong.contains("usage: store check DIR"), "{wrong}");
    }
    let (code, out, _) = ask(&["--help"]);
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(out.contains("usage: store check DIR"));
}

#[test]
fn a_store_is_inspected_and_other_paths_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let text = path.to_str().unwrap();
    for question in ["check", "stats", "list"] {
        let (code, _, wrong) = ask(&[question, text]);
        assert_eq!(code, ExitCode::FAILURE);
        assert!(wrong.contains("is not a timer store"), "{wrong}");
    }
    let open = EmbeddedStore::open(&path).unwrap();
    let (code, _, wrong) = ask(&["check", text]);
    assert_eq!(code, ExitCode::FAILURE);
    assert!(wrong.contains("is in use"), "{wrong}");
    drop(open);
    assert_eq!(ask(&["check", text]).0, ExitCode::SUCCESS);
    assert_eq!(ask(&["list", text, "parked", "7"]), (ExitCode::SUCCESS, String::new(), String::new()));
    assert!(ask(&["stats", text]).1.starts_with("format 1, "));
}

#[test]
fn findings_are_listed_and_the_exit_code_tells() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut store = EmbeddedStore::open(path).unwrap();
    store::fill(&mut store).unwrap();
    let copy = path.join("copy");
    actix_timers_durable::TimerStore::back_up(&mut store, &copy).unwrap()().unwrap();
    let table = table_with(&copy, b"reminders");
    let mut bytes = fs::read(&table).unwrap();
    bytes[10] ^= 1;
    fs::write(table, bytes).unwrap();
    let (code, out, wrong) = ask(&["check", copy.to_str().unwrap()]);
    assert_eq!(code, ExitCode::FAILURE);
    assert!(out.contains("damaged: some timers cannot be read"), "{out}");
    assert!(wrong.contains("issues"), "{wrong}");
    let (code, _, wrong) = ask(&["list", copy.to_str().unwrap()]);
    assert_eq!(code, ExitCode::FAILURE);
    assert!(wrong.contains("issues"), "{wrong}");
}

/// Returns the table of pending timers that contains a text.
fn table_with(path: &Path, text: &[u8]) -> std::path::PathBuf {
    let pending = path.join("data/keyspaces/1");
    let mut folders = vec![pending];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if fs::read(&path).unwrap().windows(text.len()).any(|window| window == text) {
                return path;
            }
        }
    }
    panic!("no file has the records");
}

/// Keys and reasons come from callers and handlers; a path may be anybody's.
#[test]
fn nothing_that_is_listed_reaches_the_terminal_as_a_control_character() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = EmbeddedStore::open(directory.path()).unwrap();
    store::fill_with(&mut store, "\u{1b}[2Jkey\r\nadded \u{202e}\u{9b}", "no\u{7}\nsuch \u{1b}]0;customer").unwrap();
    drop(store);
    let path = directory.path().to_str().unwrap();
    let mut shown = String::new();
    for question in
        [&["list", path, "pending"][..], &["list", path, "dead"], &["list", path, "parked"], &["check", path]]
    {
        let (code, out, wrong) = ask(question);
        assert_eq!((code, wrong.as_str()), (ExitCode::SUCCESS, ""));
        shown += &out;
    }
    let nothing_there = directory.path().join("\u{1b}[31m\n");
    for question in [&["check", nothing_there.to_str().unwrap()][..], &["\u{1b}[31m"], &["list", path, "\u{1b}"]] {
        let (_, out, wrong) = ask(question);
        shown += &(out + &wrong);
    }
    fs::create_dir_all(directory.path().join("foreign/\u{1b}[31m\n")).unwrap();
    let foreign = EmbeddedStore::open(directory.path().join("foreign")).unwrap_err().to_string();
    shown += &foreign;
    let raw = |character: &char| character.is_control() && *character != '\n' || *character == '\u{202e}';
    assert_eq!(shown.chars().find(raw), None, "{shown:?}");
    for escaped in
        [r"key \u{1b}[2Jkey\r\nadded \u{202e}\u{9b}", r"no\u{7}\nsuch \u{1b}]0;customer", r"holds \u{1b}[31m\n"]
    {
        assert!(shown.contains(escaped), "{escaped} is not in\n{shown}");
    }
}
