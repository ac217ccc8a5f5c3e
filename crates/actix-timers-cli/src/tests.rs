//! Answers and exit codes.

use std::fs;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use actix_timers_durable::store::{
    Claim, EmbeddedStore, Filter, Found, NewTimer, Next, NodeInfo, OnKey, Op, Outcome, Part, Progress, Query, Record,
    Served, State, Store, StoreError, Suspects,
};
use actix_timers_durable::{DueTime, DurableId, Pause};

use crate::stores::Address;
use crate::{copy, made, run};

/// Returns exit code, answer and problems.
fn ask(arguments: &[&str]) -> (ExitCode, String, String) {
    let (mut out, mut wrong) = (Vec::new(), Vec::new());
    let code = run(arguments, &mut out, &mut wrong);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(wrong).unwrap())
}

#[test]
fn questions_that_are_not_understood_get_the_usage() {
    for (arguments, reason) in [
        (&[][..], "the command is missing"),
        (&["chekc", "x"], "chekc is not known"),
        (&["check"], "the store is missing"),
        (&["show", "x"], "the id is missing"),
        (&["cancel", "x", "7"], "not the id of a durable timer"),
        (&["check", "x", "y"], "y is too much"),
        (&["list", "x", "buried"], "buried is neither a state nor a number"),
        (&["list", "x", "dead", "3", "4"], "4 is too much"),
        (&["copy", "x", "y", "--schema", "z"], "only a database has schemas"),
        (&["list", "x", "--schema=z"], "only a database has schemas"),
        (&["list", "x", "--schema"], "the name of the schema is missing"),
        (&["list", "x", "--limit", "3"], "--limit is not known"),
    ] {
        let (code, out, wrong) = ask(arguments);
        assert_eq!((code, out.as_str()), (ExitCode::from(2), ""));
        assert!(wrong.starts_with(reason) && wrong.contains("usage: actix-timers list STORE"), "{wrong}");
    }
    for question in [&["--help"][..], &["help"], &["list", "--help"], &["copy", "x", "-h", "--schema"]] {
        let (code, out, _) = ask(question);
        assert_eq!(code, ExitCode::SUCCESS);
        assert!(out.contains("usage: actix-timers list STORE"));
    }
}

#[test]
fn a_mistyped_address_becomes_no_directory_and_is_not_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("from").to_str().unwrap().to_owned();
    fill(&mut EmbeddedStore::open(&from).unwrap(), "order", "no such customer").unwrap();
    let begins = "an address of a database begins with postgres://";
    for address in [
        "Postgres://shop:secret@db/shop",
        "postgress://shop:secret@db/shop",
        "postgres:/shop:secret@db/shop",
        " postgres://shop:secret@db/shop",
        "host=db user=shop password=secret",
        "sslmode = disable password=secret",
    ] {
        for question in
            [&["copy", &from, address][..], &["copy", address, &from], &["list", address], &["check", address]]
        {
            let (code, out, wrong) = ask(question);
            assert_eq!((code, out.as_str()), (ExitCode::from(2), ""), "{address}");
            assert!(wrong.starts_with(begins) && !wrong.contains("secret"), "{wrong}");
        }
        assert!(!std::path::Path::new(address).exists());
    }
    let address = "postgres://shop:secret@db/shop";
    for question in [&[address][..], &["check", address], &["list", &from, address], &["copy", &from, &from, address]] {
        let (code, _, wrong) = ask(question);
        assert!(code == ExitCode::from(2) && !wrong.contains("secret"), "{wrong}");
    }
    let named = directory.path().join("host=db");
    assert_eq!(ask(&["copy", &from, named.to_str().unwrap()]).0, ExitCode::SUCCESS);
}

#[cfg(unix)]
#[test]
fn an_argument_that_is_no_text_gets_the_usage() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let mut wrong = Vec::new();
    let code = run(&[OsStr::new("list"), OsStr::from_bytes(b"\xff")], &mut Vec::new(), &mut wrong);
    assert_eq!(code, ExitCode::from(2));
    assert!(wrong.starts_with(b"an argument is not UTF-8\n\nusage: "));
}

#[test]
fn a_store_is_inspected_and_other_paths_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let text = path.to_str().unwrap();
    for question in ["check", "list"] {
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
    let (code, _, wrong) = ask(&["copy", text, text]);
    assert_eq!(code, ExitCode::from(2));
    assert!(wrong.starts_with("both stores are the same"), "{wrong}");
    let backup = directory.path().join("backup");
    std::fs::create_dir(&backup).unwrap();
    std::fs::write(backup.join("timers.db.backup"), "torn").unwrap();
    let (code, _, wrong) = ask(&["check", backup.to_str().unwrap()]);
    assert_eq!(code, ExitCode::FAILURE);
    assert!(wrong.contains("was not finished"), "{wrong}");
}

