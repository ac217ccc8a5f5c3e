//! The derive macros of [`actix-timers`](https://docs.rs/actix-timers) and
//! [`actix-timers-durable`](https://docs.rs/actix-timers-durable), which re-export them.

mod durable;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Fields, Ident, Member, parse_macro_input, parse_quote};

/// Makes a struct or an enum a key of timers; see `actix_timers::TimerKey`.
#[proc_macro_derive(TimerKey)]
pub fn derive_timer_key(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a type a message of durable timers; see `actix_timers_durable::DurableMessage`.
#[proc_macro_derive(DurableMessage, attributes(durable))]
pub fn derive_durable_message(input: TokenStream) -> TokenStream {
    durable::expand(parse_macro_input!(input as DeriveInput)).unwrap_or_else(Error::into_compile_error).into()
}

/// Returns the conversions of the type, owned and borrowed, into a key.
fn expand(mut input: DeriveInput) -> syn::Result<Tokens> {
    let name = &input.ident;
    let arms: Vec<Tokens> = match &input.data {
        Data::Struct(data) => vec![arm(&quote!(#name), &name.unraw().to_string(), &data.fields)],
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|variant| {
                let of_variant = &variant.ident;
                arm(&quote!(#name::#of_variant), &format!("{}::{}", name.unraw(), of_variant.unraw()), &variant.fields)
            })
            .collect(),
        Data::Union(_) => {
            return Err(Error::new_spanned(name, "a union cannot be the key of a timer: use an enum or a struct"));
        }
    };
    if arms.is_empty() {
        return Err(Error::new_spanned(name, "an enum without variants cannot be the key of a timer"));
    }
    for parameter in input.generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::core::clone::Clone));
        parameter.bounds.push(parse_quote!(::core::convert::Into<::actix_timers::TimerKey>));
    }
    let (parameters, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        impl #parameters ::actix_timers::__private::ToKey for #name #arguments #bounds {
            fn to_key(&self) -> ::actix_timers::TimerKey {
                match self { #(#arms)* }
            }
        }

        impl #parameters ::core::convert::From<#name #arguments> for ::actix_timers::TimerKey #bounds {
            fn from(key: #name #arguments) -> Self {
                ::actix_timers::__private::ToKey::to_key(&key)
            }
        }
    })
}

/// Returns the match arm that makes a key of a name and some fields.
fn arm(path: &Tokens, name: &str, fields: &Fields) -> Tokens {
    let members: Vec<Member> = fields.members().collect();
    let values: Vec<Ident> = (0..members.len()).map(|number| format_ident!("field_{number}")).collect();
    quote! {
        #path { #(#members: #values),* } => ::actix_timers::__private::derived_key(
            #name,
            [#(::core::convert::Into::<::actix_timers::TimerKey>::into(::core::clone::Clone::clone(#values))),*],
        ),
    }
}
