//! The package has the dashboards and rules of the repository, and writes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use actix_timers_dashboards::{DASHBOARDS, RULES, write_to};

use crate::files;

/// Returns the names and contents of the files in a folder and its subfolders.
fn contents(folder: &Path) -> BTreeMap<String, String> {
    let named = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files::below(folder).iter().map(|path| (named(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// Grafana reads every JSON file in the folder. A checkout without symbolic links would have paths as contents.
#[test]
fn the_constants_are_the_files_of_the_repository() {
    let mut in_folder = contents(&files::path("dashboards"));
    in_folder.retain(|name, _| name.ends_with(".json") || name == RULES.0);
    let constants =
        DASHBOARDS.iter().chain([&RULES]).map(|(name, content)| ((*name).to_owned(), (*content).to_owned()));
    let constants: BTreeMap<_, _> = constants.collect();
    assert!(constants == in_folder, "{:?} {:?}", constants.keys(), in_folder.keys());
}

#[test]
fn the_files_are_written_to_a_new_folder_and_over_earlier_ones() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("monitoring/timers");
    write_to(&folder).unwrap();
    let written = contents(&folder);
    assert_eq!(written.len(), DASHBOARDS.len() + 1);
    assert_eq!(written[RULES.0], RULES.1);
    std::fs::write(folder.join(RULES.0), "earlier").unwrap();

    let program = |arguments: &[&Path]| {
        let output = Command::new(env!("CARGO_BIN_EXE_actix-timers-dashboards")).args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(program(&[&folder]), (true, String::new()));
    assert!(contents(&folder) == written);
    for arguments in [&[][..], &[Path::new("--halp")], &[&folder, &folder]] {
        let (done, said) = program(arguments);
        assert!(!done && said.starts_with("usage: actix-timers-dashboards FOLDER\n"), "{said}");
    }
    for (argument, begin) in
        [("--help", "usage: actix-timers-dashboards FOLDER\n"), ("--version", "actix-timers-dashboards 0")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_actix-timers-dashboards")).arg(argument).output().unwrap();
        assert!(output.status.success() && output.stdout.starts_with(begin.as_bytes()), "{output:?}");
    }
    let file = folder.join(RULES.0);
    let (done, said) = program(&[&file]);
    assert!(!done && said.starts_with(&format!("actix-timers-dashboards: {}: ", file.display())), "{said}");
}
