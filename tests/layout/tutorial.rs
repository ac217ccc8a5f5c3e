//! The code on the page of the tutorial is that of its programs.

use std::fs;

use crate::source::repository;

/// Returns the lines without indentation, of which the empty ones are left out.
fn plain(code: &str) -> String {
    code.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_code_of_the_tutorial_is_that_of_its_programs() {
    let page = fs::read_to_string(repository().join("docs/guide/tutorial.md")).unwrap();
    let blocks: Vec<_> = page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let names: Vec<_> = page.split("<!-- ").skip(1).map(|rest| rest.split(" -->").next().unwrap()).collect();
    assert_eq!(blocks.len(), names.len(), "each block has the name of its program before it");
    assert!(blocks.len() > 8);
    for (name, block) in names.into_iter().zip(blocks) {
        let program = fs::read_to_string(repository().join("examples/tutorial/src/bin").join(name)).unwrap();
        assert!(plain(&program).contains(&plain(block)), "{name} has not:\n{block}");
    }
}
