//! Layers: the code of a layer names only its own layer and lower ones. Circles of imports, sets of files in which each
//! names each other one, directly or through others, stay small.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use crate::names::{Target, absolute, mentions, resolve};
use crate::source::Crate;

/// The layers from the lowest to the highest. Layers of one rank do not name each other.
const LAYERS: &[&[&str]] =
    &[&["timing"], &["engine"], &["model"], &["metrics", "trace"], &["service"], &["api"], &["integration"]];

/// Modules outside of the layers: hidden parts for tests and for the macro.
const OUTSIDE: &[&str] = &["simulation", "__private"];

/// A module below all layers: locks and threads, replaced in simulations.
const BELOW: &str = "sync";

fn rank(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|layers| layers.contains(&layer))
}

#[test]
fn imports_between_layers_go_one_way() {
    let core = Crate::read("");
    let mut violations = Vec::new();
    let mut checked = 0;
    for (path, module) in &core.modules {
        let Some(own) = path.first().filter(|first| !OUTSIDE.contains(&first.as_str())) else { continue };
        assert!(own == BELOW || rank(own).is_some(), "src/{}: `{own}` is no layer: give it a rank", module.file);
        for mention in mentions(module) {
            let Some(target) = absolute(&core, path, &mention.path) else { continue };
            let target = target.first().map_or("*", String::as_str);
            checked += 1;
            let reason = match rank(target) {
                _ if target == own || target == BELOW || target == "simulation" => continue,
                Some(named) if rank(own).is_some_and(|own| named < own) => continue,
                Some(_) => format!("`{own}` must not name `{target}`"),
                None => "the path must name a layer, not a re-export of the root".to_owned(),
            };
            violations.push(format!("src/{}:{}: {}: {reason}", module.file, mention.line, mention.path.join("::")));
        }
    }
    assert!(violations.is_empty(), "imports against the order of layers:\n{}", violations.join("\n"));
    assert!(checked > 500, "only {checked} paths were found");

    let mut violations = Vec::new();
    for module in core.modules.values() {
        for item in &module.items {
            companions(item.to_token_stream(), &module.file, &mut violations);
        }
    }
    assert!(violations.is_empty(), "names of companion crates in the core:\n{}", violations.join("\n"));
}

/// Adds all identifiers that contain the name of a companion crate.
fn companions(tokens: TokenStream, file: &str, violations: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => companions(group.stream(), file, violations),
            TokenTree::Ident(ident) => {
                let name = ident.to_string().to_lowercase();
                if name.contains("durable") || name.contains("inspector") {
                    violations.push(format!("src/{file}:{}: {ident}", ident.span().start().line));
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Maximum number of files in a circle. The largest one is in the service, whose parts share a state.
const MAX_FILES: usize = 10;

/// For each file the named files, each with one of the names.
type Imports<'c> = BTreeMap<&'c str, BTreeMap<&'c str, String>>;

#[test]
fn no_circle_of_imports_is_larger_than_ten_files() {
    let core = Crate::read("");
    let imports = imports(&core);
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (*file, reachable(file, &imports))).collect();
    let circle_of = |file: &str| -> BTreeSet<&str> {
        reachable[file].iter().copied().filter(|other| reachable[other].contains(file)).collect()
    };
    let largest = imports.keys().map(|file| circle_of(file)).max_by_key(BTreeSet::len).expect("a file");
    let named =
        |file: &&str| -> Vec<_> { imports[*file].iter().filter(|(other, _)| largest.contains(*other)).collect() };
    let shown: Vec<_> = largest.iter().map(|file| (file, named(file))).collect();
    assert!(largest.len() <= MAX_FILES, "a circle of {} files: {shown:#?}", largest.len());
    assert!(largest.len() > 1 && largest.iter().all(|file| file.starts_with("service/")), "elsewhere: {shown:#?}");
}

fn imports(core: &Crate) -> Imports<'_> {
    let mut imports = Imports::new();
    for (path, module) in &core.modules {
        let named = imports.entry(&module.file).or_default();
        for mention in mentions(module) {
            for target in resolve(core, path, &mention.path) {
                let (Target::Module(target) | Target::Item(target, _)) = target;
                let file = core.modules[&target].file.as_str();
                if file != module.file {
                    named.entry(file).or_insert_with(|| mention.path.join("::"));
                }
            }
        }
    }
    imports
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
