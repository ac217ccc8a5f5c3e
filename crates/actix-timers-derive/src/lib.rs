//! The derive macros of [`actix-timers`](https://docs.rs/actix-timers) and
//! [`actix-timers-durable`](https://docs.rs/actix-timers-durable), which re-export them.

mod durable;

use proc_macro::TokenStream;
use proc_macro2::{TokenStream as Tokens, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, Member, Path, parse_macro_input, parse_quote};

/// Makes a struct or an enum a key of timers; see `actix_timers::TimerKey`.
///
/// `#[timer_key(crate = path)]` names the library, if the dependency has another name than `actix-timers`.
#[proc_macro_derive(TimerKey, attributes(timer_key))]
pub fn derive_timer_key(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a type a message of durable timers; see `actix_timers_durable::DurableMessage`.
///
/// `#[durable("name", crate = path)]` names the library, if the dependency has another name than `actix-timers-durable`.
#[proc_macro_derive(DurableMessage, attributes(durable))]
pub fn derive_durable_message(input: TokenStream) -> TokenStream {
    durable::expand(parse_macro_input!(input as DeriveInput)).unwrap_or_else(Error::into_compile_error).into()
}

/// Whether tokens contain one of these names.
fn names_one_of(names: &[Ident], tokens: Tokens) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(name) => names.contains(&name),
        TokenTree::Group(group) => names_one_of(names, group.stream()),
        _ => false,
    })
}

/// Returns the conversions of the type, owned and borrowed, into a key.
fn expand(mut input: DeriveInput) -> syn::Result<Tokens> {
    let mut library: Path = parse_quote!(::actix_timers);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("timer_key")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("`crate = path` is known"));
            }
            library = Path::parse_mod_style(meta.value()?)?;
            Ok(())
        })?;
    }
    let name = &input.ident;
    let variants: Vec<(Tokens, String, &Fields)> = match &input.data {
        Data::Struct(data) => vec![(quote!(#name), name.unraw().to_string(), &data.fields)],
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|variant| {
                let of_variant = &variant.ident;
                (quote!(#name::#of_variant), format!("{}::{}", name.unraw(), of_variant.unraw()), &variant.fields)
            })
            .collect(),
        Data::Union(_) => {
            return Err(Error::new_spanned(name, "a union cannot be the key of a timer: use an enum or a struct"));
        }
    };
    if variants.is_empty() {
        return Err(Error::new_spanned(name, "an enum without variants cannot be the key of a timer"));
    }
    let arms = variants.iter().map(|(path, name, fields)| arm(&library, path, name, fields));
    // The fields are keys, not the parameters. Bounds of types that differ in a lifetime would be ambiguous.
    let parameters: Vec<Ident> = input.generics.type_params().map(|parameter| parameter.ident.clone()).collect();
    for Field { ty, .. } in variants.iter().flat_map(|(.., fields)| fields.iter()) {
        if names_one_of(&parameters, quote!(#ty)) {
            let is_key = parse_quote!(#ty: ::core::clone::Clone + ::core::convert::Into<#library::TimerKey>);
            input.generics.make_where_clause().predicates.push(is_key);
        }
    }
    let (parameters, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        #[allow(deprecated)]
        impl #parameters #library::__private::ToKey for #name #arguments #bounds {
            fn to_key(&self) -> #library::TimerKey {
                match self { #(#arms)* }
            }
        }

        #[automatically_derived]
        #[allow(deprecated)]
        impl #parameters ::core::convert::From<#name #arguments> for #library::TimerKey #bounds {
            fn from(key: #name #arguments) -> Self {
                #library::__private::ToKey::to_key(&key)
            }
        }
    })
}

/// Returns the match arm that makes a key of a name and some fields.
fn arm(library: &Path, path: &Tokens, name: &str, fields: &Fields) -> Tokens {
    let members: Vec<Member> = fields.members().collect();
    let values: Vec<Ident> = (0..members.len()).map(|number| format_ident!("field_{number}")).collect();
    // A type that is no key is reported at its field.
    let keys = fields.iter().zip(&values).map(|(field, value)| {
        quote_spanned!(field.ty.span()=> ::core::convert::Into::<#library::TimerKey>::into(::core::clone::Clone::clone(#value)))
    });
    quote! {
        #path { #(#members: #values),* } => #library::__private::derived_key(#name, [#(#keys),*]),
    }
}
