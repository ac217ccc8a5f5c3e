//! Items on one line each, without bodies.

use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Fields, FnArg, Item, ItemEnum, ItemFn, ItemImpl, ItemType, Pat, Signature, Token, Type, Visibility, parse_quote,
};

/// Prints an item on one line.
fn line(item: Item) -> String {
    let text = prettyplease::unparse(&syn::File { shebang: None, attrs: Vec::new(), items: vec![item] });
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // The rest of line breaks inside brackets.
    for (broken, whole) in
        [("( ", "("), (", )", ")"), (" )", ")"), ("< ", "<"), (", >", ">"), ("[ ", "["), (", ]", "]")]
    {
        line = line.replace(broken, whole);
    }
    for end in [" {}", "{}", ";", ","] {
        line.truncate(line.strip_suffix(end).unwrap_or(&line).len());
    }
    line
}

/// Prints a function under a path. `bounds` are conditions in addition to its own.
pub(crate) fn function(vis: Visibility, sig: &Signature, path: &str, bounds: Vec<syn::WherePredicate>) -> String {
    let mut sig = sig.clone();
    Patterns.visit_signature_mut(&mut sig);
    if !bounds.is_empty() {
        sig.generics.make_where_clause().predicates.extend(bounds);
    }
    let name = format!("fn {}", sig.ident);
    let item = ItemFn { attrs: Vec::new(), vis, sig, block: parse_quote!({}) };
    line(Item::Fn(item)).replacen(&name, &format!("fn {path}"), 1)
}

/// Removes the names that a function gives its arguments internally.
struct Patterns;

impl VisitMut for Patterns {
    fn visit_fn_arg_mut(&mut self, argument: &mut FnArg) {
        match argument {
            FnArg::Receiver(receiver) if receiver.reference.is_none() => receiver.mutability = None,
            FnArg::Receiver(_) => {}
            FnArg::Typed(argument) => match &mut *argument.pat {
                Pat::Ident(ident) => ident.mutability = None,
                pattern => *pattern = parse_quote!(_),
            },
        }
        visit_mut::visit_fn_arg_mut(self, argument);
    }
}

/// Prints the first line of a definition under a path: a type without fields and variants, a trait without items, a
/// constant without its value, or an alias.
pub(crate) fn definition(item: &Item, path: &str) -> Option<String> {
    let mut item = item.clone();
    let (keyword, name, attrs, mut end) = match &mut item {
        Item::Const(item) => {
            *item.expr = parse_quote!(_);
            ("const", &item.ident, &mut item.attrs, "")
        }
        Item::Enum(item) => {
            item.variants.clear();
            ("enum", &item.ident, &mut item.attrs, "")
        }
        Item::Static(item) => {
            *item.expr = parse_quote!(_);
            ("static", &item.ident, &mut item.attrs, "")
        }
        Item::Struct(item) => {
            let is_private = |field: &syn::Field| !matches!(field.vis, Visibility::Public(_));
            let mut end = "";
            match &mut item.fields {
                Fields::Named(fields) if fields.named.iter().any(is_private) => end = " { .. }",
                Fields::Unnamed(fields) => {
                    for field in &mut fields.unnamed {
                        field.attrs.clear();
                        if is_private(field) {
                            field.vis = Visibility::Inherited;
                            field.ty = parse_quote!(_);
                        }
                    }
                }
                _ => {}
            }
            if matches!(item.fields, Fields::Named(_)) {
                item.fields = Fields::Unit;
                item.semi_token = Some(<Token![;]>::default());
            }
            ("struct", &item.ident, &mut item.attrs, end)
        }
        Item::Trait(item) => {
            item.items.clear();
            ("trait", &item.ident, &mut item.attrs, "")
        }
        Item::Type(item) => ("type", &item.ident, &mut item.attrs, ""),
        _ => return None,
    };
    if matches!(keyword, "enum" | "struct") && attrs.iter().any(|attribute| attribute.path().is_ident("non_exhaustive"))
    {
        end = " #[non_exhaustive]";
    }
    attrs.clear();
    let name = format!("{keyword} {name}");
    let printed = line(item).replacen(&name, &format!("{keyword} {path}"), 1);
    Some(printed.strip_suffix(" = _").unwrap_or(&printed).to_owned() + end)
}

/// Prints a type.
pub(crate) fn type_(ty: &Type) -> String {
    let alias: ItemType = parse_quote!(type T = #ty;);
    line(Item::Type(alias)).replacen("type T = ", "", 1)
}

/// Prints a variant.
pub(crate) fn variant(variant: &syn::Variant) -> String {
    let mut variant = variant.clone();
    variant.attrs.clear();
    variant.fields.iter_mut().for_each(|field| field.attrs.clear());
    let name = variant.ident.to_string();
    let mut item: ItemEnum = parse_quote!(
        enum E {}
    );
    item.variants = Punctuated::from_iter([variant]);
    let printed = line(Item::Enum(item));
    let variant = printed.split_once(&name).map_or("", |(_, fields)| fields).trim_end_matches([' ', '}', ',']);
    let end = if variant.contains(" {") { " }" } else { "" };
    format!("{name}{variant}{end}")
}

/// Prints the first line of an implementation.
pub(crate) fn implementation(block: &ItemImpl) -> String {
    let mut block = block.clone();
    block.attrs.clear();
    block.items.clear();
    line(Item::Impl(block))
}
