//! The compiler's advice on usual mistakes: the library's own texts, whatever the compiler adds to them.
//!
//! Each file of `cases` is a mistake, or a correct use that is taken for one. Its head lists the expected texts
//! (`error` is the message of an error, `at` the code at its place, `label` the text there, `note` a note) or `compiles`.
//! With `--cfg advised`, which follows the advice, each file compiles.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn command(variable: &str, default: &str) -> Command {
    let mut command = Command::new(env::var_os(variable).unwrap_or_else(|| default.into()));
    command.current_dir(repository());
    command
}

fn json_lines(output: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(output).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the compiler's arguments for a user of the library and of actix. The command is the one that runs all tests, so
/// that nothing has to be compiled for it.
fn dependencies() -> Vec<OsString> {
    let mut cargo = command("CARGO", "cargo");
    cargo.args(["test", "--no-run", "--all-features", "--frozen", "--test", "compile_errors"]);
    let output = cargo.args(["--message-format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut libraries, mut folders) = (BTreeMap::new(), BTreeSet::new());
    for artifact in json_lines(&output.stdout) {
        for file in artifact["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            folders.extend(Path::new(file).parent().map(Path::to_owned));
            if let (Some(name), true) = (artifact["target"]["name"].as_str(), file.ends_with(".rmeta")) {
                libraries.insert(name.to_owned(), file.to_owned());
            }
        }
    }
    let mut arguments = Vec::new();
    for name in ["actix", "actix_timers", "actix_timers_durable", "serde"] {
        arguments.extend(["--extern".into(), format!("{name}={}", libraries[name]).into()]);
    }
    for folder in folders {
        let mut path = OsString::from("dependency=");
        path.push(folder);
        arguments.extend(["-L".into(), path]);
    }
    arguments
}

/// The texts of errors by kind. One that is there twice was reported twice.
type Texts = BTreeMap<&'static str, Vec<String>>;

/// Compiles cases as modules of one crate and returns the texts of the errors of each.
fn compile(cases: &BTreeMap<String, PathBuf>, dependencies: &[OsString], is_advised: bool) -> BTreeMap<String, Texts> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let root = folder.join(if is_advised { "advised.rs" } else { "mistaken.rs" });
    let modules = cases.iter().map(|(name, path)| format!("#[path = {path:?}]\npub mod {name};\n"));
    fs::write(&root, modules.collect::<String>()).unwrap();
    let mut rustc = command("RUSTC", "rustc");
    rustc.args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--error-format=json", "--allow=warnings"]);
    rustc.arg("--out-dir").arg(folder).args(dependencies).arg(root);
    if is_advised {
        rustc.args(["--cfg", "advised"]);
    }
    let output = rustc.output().unwrap();
    let mut texts: BTreeMap<String, Texts> = BTreeMap::new();
    for error in json_lines(&output.stderr).iter().filter(|line| line["level"] == "error") {
        let spans = error["spans"].as_array().into_iter().flatten();
        let is_in = |path: &Path| spans.clone().any(|span| span["file_name"].as_str() == path.to_str());
        let Some((name, _)) = cases.iter().find(|(_, path)| is_in(path)) else { continue };
        // Types of one name in several modules are told with their module.
        let module = format!("{name}::");
        let texts = texts.entry(name.clone()).or_default();
        let mut add = |kind, text: &Value| {
            texts.entry(kind).or_default().extend(text.as_str().map(|text| text.replace(&module, "")));
        };
        add("error", &error["message"]);
        for span in spans {
            add("label", &span["label"]);
            let line = &span["text"][0];
            let [from, to] =
                ["highlight_start", "highlight_end"].map(|column| line[column].as_u64().unwrap() as usize - 1);
            let code = line["text"].as_str().unwrap().chars().skip(from).take(to - from);
            add("at", &code.collect::<String>().into());
        }
        error["children"].as_array().into_iter().flatten().for_each(|child| add("note", &child["message"]));
    }
    assert_eq!(output.status.success(), texts.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    texts
}

/// Returns the texts in the head of a case. `compiles` stands for none.
fn expected(case: &Path) -> Vec<(&'static str, String)> {
    let mut texts = Vec::new();
    let mut compiles = false;
    for line in fs::read_to_string(case).unwrap().lines().map_while(|line| line.strip_prefix("//!")) {
        compiles |= line.trim() == "compiles";
        for kind in ["error", "at", "label", "note"] {
            let text = line.trim().strip_prefix(kind).and_then(|text| text.strip_prefix(": "));
            texts.extend(text.map(|text| (kind, text.to_owned())));
        }
    }
    assert_ne!(compiles, !texts.is_empty(), "{}: the head lists texts or `compiles`", case.display());
    texts
}

#[test]
fn usual_mistakes_are_answered_with_advice_that_helps() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("compile_errors/cases");
    let cases: Vec<PathBuf> = fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(cases.len() > 10);
    let name = |case: &PathBuf| case.file_stem().unwrap().to_str().unwrap().to_owned();
    let cases: BTreeMap<String, PathBuf> = cases.into_iter().map(|case| (name(&case), case)).collect();
    let dependencies = dependencies();
    let mut found = compile(&cases, &dependencies, false);
    let mut failures = String::new();
    for (name, case) in &cases {
        let expected = expected(case);
        let mut texts = found.remove(name).unwrap_or_default();
        if expected.is_empty() != texts.is_empty() {
            failures += &format!("{name}: {texts:#?}\n");
        }
        for (kind, text) in expected {
            let found = texts.entry(kind).or_default();
            match found.iter().position(|found| *found == text) {
                Some(position) => drop(found.remove(position)),
                None => failures += &format!("{name}: no {kind} {text:?} (more) in {found:#?}\n"),
            }
        }
    }
    for (name, texts) in compile(&cases, &dependencies, true) {
        failures += &format!("{name}: the advice does not help: {texts:#?}\n");
    }
    assert!(failures.is_empty(), "{failures}");
}
