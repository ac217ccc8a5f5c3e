//! The public paths of a crate, and the `impl` blocks of the items behind them.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;
use syn::{Attribute, GenericArgument, Item, ItemImpl, Meta, PathArguments, Type, Visibility};

use crate::names::{Target, ident_of, leaves, named, resolve};
use crate::source::{Crate, ModulePath, arguments, attributes_of, conditions, value};

/// Features and other conditions, as a listing names them.
pub(crate) type Conditions = BTreeSet<String>;

/// A definition: its module and its name there.
pub(crate) type Definition = (ModulePath, String);

/// A public path to an item, with the conditions under which it exists.
pub(crate) type Export = (Vec<String>, Conditions);

/// The public modules and items of a crate.
pub(crate) struct Exports {
    pub(crate) modules: Vec<Export>,
    pub(crate) items: BTreeMap<Definition, Vec<Export>>,
    /// Items of other crates, with their paths there.
    pub(crate) foreign: Vec<(Export, String)>,
}

impl Exports {
    pub(crate) fn of(krate: &Crate) -> Self {
        let exports = Self { modules: Vec::new(), items: BTreeMap::new(), foreign: Vec::new() };
        let mut walk = Walk { krate, exports, open: BTreeSet::new() };
        walk.module(&[], &[], &BTreeSet::new());
        walk.exported_macros();
        walk.exports
    }
}

/// A walk through the public modules and re-exports of a crate.
struct Walk<'c> {
    krate: &'c Crate,
    exports: Exports,
    /// The modules being walked, which a re-export of a parent does not enter again.
    open: BTreeSet<ModulePath>,
}

impl Walk<'_> {
    /// Adds the public items of a module under a public path.
    fn module(&mut self, module: &[String], path: &[String], conditions: &Conditions) {
        if !self.open.insert(module.to_vec()) {
            return;
        }
        let krate = self.krate;
        for (child, declared) in krate.modules.iter().filter(|(child, _)| is_child(child, module)) {
            if is_reachable(&declared.vis) {
                let path = [path, &child[module.len()..]].concat();
                let conditions = joined(conditions, &declared.attrs);
                self.exports.modules.push((path.clone(), conditions.clone()));
                self.module(child, &path, &conditions);
            }
        }
        for item in &krate.modules[module].items {
            let conditions = joined(conditions, attributes_of(item));
            if let Item::Use(item) = item {
                if is_reachable(&item.vis) {
                    for leaf in leaves(&item.tree) {
                        self.reexport(module, path, &leaf.path, &leaf.name, &conditions);
                    }
                }
            } else if let Some((name, vis)) = named(item)
                && is_reachable(vis)
            {
                self.item((module.to_vec(), name.to_string()), [path, &[name.to_string()]].concat(), conditions);
            }
        }
        self.open.remove(module);
    }

    fn reexport(&mut self, module: &[String], path: &[String], source: &[String], name: &str, conditions: &Conditions) {
        let is_glob = name == "*";
        let targets = resolve(self.krate, module, if is_glob { &source[..source.len() - 1] } else { source });
        if targets.is_empty() {
            let public = [path, &[name.to_owned()]].concat();
            self.exports.foreign.push(((public, conditions.clone()), source.join("::")));
        }
        let public = if is_glob { path.to_vec() } else { [path, &[name.to_owned()]].concat() };
        for target in targets {
            match target {
                // A private module cannot be re-exported: the name means an item beside it.
                Target::Module(target) if !is_glob && !is_reachable(&self.krate.modules[&target].vis) => {}
                Target::Module(target) => {
                    if !is_glob {
                        self.exports.modules.push((public.clone(), conditions.clone()));
                    }
                    self.module(&target, &public, conditions);
                }
                Target::Item(target, name) => self.item((target, name), public.clone(), conditions.clone()),
            }
        }
    }

    fn item(&mut self, definition: Definition, path: Vec<String>, conditions: Conditions) {
        let exports = self.exports.items.entry(definition).or_default();
        if exports.iter().all(|(known, _)| *known != path) {
            exports.push((path, conditions));
        }
    }

    /// Adds the macros that users find at the root.
    fn exported_macros(&mut self) {
        let krate = self.krate;
        for (path, module) in &krate.modules {
            for item in &module.items {
                let is_exported = attributes_of(item).iter().any(|attribute| attribute.path().is_ident("macro_export"));
                if let (Some(name), true) = (ident_of(item), is_exported && !is_hidden(attributes_of(item))) {
                    self.item((path.clone(), name.to_string()), vec![name.to_string()], BTreeSet::new());
                }
            }
        }
    }
}

/// An `impl` block, with the conditions under which it exists.
pub(crate) struct Implementation<'c> {
    pub(crate) block: &'c ItemImpl,
    pub(crate) conditions: Conditions,
    /// The block implements a trait for the type under which it is listed, and not for a foreign one.
    pub(crate) is_of_item: bool,
}

