//! Paths in the code, and the modules and items that they name.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, UseTree, Visibility};

use crate::source::{Crate, Module, ModulePath};

/// A path in the code, with the line of its first segment.
pub(crate) struct Mention {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
}

/// Returns the paths of a module that can lead to other modules of the crate: all leaves of `use`, and all paths with
/// several segments. In macros and attributes, paths begin with `crate`, `self` or `super`.
pub(crate) fn mentions(module: &Module) -> Vec<Mention> {
    let mut collector = Collector { mentions: Vec::new() };
    for item in &module.items {
        collector.visit_item(item);
    }
    collector.mentions
}

struct Collector {
    mentions: Vec<Mention>,
}

impl Collector {
    fn add(&mut self, first: &Ident, path: Vec<String>) {
        self.mentions.push(Mention { path, line: first.span().start().line });
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for leaf in leaves(&item.tree) {
            self.add(&leaf.ident, leaf.path);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let first = &path.segments[0].ident;
        if path.segments.len() > 1 {
            self.add(first, path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        in_tokens(call.tokens.clone(), self);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            in_tokens(list.tokens.clone(), self);
        }
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn is_anchor(ident: &Ident) -> bool {
    ident == "crate" || ident == "self" || ident == "super"
}

/// Collects paths from tokens that are not parsed, except those of `$crate`.
fn in_tokens(tokens: TokenStream, collector: &mut Collector) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |at: usize, expected: char| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == expected);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => in_tokens(group.stream(), collector),
            TokenTree::Ident(first) if is_anchor(first) && (at == 0 || !is(at - 1, '$') && !is(at - 1, ':')) => {
                let mut path = vec![first.to_string()];
                let mut next = at + 1;
                while is(next, ':')
                    && is(next + 1, ':')
                    && let Some(TokenTree::Ident(segment)) = tokens.get(next + 2)
                {
                    path.push(segment.to_string());
                    next += 3;
                }
                if path.len() > 1 {
                    collector.add(first, path);
                }
            }
            // `#[serde(with = "crate::...")]`
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if let Some(path) = text.strip_prefix("\"crate::").and_then(|path| path.strip_suffix('"')) {
                    let crate_ = Ident::new("crate", literal.span());
                    collector
                        .add(&crate_, std::iter::once("crate").chain(path.split("::")).map(str::to_owned).collect());
                }
            }
            _ => {}
        }
    }
}

/// One path of a `use`.
pub(crate) struct Leaf {
    /// The path; its last segment is `*` for a glob.
    pub(crate) path: Vec<String>,
    /// The name in scope.
    pub(crate) name: String,
    ident: Ident,
}

/// Returns the paths of a `use`, with groups resolved.
pub(crate) fn leaves(tree: &UseTree) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    descend(tree, &[], None, &mut leaves);
    leaves
}

fn descend(tree: &UseTree, prefix: &[String], first: Option<&Ident>, leaves: &mut Vec<Leaf>) {
    let extended = |last: &str| {
        let mut path = prefix.to_vec();
        // `{self}` stands for the path before the group.
        if last != "self" || path.is_empty() {
            path.push(last.to_owned());
        }
        path
    };
    let mut add = |last: &str, name: Option<&Ident>, ident: &Ident| {
        let path = extended(last);
        let name = name.map_or_else(|| path[path.len() - 1].clone(), ToString::to_string);
        leaves.push(Leaf { path, name, ident: first.unwrap_or(ident).clone() });
    };
    match tree {
        UseTree::Path(path) => {
            let prefix = extended(&path.ident.to_string());
            descend(&path.tree, &prefix, Some(first.unwrap_or(&path.ident)), leaves);
        }
        UseTree::Name(name) => add(&name.ident.to_string(), None, &name.ident),
        UseTree::Rename(rename) => add(&rename.ident.to_string(), Some(&rename.rename), &rename.ident),
        UseTree::Glob(glob) => add("*", None, &Ident::new("_", glob.star_token.spans[0])),
        UseTree::Group(group) => group.items.iter().for_each(|tree| descend(tree, prefix, first, leaves)),
    }
}

