//! The public API: all public items of the published crates, compared with committed listings.
//!
//! Each change of the API is a change of a listing, visible in a review. Each line is complete: it names its item by the
//! public path, and conditions such as features. Members follow their type: fields, variants and items of traits in
//! their order in the source, implemented traits and methods sorted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Field, Fields, GenericArgument, ImplItem, Item, ItemImpl, Meta, PathArguments, Token, TraitItem,
    Visibility, WherePredicate,
};

use crate::exports::{
    Conditions, Definition, Export, Exports, HIDDEN, Implementation, Impls, conditions_of, describe, is_reachable,
    joined,
};
use crate::names::ident_of;
use crate::print;
use crate::source::{Crate, arguments, attributes_of, repository};

/// The published crates with an API: name and folder. `actix-timers` re-exports the macro of `actix-timers-derive`.
const CRATES: &[(&str, &str)] = &[
    ("actix-timers", ""),
    ("actix-timers-durable", "crates/actix-timers-durable"),
    ("actix-timers-inspector", "crates/actix-timers-inspector"),
    ("actix-timers-dashboards", "crates/actix-timers-dashboards"),
    ("actix-timers-postgres", "crates/actix-timers-postgres"),
    ("actix-timers-purgatory", "crates/actix-timers-purgatory"),
];

const UPDATE: &str = "UPDATE_API=1 cargo test -p actix-timers-tests --test layout public_api";

#[test]
fn the_public_api_is_the_committed_listing() {
    let mut differences = String::new();
    for (name, folder) in CRATES {
        let api = Api::of(&Crate::read(folder));
        let totals = format!("{} public functions, {} public types", api.functions, api.types);
        println!("{name}: {totals}");
        let listing = format!("# Public items of {name}. To update: {UPDATE}\n\n{}\n# {totals}\n", api.text());
        let file = format!("docs/internals/api/{name}.txt");
        let path = repository().join(&file);
        if std::env::var_os("UPDATE_API").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, listing).unwrap();
            continue;
        }
        let committed = fs::read_to_string(path).unwrap_or_default();
        if committed != listing {
            _ = write!(differences, "\n{file} (- listed, + in the code):\n{}", difference(&committed, &listing));
        }
    }
    assert!(differences.is_empty(), "the public API has changed:\n{differences}\nIf that is intended: {UPDATE}\n");
}

/// Returns the lines that are only in one of two texts.
fn difference(old: &str, new: &str) -> String {
    let [old, new] = [old, new].map(|text| text.lines().collect::<BTreeSet<_>>());
    let removed = old.difference(&new).map(|line| format!("- {line}\n"));
    removed.chain(new.difference(&old).map(|line| format!("+ {line}\n"))).collect()
}

/// The public items of a crate.
struct Api {
    /// The lines of each item.
    blocks: BTreeMap<Vec<String>, Vec<String>>,
    functions: usize,
    types: usize,
}

impl Api {
    fn of(krate: &Crate) -> Self {
        let exports = Exports::of(krate);
        let impls = Impls::of(krate, &exports.items);
        let mut api = Self { blocks: BTreeMap::new(), functions: 0, types: 0 };
        for (path, conditions) in exports.modules {
            api.add(&path, format!("pub mod {}", path.join("::")), &conditions);
        }
        for ((path, conditions), source) in exports.foreign {
            api.add(&path, format!("pub use {source} as {}", path.join("::")), &conditions);
        }
        for (definition, mut exports) in exports.items {
            exports.sort_by_key(|(path, _)| (path.len(), path.clone()));
            let (first, others) = exports.split_first().expect("an export");
            api.item(krate, &definition, first, &impls);
            for (path, conditions) in others {
                api.add(path, format!("pub use {} as {}", first.0.join("::"), path.join("::")), conditions);
            }
        }
        api
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut module = None;
        for (path, lines) in &self.blocks {
            // Items of one line stand together.
            if lines.len() > 1 || module != Some(&path[..path.len() - 1]) {
                text += if text.is_empty() { "" } else { "\n" };
            }
            module = (lines.len() == 1).then_some(&path[..path.len() - 1]);
            text += &lines.join("\n    ");
            text.push('\n');
        }
        text
    }

    fn add(&mut self, path: &[String], mut line: String, conditions: &Conditions) {
        if !conditions.is_empty() {
            _ = write!(line, "  [{}]", conditions.iter().cloned().collect::<Vec<_>>().join(", "));
        }
        self.blocks.entry(path.to_vec()).or_default().push(line);
    }

