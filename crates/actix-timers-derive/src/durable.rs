//! `#[derive(DurableMessage)]`.

use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{DeriveInput, Error, Ident, LitInt, LitStr, Path, Token, parse_quote};

/// The arguments of `#[durable(..)]`.
#[derive(Default)]
struct Arguments {
    name: Option<LitStr>,
    version: Option<LitInt>,
    aliases: Vec<LitStr>,
    library: Option<Path>,
}

impl Arguments {
    fn parse(&mut self, stream: ParseStream<'_>) -> syn::Result<()> {
        while !stream.is_empty() {
            if stream.peek(LitStr) {
                once(&mut self.name, stream.parse()?)?;
            } else {
                let name = Ident::parse_any(stream)?;
                stream.parse::<Token![=]>()?;
                match name.to_string().as_str() {
                    "version" => once(&mut self.version, stream.parse()?)?,
                    "alias" => self.aliases.push(stream.parse()?),
                    "crate" => once(&mut self.library, Path::parse_mod_style(stream)?)?,
                    _ => {
                        let known = "`version = 2`, `alias = \"former name\"` and `crate = path` are known";
                        return Err(Error::new(name.span(), known));
                    }
                }
            }
            if !stream.is_empty() {
                stream.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }
}

fn once<T: ToTokens>(argument: &mut Option<T>, value: T) -> syn::Result<()> {
    if argument.is_some() {
        return Err(Error::new_spanned(value, "a message has one name, one version and one crate"));
    }
    *argument = Some(value);
    Ok(())
}

/// Returns the implementation of `DurableMessage`, with its default encoding.
pub(crate) fn expand(input: DeriveInput) -> syn::Result<Tokens> {
    let mut arguments = Arguments::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("durable")) {
        attribute.parse_args_with(|stream: ParseStream<'_>| arguments.parse(stream))?;
    }
    let Arguments { name, version, aliases, library } = arguments;
    let missing = || Error::new_spanned(&input.ident, "its name in the store is missing: `#[durable(\"remind\")]`");
    let name = name.ok_or_else(missing)?;
    let version = version.map(|version| quote!(const VERSION: u32 = #version;));
    let library = library.unwrap_or_else(|| parse_quote!(::actix_timers_durable));
    let of = &input.ident;
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "one name in the store cannot stand for several types"));
    }
    Ok(quote! {
        #[automatically_derived]
        #[allow(deprecated)]
        impl #library::DurableMessage for #of {
            const NAME: &'static str = #name;
            #version
            const ALIASES: &'static [&'static str] = &[#(#aliases),*];
        }
    })
}
