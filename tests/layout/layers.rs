//! Layers: the code of a layer names only its own layer and lower ones.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use crate::names::{absolute, mentions};
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
                _ if target == own || target == BELOW => continue,
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