/// Returns a path from the root of the crate, without `crate`. `None` if the path begins with an imported name or another
/// crate.
pub(crate) fn absolute(krate: &Crate, module: &[String], path: &[String]) -> Option<ModulePath> {
    let mut base = module.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|segment| segment == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        first => {
            let mut child = base.clone();
            child.push(first.to_owned());
            krate.modules.get(&child)?;
        }
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// The meaning of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Module(ModulePath),
    /// An item by the module that defines it.
    Item(ModulePath, String),
}

/// Returns the module and the items that a path names in the scope of a module, through private imports, too. Nothing if
/// the path leads to another crate.
pub(crate) fn resolve(krate: &Crate, module: &[String], path: &[String]) -> Vec<Target> {
    let mut resolution = Resolution { krate, targets: BTreeSet::new(), seen: BTreeSet::new() };
    resolution.start(module, path);
    resolution.targets.into_iter().collect()
}

struct Resolution<'c> {
    krate: &'c Crate,
    targets: BTreeSet<Target>,
    /// Paths on the way, with their modules: an import may name itself.
    seen: BTreeSet<(ModulePath, Vec<String>)>,
}

impl Resolution<'_> {
    fn start(&mut self, module: &[String], path: &[String]) {
        match path[0].as_str() {
            "crate" => self.descend(&[], &path[1..]),
            "self" => self.descend(module, &path[1..]),
            "super" => {
                let supers = path.iter().take_while(|segment| *segment == "super").count();
                self.descend(&module[..module.len().saturating_sub(supers)], &path[supers..]);
            }
            _ => self.descend(module, path),
        }
    }

    fn descend(&mut self, module: &[String], path: &[String]) {
        if !self.seen.insert((module.to_vec(), path.to_vec())) {
            return;
        }
        let Some((name, rest)) = path.split_first() else {
            self.targets.insert(Target::Module(module.to_vec()));
            return;
        };
        let child = [module, std::slice::from_ref(name)].concat();
        if self.krate.modules.contains_key(&child) {
            self.descend(&child, rest);
            if !rest.is_empty() {
                return;
            }
        }
        let Some(here) = self.krate.modules.get(module) else { return };
        if defines(here, name) {
            self.targets.insert(Target::Item(module.to_vec(), name.clone()));
            return;
        }
        for item in &here.items {
            let Item::Use(item) = item else { continue };
            for mut leaf in leaves(&item.tree) {
                let is_local = absolute(self.krate, module, &leaf.path).is_some();
                if leaf.name == "*" && is_local {
                    leaf.path.pop();
                    leaf.path.push(name.clone());
                } else if leaf.name != *name || !is_local && leaf.path[0] == *name {
                    continue;
                }
                leaf.path.extend_from_slice(rest);
                self.start(module, &leaf.path);
            }
        }
    }
}

/// Reports whether a module defines an item of this name.
pub(crate) fn defines(module: &Module, name: &str) -> bool {
    module.items.iter().any(|item| ident_of(item).is_some_and(|ident| ident == name))
}

/// Returns the name of an item, if it has one.
pub(crate) fn ident_of(item: &Item) -> Option<&Ident> {
    named(item).map(|(ident, _)| ident)
}

/// Returns the name of an item, and its visibility.
pub(crate) fn named(item: &Item) -> Option<(&Ident, &Visibility)> {
    Some(match item {
        Item::Const(item) => (&item.ident, &item.vis),
        Item::Enum(item) => (&item.ident, &item.vis),
        Item::Fn(item) => (&item.sig.ident, &item.vis),
        Item::Macro(item) => (item.ident.as_ref()?, &Visibility::Inherited),
        Item::Static(item) => (&item.ident, &item.vis),
        Item::Struct(item) => (&item.ident, &item.vis),
        Item::Trait(item) => (&item.ident, &item.vis),
        Item::Type(item) => (&item.ident, &item.vis),
        Item::Union(item) => (&item.ident, &item.vis),
        _ => return None,
    })
}