    /// Adds the definitions of one name, with their members.
    fn item(&mut self, krate: &Crate, definition: &Definition, (path, exported): &Export, impls: &Impls<'_>) {
        let (module, name) = definition;
        let full = path.join("::");
        for item in &krate.modules[module].items {
            if ident_of(item).is_none_or(|ident| ident != name) {
                continue;
            }
            let outer = joined(&(exported | &conditions_of(krate, module)), attributes_of(item));
            let is_type =
                matches!(item, Item::Struct(_) | Item::Enum(_) | Item::Trait(_) | Item::Type(_) | Item::Union(_));
            let is_shown = !outer.contains(HIDDEN);
            self.types += usize::from(is_type && is_shown);
            match item {
                Item::Fn(item) => {
                    self.functions += usize::from(is_shown);
                    self.add(path, print::function(item.vis.clone(), &item.sig, &full, Vec::new()), &outer);
                }
                Item::Macro(_) => self.add(path, format!("macro {full}!"), &outer),
                item => {
                    let line = print::definition(item, &full).unwrap_or_else(|| panic!("{full} cannot be printed"));
                    self.add(path, line, &outer);
                }
            }
            self.members(path, item, &outer);
            if is_type {
                self.implemented(path, item, &outer, impls.traits.get(definition).map_or(&[], Vec::as_slice));
                let inherent = impls.inherent.get(definition).map_or(&[][..], Vec::as_slice);
                self.methods(path, item, &outer, inherent);
            }
        }
    }