#[test]
fn timers_are_shown_cancelled_requeued_and_discarded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let ids = fill(&mut EmbeddedStore::open(path).unwrap(), "order", "no such customer").unwrap();
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let (code, out, _) = ask(&["show", path, &ids[0]]);
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(out.contains(", key order-0\n") && out.ends_with("{\"order\":0}\n"), "{out}");

    let gone = |what: &str, id: &str| {
        let (code, out, wrong) = ask(&[what, path, id]);
        assert_eq!((code, out.as_str()), (ExitCode::FAILURE, ""));
        assert!(wrong.starts_with("no timer in this state has the id"), "{wrong}");
    };
    gone("requeue", &ids[0]);
    gone("discard", &ids[0]);
    gone("cancel", &ids[3]);
    for id in [&ids[0], &ids[4]] {
        assert_eq!(ask(&["cancel", path, id]), (ExitCode::SUCCESS, format!("{id} is deleted\n"), String::new()));
        gone("cancel", id);
        gone("show", id);
    }
    let (code, out, _) = ask(&["requeue", path, &ids[3]]);
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(out.starts_with(&format!("{} is due 20", ids[3])), "{out}");
    gone("discard", &ids[3]);
    let (_, pending, _) = ask(&["list", path]);
    assert!(pending.lines().count() == 3 && pending.contains(&ids[3]), "{pending}");
    assert_eq!(ask(&["list", path, "dead"]).1, "");

    let ids = fill(&mut EmbeddedStore::open(path).unwrap(), "other", "none").unwrap();
    let letter = ids[3].to_string();
    assert_eq!(ask(&["discard", path, &letter]).1, format!("{letter} is deleted\n"));
    gone("show", &letter);
}

#[test]
fn a_long_list_is_read_in_pages_and_says_if_there_is_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let mut store = EmbeddedStore::open(path).unwrap();
    for part in 0..450 {
        fill(&mut store, &format!("order-{part}"), "no such customer").unwrap();
    }
    drop(store);
    // Three of each part, and the parked ones of all parts before the last, which its join made pending again.
    for (limit, lines, wrong) in [("1300", 1300, "and more\n"), ("1799", 1799, ""), ("18446744073709551615", 1799, "")]
    {
        let (code, out, said) = ask(&["list", path, limit]);
        assert_eq!((code, out.lines().count(), &*said), (ExitCode::SUCCESS, lines, wrong), "{limit}");
        assert!(out.lines().all(|line| line.starts_with("2033-") && line[19..].starts_with(".000Z ")), "{out}");
    }
}

#[cfg(feature = "postgres")]
#[test]
fn the_environment_has_the_password_of_an_address_without_one() {
    for (address, environment, used) in [
        ("postgres://shop@db/shop", None, None),
        ("postgres://shop@db/shop", Some(""), None),
        ("postgres://shop@db/shop", Some("secret"), Some("secret")),
        ("postgres://shop:own@db/shop", Some("secret"), Some("own")),
    ] {
        let config = crate::stores::config(address, environment.map(str::to_owned)).unwrap();
        assert_eq!(config.get_password(), used.map(str::as_bytes), "{address}");
    }
    let (code, _, wrong) = ask(&["list", "postgres://shop@db/shop?sslmode=verify-full"]);
    assert_eq!(code, ExitCode::FAILURE);
    assert!(wrong.contains("sslmode"), "{wrong}");
}

/// Returns all rows.
fn rows(store: &mut dyn Store) -> Vec<Found> {
    [Part::Pending, Part::Parked, Part::Dead].map(|part| store.list(&Query::of(part)).unwrap().found).concat()
}

/// Copies a store with timers in all states to an address, twice.
fn copy_to(address: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    fill(&mut EmbeddedStore::open(path).unwrap(), "order", "no such customer").unwrap();
    let (code, out, wrong) = ask(&[&["copy", path], address].concat());
    assert_eq!((code, wrong.as_str()), (ExitCode::SUCCESS, ""));
    let copied =
        "pending: 3 copied, 0 were there\nparked: 1 copied, 0 were there\ndead letters: 1 copied, 0 were there\n";
    assert_eq!(out, copied);
    let (code, out, _) = ask(&[&["copy", path], address].concat());
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(out.starts_with("pending: 0 copied, 3 were there\n"), "{out}");
    let all = rows(&mut EmbeddedStore::open(path).unwrap());
    let schema = address.get(2).copied();
    assert_eq!(rows(&mut *Address { store: address[0], schema }.open(false).ok().unwrap()), all);
    assert!(matches!(all[3].state, State::Parked { .. }) && matches!(all[4].state, State::Dead { .. }));
    assert_eq!((all[4].record.progress.attempt, all[0].record.progress.attempt), (1, 0));
    // Another timer has the key there.
    let other = tempfile::tempdir().unwrap();
    let other = other.path().to_str().unwrap();
    fill(&mut EmbeddedStore::open(other).unwrap(), "order", "no such customer").unwrap();
    let (code, out, wrong) = ask(&[&["copy", other], address].concat());
    assert_eq!(code, ExitCode::FAILURE);
    assert!(out.contains("pending: 0 copied, 0 were there") && out.contains(" is not stored: "), "{out}");
    assert_eq!(wrong, "4 timers are missing\n");
}

