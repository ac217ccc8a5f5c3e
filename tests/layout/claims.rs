//! Claims of the pages: a figure that stands in a sentence is that of its file in the benchmarks, the code of the tutorial
//! is that of its programs, and sentences that were found wrong do not return.

use std::collections::BTreeMap;
use std::fs;

use crate::links::markdown_files;
use crate::source::repository;

/// A page, a sentence of it with braces, and the names of the figures in these.
type Claim = (&'static str, &'static str, Vec<&'static str>);

/// The columns that name a row.
const NAMES: [&str; 7] = ["workload", "layer", "pending", "unit", "subject", "target", "operation"];

const FILES: &str = "docs/guide/benchmarks";

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
fn figures_in_sentences_are_those_of_the_files() {
    let mut wrong = Vec::new();
    for (page, sentence, figures) in claims() {
        assert_eq!(sentence.matches("{}").count(), figures.len(), "{page}: {sentence}");
        let mut expected = sentence.to_owned();
        for name in figures {
            expected = expected.replacen("{}", &figure(name), 1);
        }
        if !text_of(page).contains(&expected) {
            wrong.push(format!("{page} does not say: {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A target names a row, or has the figures itself.
#[test]
fn each_target_has_its_figures_in_one_place() {
    for target in rows("targets") {
        let name = &target["target"];
        let keys = ["workload", "layer", "pending", "unit", "subject"];
        let named = files().into_iter().filter(|file| file != "targets").flat_map(|file| rows(&file)).filter(|row| {
            keys.iter().all(|key| row.get(*key).is_some_and(|field| *field == target[*key]))
                && row.get(&target["column"]).is_some_and(|figure| !figure.is_empty())
        });
        let expected = if target["column"].is_empty() { 0 } else { 1 };
        assert_eq!(named.count(), expected, "{name}: rows");
        assert_eq!(target["median"].is_empty(), expected == 1, "{name}: figures");
    }
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

#[test]
fn the_code_of_the_tutorial_is_that_of_its_programs() {
    let read = |file: &str| fs::read_to_string(repository().join(file)).unwrap();
    let plain = |code: &str| code.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let page = read("docs/guide/tutorial.md");
    let blocks: Vec<_> = page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let names: Vec<_> = page.split("<!-- ").skip(1).filter_map(|rest| rest.split(" -->").next()).collect();
    assert_eq!(blocks.len(), names.len(), "each block has the name of its program before it");
    assert!(blocks.len() > 8);
    for (name, block) in names.into_iter().zip(blocks) {
        let program = read(&format!("examples/tutorial/src/bin/{name}"));
        assert!(plain(&program).contains(&plain(block)), "{name} has not:\n{block}");
    }
}

/// Returns a page in one line.
fn text_of(page: &str) -> String {
    let text = fs::read_to_string(repository().join(page)).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads `figures.txt`.
fn claims() -> Vec<Claim> {
    let mut claims: Vec<Claim> = Vec::new();
    let mut page = "";
    for line in include_str!("figures.txt").lines().filter(|line| !line.is_empty() && !line.starts_with("//")) {
        if let Some(name) = line.strip_prefix("# ") {
            page = name;
        } else if let Some(figure) = line.strip_prefix("    ") {
            claims.last_mut().unwrap().2.push(figure);
        } else {
            claims.push((page, line, Vec::new()));
        }
    }
    claims
}

/// Returns a figure as pages write it. Its row is the only one with all the names.
fn figure(name: &str) -> String {
    let parts: Vec<&str> = name.split(" | ").collect();
    let [file, names @ .., column] = parts.as_slice() else { panic!("{name} names no figure") };
    let of = |row: &Row| {
        let has = |name: &str| NAMES.iter().any(|column| row.get(*column).is_some_and(|field| field == name));
        names.iter().all(|name| has(name))
    };
    let found: Vec<Row> = rows(file).into_iter().filter(of).collect();
    let [row] = found.as_slice() else { panic!("{} rows of {name}", found.len()) };
    grouped(&row[*column])
}

/// Sets thousands apart: `1 234` for `1234`.
fn grouped(figure: &str) -> String {
    if figure.len() < 4 || !figure.bytes().all(|byte| byte.is_ascii_digit()) {
        return figure.to_owned();
    }
    let (thousands, rest) = figure.split_at(figure.len() - 3);
    format!("{} {rest}", grouped(thousands))
}

/// The fields of a row, by their columns.
type Row = BTreeMap<String, String>;

/// Returns the names of all files of the benchmarks.
fn files() -> Vec<String> {
    let entries = fs::read_dir(repository().join(FILES)).unwrap();
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

fn rows(file: &str) -> Vec<Row> {
    let text = fs::read_to_string(repository().join(FILES).join(file).with_extension("csv")).unwrap();
    let mut lines = text.lines().map(fields);
    let columns = lines.next().unwrap();
    let row = |fields: Vec<String>| {
        assert_eq!(fields.len(), columns.len(), "{file}.csv: {fields:?}");
        columns.iter().cloned().zip(fields).collect()
    };
    lines.map(row).collect()
}

/// Splits a line of comma-separated values. Quoted fields have no quotes inside.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().unwrap().push(other),
        }
    }
    fields
}
