//! `#[derive(Route)]`.

use proc_macro2::TokenStream;
use quote::quote;
use std::collections::HashMap;
use syn::{Data, DeriveInput, Error, Fields, Variant, spanned::Spanned as _};

use crate::attribute::{self, Errors};

pub(crate) fn derive(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        let problem = "the ways that lead on from a node are an enum: `enum Verdict { Good, Again }`";
        return Err(Error::new(input.ident.span(), problem));
    };
    let mut errors = Errors::default();
    if let Some(parameter) = input.generics.params.first() {
        errors.add(Error::new(parameter.span(), "the ways that lead on from a node are the same always: no generics"));
    }
    if data.variants.is_empty() {
        errors.add(Error::new(input.ident.span(), "without a variant no way leads on from the node"));
    }
    attribute::each(&input.attrs, "route", &mut errors, |meta| {
        Err(Error::new(meta.path.span(), "a label belongs to a variant; the enum itself has none"))
    });

    let mut labels = HashMap::new();
    let mut found = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            let problem = "a way has no data: put it into the state, where the next node reads it";
            errors.add(Error::new(variant.fields.span(), problem));
        }
        let label = label(variant, &mut errors);
        if let Some(other) = labels.insert(label.clone(), &variant.ident) {
            let problem = format!("`{other}` has the label {label:?} already, so that nobody could tell them apart");
            errors.add(Error::new(variant.ident.span(), problem));
        }
        found.push((&variant.ident, label));
    }
    errors.finish()?;

    let name = &input.ident;
    let (variants, labels): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    Ok(quote! {
        #[automatically_derived]
        impl ::countersign::graph::Route for #name {
            const ALL: &'static [Self] = &[#(Self::#variants),*];

            fn label(self) -> &'static str {
                match self {
                    #(Self::#variants => #labels,)*
                }
            }
        }
    })
}

fn label(variant: &Variant, errors: &mut Errors) -> String {
    let mut given = None;
    attribute::each(&variant.attrs, "route", errors, |meta| {
        if !meta.path.is_ident("label") {
            return Err(attribute::unknown(&meta.path, "setting", &["label"]));
        }
        let text = attribute::text(&meta, "label = \"good enough\"")?;
        if given.is_some() {
            return Err(Error::new(text.span(), "a way has one label"));
        }
        let label = text.value();
        if label.trim().is_empty() || label.chars().any(char::is_control) {
            return Err(Error::new(text.span(), "a label is a line of text that can be seen"));
        }
        given = Some(label);
        Ok(())
    });
    given.unwrap_or_else(|| words(&attribute::plain(&variant.ident)))
}

/// The words of a name, in lower case: `NeedsReview` is "needs review", `HTTPError` "http error".
fn words(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut words = String::new();
    let mut before = '_';
    for (at, letter) in letters.iter().enumerate() {
        let last_of_many = letters.get(at + 1).is_some_and(|after| after.is_lowercase());
        let begins = letter.is_uppercase() && (!before.is_uppercase() || last_of_many);
        if (begins || before == '_') && *letter != '_' && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase().filter(|letter| *letter != '_'));
        before = *letter;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn g1_a_route_is_labelled_with_the_words_of_its_name() {
        for (name, label) in [
            ("Good", "good"),
            ("NeedsReview", "needs review"),
            ("HTTPError", "http error"),
            ("V2", "v2"),
            ("Ask_Admin", "ask admin"),
            ("Überprüfen", "überprüfen"),
            ("批准", "批准"),
        ] {
            assert_eq!(words(name), label);
        }
    }
}
