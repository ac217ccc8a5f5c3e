//! Macros by example, expanded: those with one arm, for items, that are defined in the file of their use.

use std::collections::{BTreeMap, HashMap};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Error, Expr, Ident, Item, Lit, Meta, Result, Type, braced, bracketed, parenthesized};

/// Replaces each use of a macro of the same list by the generated items. Uses of other macros stay.
pub(crate) fn all(items: Vec<Item>) -> Vec<Item> {
    let mut macros = HashMap::new();
    for item in &items {
        if let Item::Macro(item) = item
            && let Some(name) = &item.ident
        {
            macros.insert(name.to_string(), item.mac.tokens.clone());
        }
    }
    let expanded = items.into_iter().flat_map(|item| {
        if let Item::Macro(item) = &item
            && let Some(name) = item.mac.path.get_ident()
            && let Some(rules) = macros.get(&name.to_string())
        {
            return expand(rules.clone(), item.mac.tokens.clone())
                .and_then(|expanded| expanded.into_iter().map(|one| with_attributes(&item.attrs, &one)).collect())
                .unwrap_or_else(|error| panic!("`{name}!` is beyond this expansion of macros: {error}"));
        }
        vec![item]
    });
    expanded.collect()
}

/// Returns a generated item with the attributes of the macro's use: it may depend on a feature.
fn with_attributes(attributes: &[Attribute], item: &Item) -> Result<Item> {
    let mut tokens = TokenStream::new();
    attributes.iter().for_each(|attribute| attribute.to_tokens(&mut tokens));
    item.to_tokens(&mut tokens);
    syn::parse2(tokens)
}

/// A part of the left side of a rule.
enum Pattern {
    /// `$name:kind`
    Fragment(String, String),
    /// `$( ... ) separator *`
    Repetition(Vec<Pattern>, Option<TokenTree>),
    Group(Delimiter, Vec<Pattern>),
    Token(TokenTree),
}

/// The tokens of a fragment, once or for each repetition.
#[derive(Clone)]
enum Binding {
    Once(TokenStream),
    Each(Vec<TokenStream>),
}

type Bindings = BTreeMap<String, Binding>;

fn expand(rules: TokenStream, input: TokenStream) -> Result<Vec<Item>> {
    let mut groups = Vec::new();
    for token in rules {
        match token {
            TokenTree::Group(group) => groups.push(group.stream()),
            TokenTree::Punct(_) => {}
            other => return Err(Error::new(other.span(), "unexpected")),
        }
    }
    let [left, right] = groups.as_slice() else {
        return Err(Error::new(
            input.into_iter().next().map_or_else(proc_macro2::Span::call_site, |t| t.span()),
            "more than one rule",
        ));
    };
    let patterns = patterns(left.clone())?;
    let matching = |input: ParseStream<'_>| {
        let mut bindings = Bindings::new();
        match_all(&patterns, input, &mut bindings)?;
        Ok(bindings)
    };
    let bindings = matching.parse2(input)?;
    Ok(syn::parse2::<syn::File>(transcribe(right.clone(), &bindings)?)?.items)
}

fn is_punct(token: Option<&TokenTree>, expected: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == expected)
}

fn is_repeat_operator(token: Option<&TokenTree>) -> bool {
    is_punct(token, '*') || is_punct(token, '+')
}

fn patterns(tokens: TokenStream) -> Result<Vec<Pattern>> {
    let mut patterns = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if !is_punct(Some(&token), '$') {
            patterns.push(match token {
                TokenTree::Group(group) => Pattern::Group(group.delimiter(), self::patterns(group.stream())?),
                token => Pattern::Token(token),
            });
            continue;
        }
        match tokens.next() {
            Some(TokenTree::Ident(name)) => {
                tokens.next();
                let kind = tokens.next().map(|kind| kind.to_string());
                patterns.push(Pattern::Fragment(name.to_string(), kind.unwrap_or_default()));
            }
            Some(TokenTree::Group(group)) => {
                let separator = if is_repeat_operator(tokens.peek()) { None } else { tokens.next() };
                tokens.next();
                patterns.push(Pattern::Repetition(self::patterns(group.stream())?, separator));
            }
            _ => return Err(Error::new(token.span(), "no pattern")),
        }
    }
    Ok(patterns)
}

fn match_all(patterns: &[Pattern], input: ParseStream<'_>, bindings: &mut Bindings) -> Result<()> {
    for pattern in patterns {
        match pattern {
            Pattern::Fragment(name, kind) => {
                let tokens = match kind.as_str() {
                    "ident" => Ident::parse_any(input)?.to_token_stream(),
                    "literal" => input.parse::<Lit>()?.to_token_stream(),
                    "ty" => input.parse::<Type>()?.to_token_stream(),
                    "expr" => input.parse::<Expr>()?.to_token_stream(),
                    "meta" => input.parse::<Meta>()?.to_token_stream(),
                    "tt" => input.parse::<TokenTree>()?.to_token_stream(),
                    kind => return Err(input.error(format!("fragments `{kind}` are not supported"))),
                };
                bindings.insert(name.clone(), Binding::Once(tokens));
            }
            Pattern::Group(delimiter, inner) => {
                let content;
                match delimiter {
                    Delimiter::Parenthesis => _ = parenthesized!(content in input),
                    Delimiter::Brace => _ = braced!(content in input),
                    _ => _ = bracketed!(content in input),
                }
                match_all(inner, &content, bindings)?;
            }
            // A repetition ends with its input, or at another token than its first.
            Pattern::Repetition(inner, separator) => {
                while !input.is_empty() && may_begin(inner, input) {
                    let mut once = Bindings::new();
                    match_all(inner, input, &mut once)?;
                    for (name, binding) in once {
                        let Binding::Once(tokens) = binding else {
                            return Err(input.error("nested repetitions are not supported"));
                        };
                        match bindings.entry(name).or_insert_with(|| Binding::Each(Vec::new())) {
                            Binding::Each(all) => all.push(tokens),
                            Binding::Once(_) => return Err(input.error("a name is bound twice")),
                        }
                    }
                    if let (Some(separator), false) = (separator, input.is_empty()) {
                        match_token(separator, input)?;
                    }
                }
            }
            Pattern::Token(token) => match_token(token, input)?,
        }
    }
    Ok(())
}

/// Whether the first token of the patterns, if that is fixed, comes next.
fn may_begin(patterns: &[Pattern], input: ParseStream<'_>) -> bool {
    match patterns.first() {
        Some(Pattern::Token(first)) => match_token(first, &input.fork()).is_ok(),
        _ => true,
    }
}

fn match_token(expected: &TokenTree, input: ParseStream<'_>) -> Result<()> {
    let token: TokenTree = input.parse()?;
    if token.to_string() == expected.to_string() {
        Ok(())
    } else {
        Err(Error::new(token.span(), format!("expected `{expected}`")))
    }
}

fn transcribe(tokens: TokenStream, bindings: &Bindings) -> Result<TokenStream> {
    let mut output = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
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
                let separator = if is_repeat_operator(tokens.peek()) { None } else { tokens.next() };
                tokens.next();
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
