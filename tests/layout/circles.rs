//! Circles of imports: sets of files in which each file names each other one, directly or through others.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::{absolute, files_of, mentions};
use crate::source::Crate;

/// Maximum number of files in a circle. The largest one is in the service, whose parts share a state.
const MAX_FILES: usize = 10;

/// For each file the named files, each with one of the names.
type Imports<'c> = BTreeMap<&'c str, BTreeMap<&'c str, String>>;

#[test]
fn no_circle_of_imports_is_larger_than_ten_files() {
    let core = Crate::read("");
    let imports = imports(&core);
    let circles = circles(&imports);
    for circle in circles.iter().filter(|circle| circle.len() > 1) {
        println!("{} files: {}", circle.len(), circle.iter().copied().collect::<Vec<_>>().join(", "));
    }
    let largest = circles.iter().max_by_key(|circle| circle.len()).expect("a file");
    assert!(largest.len() <= MAX_FILES, "a circle of {} files:\n{}", largest.len(), describe(largest, &imports));
    let is_in_the_service = largest.iter().all(|file| file.starts_with("service/"));
    assert!(is_in_the_service, "the largest circle is outside of the service:\n{}", describe(largest, &imports));
}

fn imports(core: &Crate) -> Imports<'_> {
    let mut imports = Imports::new();
    for (path, module) in &core.modules {
        let named = imports.entry(&module.file).or_default();
        for mention in mentions(module) {
            let Some(target) = absolute(core, path, &mention.path) else { continue };
            for file in files_of(core, &target).into_iter().filter(|file| *file != module.file) {
                named.entry(file).or_insert_with(|| mention.path.join("::"));
            }
        }
    }
    imports
}

/// Returns the strongly connected components: two files are in one if each reaches the other.
fn circles<'c>(imports: &Imports<'c>) -> Vec<BTreeSet<&'c str>> {
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (*file, reachable(file, imports))).collect();
    let circle_of = |file: &'c str| {
        let back = |other: &&&'c str| reachable[**other].contains(file);
        std::iter::once(file).chain(reachable[file].iter().filter(back).copied()).collect::<BTreeSet<_>>()
    };
    let circles: BTreeSet<_> = imports.keys().map(|file| circle_of(file)).collect();
    circles.into_iter().collect()
}

fn reachable<'c>(file: &str, imports: &Imports<'c>) -> BTreeSet<&'c str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&'c str> = imports[file].keys().copied().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(imports[next].keys());
        }
    }
    reached
}

/// Lists the imports inside a circle.
fn describe(circle: &BTreeSet<&str>, imports: &Imports<'_>) -> String {
    let mut lines = String::new();
    for file in circle {
        lines += &format!("src/{file}\n");
        for (other, name) in imports[file].iter().filter(|(other, _)| circle.contains(*other)) {
            lines += &format!("    src/{other} by {name}\n");
        }
    }
    lines
}