#[test]
fn a_store_is_copied_with_the_state_of_each_timer() {
    let directory = tempfile::tempdir().unwrap();
    copy_to(&[directory.path().join("copy").to_str().unwrap()]);
}

#[cfg(feature = "postgres")]
#[test]
#[ignore = "needs PostgreSQL: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-cli -- --include-ignored"]
fn a_store_is_copied_to_postgresql() {
    let address = std::env::var("DATABASE_URL").unwrap();
    copy_to(&[&address, "--schema", &format!("copy_{}", std::process::id())]);
}

#[cfg(feature = "postgres")]
#[test]
#[ignore = "needs PostgreSQL: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-cli -- --include-ignored"]
fn a_schema_without_tables_is_no_store_and_gets_none() {
    let address = std::env::var("DATABASE_URL").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("to");
    for question in [&["list", &address][..], &["copy", &address, to.to_str().unwrap()], &["list", &address]] {
        let (code, out, wrong) = ask(&[question, &["--schema=mistyped"]].concat());
        assert_eq!((code, out.as_str()), (ExitCode::FAILURE, ""));
        assert!(wrong.contains(r#"the schema "mistyped" has version 0 of "#), "{wrong}");
    }
    assert!(!to.exists());
}

#[test]
fn pauses_that_a_copy_lacks_are_listed_and_the_exit_code_tells() {
    let directory = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| directory.path().join(name).to_str().unwrap().to_owned());
    let mut store = EmbeddedStore::open(&from).unwrap();
    fill(&mut store, "order", "no such customer").unwrap();
    let served = ["reminders", "invoices"].map(|route| Served {
        index: 0,
        route: route.into(),
        message_type: "Remind".into(),
        version: 1,
        max_attempts: 3,
    });
    let node = NodeInfo { name: "shop".to_owned(), serves: Filter { served: served.into() } };
    store.join(&node, DueTime::MIN).unwrap();
    let in_2033 = nine_o_clock(0).to_system_time();
    for pause in [
        Pause::route("reminders").by("ops").because("no mail"),
        Pause::node("shop").until(in_2033),
        Pause::route("invoices").until(SystemTime::UNIX_EPOCH),
    ] {
        assert_eq!(made(&mut store, Op::Pause(pause), DueTime::MIN).unwrap(), Outcome::Paused);
    }
    drop(store);
    let (code, out, wrong) = ask(&["copy", &from, &to]);
    assert_eq!((code, out.lines().count()), (ExitCode::FAILURE, 3));
    let expected = "node shop is paused, until 2033-05-18T09:00:00.000Z: pause it again before recipients are connected; \
        route reminders is paused by ops: no mail: pause it again before recipients are connected\n";
    assert_eq!(wrong, expected);
    assert_eq!(rows(&mut EmbeddedStore::open(&to).unwrap()).len(), 5);
}

#[test]
fn large_messages_are_copied_a_few_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = EmbeddedStore::open(directory.path()).unwrap();
    fill(&mut store, "order", "no such customer").unwrap();
    let mut lengths = |payload: usize| {
        let mut found = rows(&mut store).remove(0);
        Arc::make_mut(&mut found.record).payload = vec![0; payload].into();
        copy::groups(&vec![found; 1000]).map(<[Found]>::len).collect::<Vec<_>>()
    };
    assert_eq!(lengths(0), [1000]);
    assert_eq!(lengths(1 << 20), [5; 200]);
}

/// A pipe whose reader closes it after the first line.
struct Closing(Vec<u8>);

