//! `#[derive(DurableMessage)]`.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{DeriveInput, Error, LitInt, LitStr, Token};

/// The arguments of `#[durable(..)]`.
#[derive(Default)]
struct Arguments {
    name: Option<LitStr>,
    version: Option<LitInt>,
    aliases: Vec<LitStr>,
}

/// Returns the implementation of `DurableMessage`, with its default encoding.
pub(crate) fn expand(input: DeriveInput) -> syn::Result<Tokens> {
    let mut arguments = Arguments::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("durable")) {
        attribute.parse_args_with(|stream: syn::parse::ParseStream<'_>| {
            if stream.peek(LitStr) {
                arguments.name = Some(stream.parse()?);
                stream.parse::<Option<Token![,]>>()?;
            }
            while !stream.is_empty() {
                let name: syn::Ident = stream.parse()?;
                stream.parse::<Token![=]>()?;
                match name.to_string().as_str() {
                    "version" => arguments.version = Some(stream.parse()?),
                    "alias" => arguments.aliases.push(stream.parse()?),
                    _ => return Err(Error::new(name.span(), "`version = 2` and `alias = \"former name\"` are known")),
                }
                stream.parse::<Option<Token![,]>>()?;
            }
            Ok(())
        })?;
    }
    let Arguments { name, version, aliases } = arguments;
    let missing = || Error::new_spanned(&input.ident, "its name in the store is missing: `#[durable(\"remind\")]`");
    let name = name.ok_or_else(missing)?;
    let version = version.map(|version| quote!(const VERSION: u32 = #version;));
    let of = &input.ident;
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "one name in the store cannot stand for several types"));
    }
    Ok(quote! {
        impl ::actix_timers_durable::DurableMessage for #of {
            const NAME: &'static str = #name;
            #version
            const ALIASES: &'static [&'static str] = &[#(#aliases),*];
        }
    })
}
