//! The output of the example.

use std::time::{Duration, Instant};

use crate::program::{FIVE, Finished, Folder, example, row, run};

const HEADER: &str = "scheduled,departed,carrier,flight,origin,destination";
fn with_header(lines: &str) -> String {
    format!("{HEADER}\n{lines}\n")
}

fn assert_ok(finished: &Finished) {
    let Finished { code, stdout, stderr } = finished;
    assert_eq!(*code, Some(0), "{stdout}\n{stderr}");
    assert!(stdout.ends_with("\nchecked against the file: ok\n"), "{stdout}");
    assert!(stderr.contains("100 %"), "progress was shown: {stderr}");
}

fn assert_totals_of_july(finished: &Finished) {
    assert_ok(finished);
    for (airport, numbers) in [
        ("EWR", "10475 10196 279 5325"),
        ("JFK", "10023 9812 211 5045"),
        ("LGA", "8927 8477 450 3539"),
        ("total", "29425 28485 940 13909"),
    ] {
        let row = row(finished, airport);
        assert!(row.starts_with(&format!("{airport} {numbers} ")), "{row}");
    }
    assert_eq!(row(finished, "pending"), "pending 44274atmost,0attheend");
    assert!(
        finished
            .stdout
            .contains("44 274 accepted = 43 334 delivered + 940 cancelled + 0 dead letters + 0 returned + 0 pending"),
        "{}",
        finished.stdout
    );
}

pub(crate) fn assert_totals_of_five(finished: &Finished) {
    assert_ok(finished);
    assert!(row(finished, "EWR").starts_with("EWR 3 2 1 1 "), "{}", finished.stdout);
    assert!(row(finished, "JFK").starts_with("JFK 2 2 0 1 "), "{}", finished.stdout);
    assert!(row(finished, "total").starts_with("total 5 4 1 2 "), "{}", finished.stdout);
}

#[test]
fn july_comes_out_exactly_in_virtual_time_and_nothing_is_late() {
    let july = run(&[]);
    assert_totals_of_july(&july);
    assert_eq!(row(&july, "total"), "total 29425 28485 940 13909 0ms");
    assert!(row(&july, "wheel depth reached").starts_with("wheeldepthreached 4levelsof256buckets"));
    assert!(row(&july, "simulated span").contains("30d20h,2013-07-0108:30UTCto2013-08-0105:02UTC"));
}

#[test]
fn july_is_exact_against_real_time_however_late_messages_are() {
    assert_totals_of_july(&run(&["--speed", "5000000"]));
    assert_totals_of_july(&run(&["--speed", "1e9"]));
}

#[test]
fn a_small_file_is_replayed_at_the_speed_asked_for() {
    let folder = Folder::new();
    let five = folder.file("speed", FIVE);
    let began = Instant::now();
    let finished = run(&["--input", &five, "--speed", "36000.5"]);
    assert_totals_of_five(&finished);
    // From 08:10, when the cancellation becomes known, to 10:30, when the late flight boards.
    assert!(began.elapsed() >= Duration::from_secs(140 * 60).div_f64(36000.5), "not faster than asked for");
    assert!(row(&finished, "speed").contains("36000.5timesrealtime"));
}

#[test]
fn a_file_may_be_written_by_any_editor_and_in_any_order() {
    let folder = Folder::new();
    assert_totals_of_five(&run(&["--input", &folder.file("lf", FIVE)]));
    assert_totals_of_five(&run(&["--input", &folder.file("crlf", FIVE.replace('\n', "\r\n"))]));
    assert_totals_of_five(&run(&["--input", &folder.file("no-newline", FIVE.trim_end())]));
    assert_totals_of_five(&run(&["--input", &folder.file("bom", format!("\u{feff}{FIVE}"))]));
    let mut lines: Vec<&str> = FIVE.lines().collect();
    lines[1..].reverse();
    assert_totals_of_five(&run(&["--input", &folder.file("unordered", lines.join("\n"))]));
    let offset = FIVE.replace("09:20:00Z", "05:20:00-04:00");
    assert_totals_of_five(&run(&["--input", &folder.file("offset", offset)]));
}