/// The `impl` blocks by the public item under which they are listed.
pub(crate) struct Impls<'c> {
    pub(crate) inherent: BTreeMap<Definition, Vec<Implementation<'c>>>,
    pub(crate) traits: BTreeMap<Definition, Vec<Implementation<'c>>>,
}

impl<'c> Impls<'c> {
    pub(crate) fn of(krate: &'c Crate, public: &BTreeMap<Definition, Vec<Export>>) -> Self {
        let mut impls = Self { inherent: BTreeMap::new(), traits: BTreeMap::new() };
        for (path, module) in &krate.modules {
            for item in &module.items {
                let Item::Impl(block) = item else { continue };
                let outer = conditions_of(krate, path);
                let conditions = joined(&outer, &block.attrs);
                let definition = definition_of(krate, path, &block.self_ty);
                let is_public = |definition: &Definition| public.contains_key(definition);
                let Some((_, name, _)) = &block.trait_ else {
                    if let Some(definition) = definition {
                        let one = Implementation { block, conditions, is_of_item: true };
                        impls.inherent.entry(definition).or_default().push(one);
                    }
                    continue;
                };
                // An implementation of or with a private item is no part of the API.
                let local_trait = definition_of_path(krate, path, name);
                let arguments = arguments_of_crate(krate, path, name);
                if local_trait.iter().chain(&arguments).any(|definition| !is_public(definition)) {
                    continue;
                }
                let (owner, is_of_item) = match definition {
                    Some(definition) => (Some(definition), true),
                    None => (local_trait.or_else(|| arguments.first().cloned()), false),
                };
                if let Some(owner) = owner.filter(is_public) {
                    impls.traits.entry(owner).or_default().push(Implementation { block, conditions, is_of_item });
                }
            }
        }
        impls
    }
}

/// Returns the arguments of a trait that are types of the crate.
fn arguments_of_crate(krate: &Crate, module: &[String], name: &syn::Path) -> Vec<Definition> {
    let Some(PathArguments::AngleBracketed(arguments)) = name.segments.last().map(|segment| &segment.arguments) else {
        return Vec::new();
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => definition_of(krate, module, ty),
        _ => None,
    });
    types.collect()
}

fn definition_of(krate: &Crate, module: &[String], ty: &Type) -> Option<Definition> {
    match ty {
        Type::Path(path) => definition_of_path(krate, module, &path.path),
        Type::Reference(reference) => definition_of(krate, module, &reference.elem),
        _ => None,
    }
}

fn definition_of_path(krate: &Crate, module: &[String], path: &syn::Path) -> Option<Definition> {
    let path: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    resolve(krate, module, &path).into_iter().find_map(|target| match target {
        Target::Item(module, name) => Some((module, name)),
        Target::Module(_) => None,
    })
}

fn is_child(child: &[String], module: &[String]) -> bool {
    child.len() == module.len() + 1 && child.starts_with(module)
}

pub(crate) fn is_reachable(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string() == "hidden")
    })
}

/// Returns the conditions of a module and its parents. A hidden one hides the paths through it, and no item that is exported
/// elsewhere.
pub(crate) fn conditions_of(krate: &Crate, module: &[String]) -> Conditions {
    let parents = (1..=module.len()).filter_map(|at| krate.modules.get(&module[..at]));
    let mut all = parents.fold(BTreeSet::new(), |all, module| joined(&all, &module.attrs));
    all.remove(HIDDEN);
    all
}

/// Marks items that rustdoc hides: they are reachable, but no part of the API for applications.
pub(crate) const HIDDEN: &str = "hidden";

/// Adds the conditions in attributes to others.
pub(crate) fn joined(outer: &Conditions, attributes: &[Attribute]) -> Conditions {
    let mut all = outer.clone();
    if is_hidden(attributes) {
        all.insert(HIDDEN.to_owned());
    }
    conditions(attributes).iter().for_each(|condition| describe(condition, &mut all));
    all
}

/// Adds a condition as readers name it. `all` is split, and conditions that every user's build meets are left out.
pub(crate) fn describe(condition: &Meta, conditions: &mut Conditions) {
    match condition {
        _ if value(condition) == Some(true) => {}
        Meta::List(list) if list.path.is_ident("all") => {
            arguments(list).iter().for_each(|argument| describe(argument, conditions));
        }
        Meta::NameValue(pair) if pair.path.is_ident("feature") => {
            let name = pair.value.to_token_stream().to_string();
            conditions.insert(format!("feature {}", name.trim_matches('"')));
        }
        other => {
            conditions.insert(other.to_token_stream().to_string().replace(" (", "(").replace(" ,", ","));
        }
    }
}
