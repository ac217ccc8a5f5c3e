//! Items on one line each, without bodies.

use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Fields, FnArg, Item, ItemEnum, ItemFn, ItemImpl, ItemType, Pat, Signature, Token, Type, Visibility,
    parse_quote,
};

use crate::names::ident_of;
use crate::source::attributes_of;

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

/// Removes all attributes.
struct Plain;

impl VisitMut for Plain {
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        attributes.clear();
    }
}

/// Prints the first line of a definition under a path: a type without fields and variants, a trait without items, a
/// constant without its value, or an alias.
pub(crate) fn definition(item: &Item, path: &str) -> Option<String> {
    let name = format!(" {}", ident_of(item)?);
    let may_grow = attributes_of(item).iter().any(|attribute| attribute.path().is_ident("non_exhaustive"));
    let mut end = if may_grow { " #[non_exhaustive]" } else { "" };
    let mut item = item.clone();
    Plain.visit_item_mut(&mut item);
    match &mut item {
        Item::Const(item) => *item.expr = parse_quote!(_),
        Item::Enum(item) => item.variants.clear(),
        Item::Static(item) => *item.expr = parse_quote!(_),
        Item::Struct(item) => {
            let is_private = |field: &syn::Field| !matches!(field.vis, Visibility::Public(_));
            match &mut item.fields {
                Fields::Named(fields) => {
                    if end.is_empty() && fields.named.iter().any(is_private) {
                        end = " { .. }";
                    }
                    item.fields = Fields::Unit;
                    item.semi_token = Some(<Token![;]>::default());
                }
                Fields::Unnamed(fields) => {
                    for field in fields.unnamed.iter_mut().filter(|field| is_private(field)) {
                        field.vis = Visibility::Inherited;
                        field.ty = parse_quote!(_);
                    }
                }
                Fields::Unit => {}
            }
        }
        Item::Trait(item) => item.items.clear(),
        Item::Type(_) => {}
        _ => return None,
    }
    let printed = line(item).replacen(&name, &format!(" {path}"), 1);
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
    Plain.visit_variant_mut(&mut variant);
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