#[test]
fn years_apart_and_before_1970() {
    let folder = Folder::new();
    let apart = with_header(
        "1914-01-01T03:00:00Z,1914-01-01T05:00:00Z,US,1,EWR,CLT\n\
         2199-12-31T23:00:00Z,,US,2,EWR,CLT\n\
         1969-12-31T23:50:00Z,1970-01-01T00:40:00Z,US,3,EWR,CLT\n\
         1970-01-01T00:50:00Z,1970-01-01T00:50:00Z,US,4,EWR,CLT",
    );
    let finished = run(&["--input", &folder.file("apart", apart)]);
    assert_ok(&finished);
    assert_eq!(row(&finished, "total"), "total 4 3 1 2 0ms");
}

#[test]
fn malformed_input_is_named_with_file_and_line() {
    let folder = Folder::new();
    let good = "2013-07-01T09:00:00Z,2013-07-01T09:00:00Z,US,1431,EWR,CLT";
    let line = |text: &str| with_header(&format!("{good}\n{text}"));
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", Vec::new(), ": the file is empty"),
        ("header-only", HEADER.into(), ": there are no flights"),
        ("other-header", "scheduled,flight\n".into(), ":1: unknown header \"scheduled,flight\""),
        ("no-header", good.into(), ":1: unknown header"),
        ("quoted-header", format!("\"{HEADER}\"").into(), ":1: unknown header"),
        ("blank-line", line(&format!("\n{good}")).into(), ":3: the line is empty"),
        ("few-columns", line("2013-07-01T09:00:00Z,,US,1,EWR").into(), ":3: 6 columns are wanted, here are 5"),
        ("many-columns", line(&format!("{good},x")).into(), ":3: 6 columns are wanted, here are 7"),
        ("semicolons", line(&good.replace(',', ";")).into(), ":3: 6 columns are wanted, here are 1"),
        ("no-date", line(",,US,1,EWR,CLT").into(), ":3: scheduled \"\" is not a date and time"),
        ("30-february", line("2013-02-30T09:00:00Z,,US,1,EWR,CLT").into(), ":3: scheduled \"2013-02-30"),
        ("no-zone", line("2013-07-01T09:00:00,,US,1,EWR,CLT").into(), ":3: scheduled \"2013-07-01T09:00:00\""),
        ("seconds", line("1372669200,,US,1,EWR,CLT").into(), ":3: scheduled \"1372669200\""),
        ("year-10000", line("10000-01-01T00:00:00Z,,US,1,EWR,CLT").into(), ":3: scheduled \"10000"),
        ("year-9999", line("9999-12-30T00:00:00Z,,US,1,EWR,CLT").into(), ":3: scheduled \"9999"),
        ("year-1", line("0001-01-01T00:00:00Z,,US,1,EWR,CLT").into(), "is not in the years 1914 to 2199"),
        ("year-minus-9999", line("-009999-01-02T01:59:59Z,,US,1,EWR,CLT").into(), "is not in the years"),
        ("departed-text", line("2013-07-01T09:00:00Z,late,US,1,EWR,CLT").into(), ":3: departed \"late\""),
        (
            "departed-before",
            line("2013-07-01T09:00:00Z,2013-06-30T09:00:00Z,US,1,EWR,CLT").into(),
            ":3: departed 24h before the scheduled time",
        ),
        (
            "departed-after",
            line("2013-07-01T09:00:00Z,2014-07-01T09:00:00Z,US,1,EWR,CLT").into(),
            ":3: departed 8760h after the scheduled time",
        ),
        ("carrier", line("2013-07-01T09:00:00Z,,United,1,EWR,CLT").into(), ":3: carrier \"United\""),
        ("number-huge", line("2013-07-01T09:00:00Z,,US,99999999999999999999,EWR,CLT").into(), ":3: flight \"9999"),
        ("number-negative", line("2013-07-01T09:00:00Z,,US,-1,EWR,CLT").into(), ":3: flight \"-1\""),
        ("number-zero", line("2013-07-01T09:00:00Z,,US,0,EWR,CLT").into(), ":3: flight \"0\""),
        ("origin", line("2013-07-01T09:00:00Z,,US,1,ewr,CLT").into(), ":3: origin \"ewr\""),
        ("no-origin", line("2013-07-01T09:00:00Z,,US,1,,CLT").into(), ":3: origin \"\""),
        ("destination", line("2013-07-01T09:00:00Z,,US,1,EWR,C L").into(), ":3: destination \"C L\""),
        ("control", line("2013-07-01T09:00:00Z,,US,1,EWR,\u{1b}[2").into(), ":3: destination \"\\u{1b}[2\""),
        ("latin-1", [line("").trim_end().as_bytes(), b"\nZ\xfcrich\n"].concat(), ":3: the line is not valid UTF-8"),
        ("utf-16", "sched".encode_utf16().flat_map(u16::to_le_bytes).collect(), ":1: unknown header"),
        ("nul", vec![0; 100], ":1: unknown header"),
        ("long-line", line(&"x".repeat(5000)).into(), ":3: the line is longer than 1024 bytes"),
        ("old-mac", FIVE.replace('\n', "\r").into(), ":1: unknown header"),
    ];
    for (name, content, message) in cases {
        let path = folder.file(name, content);
        assert_misuse(&["--input", &path], &[&path, message]);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = Folder::new();
    let missing = folder.file("missing", "");
    std::fs::remove_file(&missing).expect("it was there");
    assert_misuse(&["--input", &missing], &[&missing]);
    let not_a_file = env!("CARGO_MANIFEST_DIR");
    assert_misuse(&["--input", not_a_file], &[not_a_file]);
}

