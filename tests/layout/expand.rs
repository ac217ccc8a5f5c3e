//! Macros by example, expanded: those with one arm, for items, that are defined in the file of their use.

use std::collections::{BTreeMap, HashMap};

use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseBuffer, ParseStream, Parser};
use syn::{Error, Expr, Ident, Item, ItemMacro, Lit, Meta, Result, Type, parse2};

/// Replaces each use of a macro of the same list by the generated items. Uses of other macros stay.
pub(crate) fn all(items: Vec<Item>) -> Vec<Item> {
    let mut macros = HashMap::new();
    for item in &items {
        if let Item::Macro(ItemMacro { ident: Some(name), mac, .. }) = item {
            macros.insert(name.clone(), mac.tokens.clone());
        }
    }
    let expanded = items.into_iter().flat_map(|item| {
        if let Item::Macro(ItemMacro { attrs, mac, .. }) = &item
            && let Some(name) = mac.path.get_ident()
            && let Some(rules) = macros.get(name)
        {
            let generated = expand(rules.clone(), mac.tokens.clone());
            // The macro's use may depend on a feature.
            let items = generated.and_then(|items| items.iter().map(|one| parse2(quote!(#(#attrs)* #one))).collect());
            return items.unwrap_or_else(|error| panic!("`{name}!` is beyond this expansion of macros: {error}"));
        }
        vec![item]
    });
    expanded.collect()
}

/// The tokens of a fragment, once or for each repetition.
#[derive(Clone)]
enum Binding {
    Once(TokenStream),
    Each(Vec<TokenStream>),
}

type Bindings = BTreeMap<String, Binding>;

fn expand(rules: TokenStream, input: TokenStream) -> Result<Vec<Item>> {
    let rules: Vec<_> = rules.into_iter().filter_map(|token| Some(group_of(&token)?.stream())).collect();
    let [left, right] = rules.as_slice() else { return Err(Error::new(Span::call_site(), "more than one rule")) };
    let mut bindings = Bindings::new();
    (|input: ParseStream<'_>| bind(left, input, &mut bindings)).parse2(input)?;
    Ok(parse2::<syn::File>(transcribe(right.clone(), &bindings)?)?.items)
}

fn group_of(token: &TokenTree) -> Option<&Group> {
    if let TokenTree::Group(group) = token { Some(group) } else { None }
}

fn is_punct(token: Option<&TokenTree>, expected: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == expected)
}

/// Takes the rest of a repetition: the separator, if there is one, and the operator.
fn separator_of(tokens: &mut IntoIter) -> Option<TokenTree> {
    let first = tokens.next();
    if is_punct(first.as_ref(), '*') || is_punct(first.as_ref(), '+') {
        return None;
    }
    tokens.next();
    first
}

/// Matches the input with the left side of a rule.
fn bind(left: &TokenStream, input: ParseStream<'_>, bindings: &mut Bindings) -> Result<()> {
    let mut tokens = left.clone().into_iter();
    while let Some(token) = tokens.next() {
        if !is_punct(Some(&token), '$') {
            match_token(&token, input, bindings)?;
            continue;
        }
        match tokens.next() {
            // `$name:kind`
            Some(TokenTree::Ident(name)) => {
                let kind = tokens.nth(1).map(|kind| kind.to_string()).unwrap_or_default();
                let tokens = match kind.as_str() {
                    "ident" => Ident::parse_any(input)?.to_token_stream(),
                    "literal" => input.parse::<Lit>()?.to_token_stream(),
                    "ty" => input.parse::<Type>()?.to_token_stream(),
                    "expr" => input.parse::<Expr>()?.to_token_stream(),
                    "meta" => input.parse::<Meta>()?.to_token_stream(),
                    "tt" => input.parse::<TokenTree>()?.to_token_stream(),
                    kind => return Err(input.error(format!("fragments `{kind}` are not supported"))),
                };
                bindings.insert(name.to_string(), Binding::Once(tokens));
            }
            // `$( ... ) separator *` ends with its input, or at another token than its first.
            Some(TokenTree::Group(inner)) => {
                let separator = separator_of(&mut tokens);
                let first = inner.stream().into_iter().next().filter(|first| !is_punct(Some(first), '$'));
                let begins = |input: &ParseBuffer<'_>| {
                    first.as_ref().is_none_or(|first| match_token(first, input, &mut Bindings::new()).is_ok())
                };
                while !input.is_empty() && begins(&input.fork()) {
                    let mut once = Bindings::new();
                    bind(&inner.stream(), input, &mut once)?;
                    for (name, binding) in once {
                        match (binding, bindings.entry(name).or_insert_with(|| Binding::Each(Vec::new()))) {
                            (Binding::Once(tokens), Binding::Each(all)) => all.push(tokens),
                            _ => return Err(input.error("nested repetitions are not supported")),
                        }
                    }
                    if let (Some(separator), false) = (&separator, input.is_empty()) {
                        match_token(separator, input, bindings)?;
                    }
                }
            }
            _ => return Err(Error::new(token.span(), "no pattern")),
        }
    }
    Ok(())
}

/// Takes a token of the input that is equal to one of the rule, or a group that matches.
fn match_token(expected: &TokenTree, input: ParseStream<'_>, bindings: &mut Bindings) -> Result<()> {
    let token: TokenTree = input.parse()?;
    match (group_of(expected), group_of(&token)) {
        (Some(left), Some(group)) if left.delimiter() == group.delimiter() => {
            (|input: ParseStream<'_>| bind(&left.stream(), input, bindings)).parse2(group.stream())
        }
        (None, None) if token.to_string() == expected.to_string() => Ok(()),
        _ => Err(Error::new(token.span(), format!("expected `{expected}`"))),
    }
}

fn transcribe(tokens: TokenStream, bindings: &Bindings) -> Result<TokenStream> {
    let mut output = TokenStream::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        if !is_punct(Some(&token), '$') {
            output.extend([match token {
                TokenTree::Group(group) => {
                    TokenTree::Group(Group::new(group.delimiter(), transcribe(group.stream(), bindings)?))
                }
                token => token,
            }]);
            continue;
        }
        match tokens.next() {
            Some(TokenTree::Ident(name)) if name == "crate" => output.extend([TokenTree::Ident(name)]),
            Some(TokenTree::Ident(name)) => match bindings.get(&name.to_string()) {
                Some(Binding::Once(tokens)) => output.extend(tokens.clone()),
                _ => return Err(Error::new(name.span(), format!("`${name}` is not bound here"))),
            },
            Some(TokenTree::Group(group)) => {
                let separator = separator_of(&mut tokens);
                output.extend(transcribe_each(&group, separator.as_ref(), bindings)?);
            }
            _ => return Err(Error::new(token.span(), "no transcription")),
        }
    }
    Ok(output)
}

fn transcribe_each(group: &Group, separator: Option<&TokenTree>, bindings: &Bindings) -> Result<TokenStream> {
    let text = group.stream().to_string();
    let used = |name: &String| text.contains(&format!("${name}")) || text.contains(&format!("$ {name}"));
    let times = bindings.iter().filter(|(name, _)| used(name)).find_map(|(_, binding)| match binding {
        Binding::Each(all) => Some(all.len()),
        Binding::Once(_) => None,
    });
    let mut output = TokenStream::new();
    for round in 0..times.unwrap_or_default() {
        let one = bindings.iter().filter_map(|(name, binding)| match binding {
            Binding::Each(all) => Some((name.clone(), Binding::Once(all.get(round)?.clone()))),
            Binding::Once(_) => Some((name.clone(), binding.clone())),
        });
        if round > 0 {
            output.extend(separator.cloned());
        }
        output.extend(transcribe(group.stream(), &one.collect())?);
    }
    Ok(output)
}