    /// Adds fields, variants and items of a trait.
    fn members(&mut self, path: &[String], item: &Item, outer: &Conditions) {
        let full = path.join("::");
        let own = |attrs: &[Attribute]| &joined(&BTreeSet::new(), attrs) - outer;
        match item {
            Item::Struct(item) => {
                let Fields::Named(fields) = &item.fields else { return };
                for field in fields.named.iter().filter(|field| is_reachable(&field.vis)) {
                    let name = field.ident.as_ref().expect("a name");
                    self.add(path, format!("pub {full}.{name}: {}", print::type_(&field.ty)), &own(&field.attrs));
                }
            }
            Item::Enum(item) => {
                for variant in &item.variants {
                    self.add(path, format!("{full}::{}", print::variant(variant)), &own(&variant.attrs));
                }
            }
            Item::Trait(item) => {
                for member in &item.items {
                    match member {
                        TraitItem::Fn(method) => {
                            let is_hidden = own(&method.attrs).contains(HIDDEN) || outer.contains(HIDDEN);
                            self.functions += usize::from(!is_hidden);
                            let name = format!("{full}::{}", method.sig.ident);
                            let mut line = print::function(Visibility::Inherited, &method.sig, &name, Vec::new());
                            line += if method.default.is_some() { " { .. }" } else { "" };
                            self.add(path, line, &own(&method.attrs));
                        }
                        TraitItem::Type(member) => {
                            self.add(path, format!("type {full}::{}", member.ident), &own(&member.attrs));
                        }
                        TraitItem::Const(member) => {
                            let line = format!("const {full}::{}: {}", member.ident, print::type_(&member.ty));
                            self.add(path, line, &own(&member.attrs));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds derived traits and implementations: one line for all traits without arguments and associated types.
    fn implemented(&mut self, path: &[String], item: &Item, outer: &Conditions, impls: &[Implementation<'_>]) {
        let full = path.join("::");
        let mut short: BTreeMap<Conditions, Conditions> = BTreeMap::new();
        for (name, conditions) in derives(attributes_of(item)) {
            short.entry(&conditions - outer).or_default().insert(name);
        }
        let mut long: BTreeSet<_> = conversions(item)
            .into_iter()
            .map(|(ty, conditions)| (format!("impl From<{ty}> for {full}"), &conditions - outer))
            .collect();
        for Implementation { block, conditions, is_of_item } in impls {
            let conditions = conditions - outer;
            if !is_of_item {
                long.insert((print::implementation(block), conditions));
                continue;
            }
            let name = trait_name(block);
            if name.contains('<') {
                long.insert((format!("impl {name} for {full}"), conditions));
            } else {
                short.entry(conditions).or_default().insert(name);
            }
        }
        for (conditions, names) in short {
            let names = names.into_iter().collect::<Vec<_>>().join(" + ");
            self.add(path, format!("impl {names} for {full}"), &conditions);
        }
        for (line, conditions) in long {
            self.add(path, line, &conditions);
        }
    }

    /// Adds inherent methods and constants.
    fn methods(&mut self, path: &[String], item: &Item, outer: &Conditions, impls: &[Implementation<'_>]) {
        let full = path.join("::");
        let known = match item {
            Item::Enum(item) => bounds(&item.generics),
            Item::Struct(item) => bounds(&item.generics),
            _ => Vec::new(),
        };
        let known: Conditions = known.iter().map(|bound| bound.to_token_stream().to_string()).collect();
        let mut lines = BTreeSet::new();
        for Implementation { block, conditions, .. } in impls {
            let more = bounds(&block.generics).into_iter();
            let more: Vec<_> = more.filter(|bound| !known.contains(&bound.to_token_stream().to_string())).collect();
            for member in &block.items {
                match member {
                    ImplItem::Fn(method) if is_reachable(&method.vis) => {
                        let conditions = &joined(conditions, &method.attrs) - outer;
                        let is_hidden = conditions.contains(HIDDEN) || outer.contains(HIDDEN);
                        self.functions += usize::from(!is_hidden);
                        let name = method.sig.ident.to_string();
                        let path = format!("{full}::{name}");
                        let line = print::function(method.vis.clone(), &method.sig, &path, more.clone());
                        lines.insert((name, line, conditions));
                    }
                    ImplItem::Const(member) if is_reachable(&member.vis) => {
                        let conditions = &joined(conditions, &member.attrs) - outer;
                        let name = member.ident.to_string();
                        let line = format!("pub const {full}::{name}: {}", print::type_(&member.ty));
                        lines.insert((name, line, conditions));
                    }
                    _ => {}
                }
            }
        }
        for (_, line, conditions) in lines {
            self.add(path, line, &conditions);
        }
    }
}

/// Returns the name of the trait of an `impl` block with its arguments and associated types.
fn trait_name(block: &ItemImpl) -> String {
    let Some((_, path, _)) = &block.trait_ else { return String::new() };
    let mut segment = path.segments.last().expect("a name").clone();
    if let PathArguments::AngleBracketed(arguments) = &segment.arguments
        && arguments.args.iter().all(|argument| matches!(argument, GenericArgument::Lifetime(_)))
    {
        segment.arguments = PathArguments::None;
    }
    // Results of handlers are internal types; the reply is the result of the message.
    if segment.ident != "Handler" {
        let types = block.items.iter().filter_map(|item| match item {
            ImplItem::Type(item) => Some(item),
            _ => None,
        });
        for item in types {
            let (name, ty) = (&item.ident, &item.ty);
            match &mut segment.arguments {
                PathArguments::AngleBracketed(arguments) => arguments.args.push(syn::parse_quote!(#name = #ty)),
                arguments => *arguments = PathArguments::AngleBracketed(syn::parse_quote!(<#name = #ty>)),
            }
        }
    }
    print::type_(&syn::parse_quote!(#segment))
}

/// Returns the sources of errors with `#[from]`, for which `thiserror` implements `From`.
fn conversions(item: &Item) -> Vec<(String, Conditions)> {
    let fields: Vec<&Field> = match item {
        Item::Enum(item) => item.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Item::Struct(item) => item.fields.iter().collect(),
        _ => return Vec::new(),
    };
    let sources =
        fields.into_iter().filter(|field| field.attrs.iter().any(|attribute| attribute.path().is_ident("from")));
    sources.map(|field| (print::type_(&field.ty), joined(&Conditions::new(), &field.attrs))).collect()
}

/// Returns the derived traits, with the conditions of `cfg_attr`.
fn derives(attributes: &[Attribute]) -> Vec<(String, Conditions)> {
    let mut derived = Vec::new();
    let mut add = |meta: &Meta, conditions: &Conditions| {
        if let (true, Ok(list)) = (meta.path().is_ident("derive"), meta.require_list()) {
            let parse = Punctuated::<syn::Path, Token![,]>::parse_terminated;
            for path in list.parse_args_with(parse).expect("traits") {
                let name = path.segments.last().expect("a name").ident.to_string();
                // `thiserror` implements both.
                if name == "Error" {
                    derived.push(("Display".to_owned(), conditions.clone()));
                }
                derived.push((name, conditions.clone()));
            }
        }
    };
    for attribute in attributes {
        match &attribute.meta {
            Meta::List(list) if list.path.is_ident("cfg_attr") => {
                let metas = arguments(list);
                let mut conditions = BTreeSet::new();
                describe(&metas[0], &mut conditions);
                metas[1..].iter().for_each(|meta| add(meta, &conditions));
            }
            meta => add(meta, &BTreeSet::new()),
        }
    }
    derived
}

/// Returns all bounds as predicates of a `where` clause.
fn bounds(generics: &syn::Generics) -> Vec<WherePredicate> {
    let inline = generics.type_params().filter(|parameter| !parameter.bounds.is_empty()).map(|parameter| {
        let (name, bounds) = (&parameter.ident, &parameter.bounds);
        syn::parse_quote!(#name: #bounds)
    });
    let clause = generics.where_clause.iter().flat_map(|clause| clause.predicates.iter().cloned());
    inline.chain(clause).collect()
}