#[test]
fn wrong_options_are_named() {
    for (arguments, message) in [
        (&["--sped", "5"][..], "unknown argument '--sped'"),
        (&["july.csv"], "unknown argument 'july.csv'"),
        (&["--speed"], "--speed needs a value"),
        (&["--input"], "--input needs a value"),
        (&["--metrics"], "--metrics needs a value"),
        (&["--store", "a", "--node", "1"], "--node needs a database"),
        (&["--store", "postgres://nobody@127.0.0.1:1/nowhere"], "needs the name of this node: --node N"),
        (&["--store"], "--store needs a value"),
        (&["--speed", "fast"], "--speed 'fast': not a number"),
        (&["--speed", ""], "--speed '': not a number"),
        (&["--speed", "0"], "--speed '0': must be from 0.001 to 1000000000"),
        (&["--speed", "-1"], "--speed '-1': must be"),
        (&["--speed", "nan"], "--speed 'nan': must be"),
        (&["--speed", "inf"], "--speed 'inf': must be"),
        (&["--speed", "1e300"], "--speed '1e300': must be"),
        (&["--metrics", "here"], "--metrics 'here': "),
        (&["--metrics", ""], "--metrics '': "),
        (&["--metrics", "127.0.0.1"], "--metrics '127.0.0.1': "),
        (&["--metrics", "127.0.0.1:99999"], "--metrics '127.0.0.1:99999': "),
        (&["--metrics", "::1:x"], "--metrics '::1:x': "),
    ] {
        assert_misuse(arguments, &[message]);
    }
}

pub(crate) fn assert_misuse(arguments: &[&str], messages: &[&str]) {
    let Finished { code, stdout, stderr } = run(arguments);
    assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
    assert_eq!(stdout, "", "{arguments:?}");
    assert_eq!(stderr.lines().count(), 1, "one clear line: {stderr}");
    assert!(stderr.starts_with("departures: "), "{stderr}");
    for message in messages {
        assert!(stderr.contains(message), "{arguments:?}: {message:?} is not in {stderr:?}");
    }
}

#[test]
#[cfg(not(feature = "durable"))]
fn a_store_without_durable_timers_is_rejected() {
    assert_misuse(&["--store", "nowhere"], &["--store needs durable timers", "--features durable"]);
    assert!(!std::path::Path::new("nowhere").exists());
}

#[test]
#[cfg(all(feature = "durable", not(feature = "postgres")))]
fn a_database_without_its_feature_is_rejected() {
    let arguments = ["--store", "postgres://nobody@127.0.0.1:1/nowhere", "--node", "1"];
    assert_misuse(&arguments, &["--store postgres://... needs", "--features postgres"]);
}

#[test]
fn help_is_given() {
    for option in ["--help", "-h"] {
        let Finished { code, stdout, stderr } = run(&["--speed", "5", option]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        for word in
            ["--input FILE", "--speed N", "--store DIR", "--store URL", "--node N", "--metrics ADDR", "Exit code"]
        {
            assert!(stdout.contains(word), "{stdout}");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_report_that_cannot_be_written_is_a_failure() {
    let folder = Folder::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let input = folder.file("full", FIVE);
    let output = example().args(["--input", &input]).stdout(full).output().expect("the example runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("departures: stdout: "));
}