impl io::Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.contains(&b'\n') { Err(io::ErrorKind::BrokenPipe.into()) } else { self.0.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_copy_goes_on_without_a_reader_and_a_list_ends() {
    let directory = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| directory.path().join(name).to_str().unwrap().to_owned());
    fill(&mut EmbeddedStore::open(&from).unwrap(), "order", "no such customer").unwrap();
    for question in [&["list", &from][..], &["copy", &from, &to]] {
        let mut out = Closing(Vec::new());
        assert_eq!(run(question, &mut out, &mut Vec::new()), ExitCode::SUCCESS);
        assert_eq!(out.0.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
    assert_eq!(rows(&mut EmbeddedStore::open(&to).unwrap()).len(), 5);
}

#[test]
fn damage_is_listed_and_the_exit_code_tells() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut store = EmbeddedStore::open(path).unwrap();
    fill(&mut store, "order", "no such customer").unwrap();
    let copy = path.join("copy");
    store.back_up(&copy).unwrap()().unwrap();
    let database = copy.join("timers.db");
    let mut bytes = fs::read(&database).unwrap();
    let place = bytes.windows(11).position(|window| window == br#"{"order":0}"#).unwrap();
    bytes[place + 9] = b'7';
    fs::write(database, bytes).unwrap();
    let (code, out, wrong) = ask(&["check", copy.to_str().unwrap()]);
    assert_eq!(code, ExitCode::FAILURE);
    assert!(out.contains("differs from what was stored"), "{out}");
    assert!(wrong.contains("1 issues"), "{wrong}");
    let closed = &mut Closing(b"\n".to_vec());
    assert_eq!(run(&["check", copy.to_str().unwrap()], closed, &mut Vec::new()), ExitCode::FAILURE);
    let (code, out, wrong) = ask(&["list", copy.to_str().unwrap()]);
    assert_eq!((code, out.lines().count()), (ExitCode::FAILURE, 2));
    assert!(wrong.contains("1 rows cannot be read"), "{wrong}");
}

/// Keys and reasons come from callers and handlers; a path may be anybody's.
#[test]
fn listed_texts_reach_the_terminal_without_control_characters() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = EmbeddedStore::open(directory.path()).unwrap();
    let (key, reason) = ("\u{1b}[2Jkey\r\nadded \u{202e}\u{9b}", "no\u{7}\nsuch \u{1b}]0;customer");
    let first = fill(&mut store, key, reason).unwrap()[0].to_string();
    drop(store);
    let path = directory.path().to_str().unwrap();
    let mut shown = String::new();
    for question in [
        &["list", path, "pending"][..],
        &["list", path, "dead"],
        &["list", path, "parked"],
        &["show", path, &first],
        &["check", path],
    ] {
        let (code, out, wrong) = ask(question);
        assert_eq!((code, wrong.as_str()), (ExitCode::SUCCESS, ""));
        shown += &out;
    }
    let nothing_there = directory.path().join("\u{1b}[31m\n");
    for question in [
        &["check", nothing_there.to_str().unwrap()][..],
        &["\u{1b}[31m"],
        &["list", path, "\u{1b}"],
        &["show", path, "\u{1b}"],
    ] {
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

/// Stores five timers, of which one becomes a dead letter, and one is parked.
fn fill(store: &mut dyn Store, key: &str, reason: &str) -> Result<Vec<DurableId>, StoreError> {
    let (route, message_type): (Arc<str>, Arc<str>) = ("reminders".into(), "Remind".into());
    let ids: Vec<DurableId> = (0..5).map(|number| DurableId::new(nine_o_clock(number))).collect();
    let put = ids.iter().zip(0..).map(|(id, number)| {
        let record = Record {
            id: *id,
            progress: Progress::first(nine_o_clock(number)),
            route: Arc::clone(&route),
            message_type: Arc::clone(&message_type),
            message_version: 1,
            key: Some(format!("{key}-{number}").into()),
            repeat: None,
            keep_key: None,
            max_attempts: None,
            retry: None,
            headers: Default::default(),
            payload_codec: None,
            payload: format!(r#"{{"order":{number}}}"#).into_bytes().into(),
        };
        NewTimer { record: Arc::new(record), on_key: OnKey::KeepExisting }
    });
    made(store, Op::Put(put.collect()), DueTime::MIN)?;
    // The store is joined, as by a service, to deliver two of them.
    let served = Served { index: 0, route, message_type, version: 1, max_attempts: 3 };
    store.join(&NodeInfo { name: String::new(), serves: Filter { served: vec![served] } }, DueTime::MIN)?;
    let claim = Claim { ids: ids[3..].to_vec(), suspects: Suspects::Left };
    let dead_at = nine_o_clock(9);
    if let Outcome::Claimed { records, .. } = made(store, Op::Claim(claim), dead_at)? {
        let nexts = [
            Next::Dead { reason: reason.into(), then: None },
            Next::Park { reason: format!("{key}: {reason}").into() },
        ];
        for (record, next) in records.iter().zip(nexts) {
            made(store, Op::End(record.delivery(), next), dead_at)?;
        }
    }
    Ok(ids)
}

/// Returns a time on the morning of a day in 2033.
fn nine_o_clock(days_later: u64) -> DueTime {
    const DAY: u64 = 24 * 3600 * 1000;
    DueTime::from_millis(2_000_019_600_000 + days_later * DAY).unwrap_or(DueTime::MAX)
}
