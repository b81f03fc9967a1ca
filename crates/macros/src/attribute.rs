//! What the attributes share: reporting all errors at once, and suggesting names.

use syn::{Attribute, Error, Ident, LitStr, Path, Token, meta::ParseNestedMeta, spanned::Spanned as _};

/// The errors of an item, reported together.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    pub(crate) fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Reads the contents of the attributes of this name.
pub(crate) fn each(
    attributes: &[Attribute],
    name: &str,
    errors: &mut Errors,
    mut read: impl FnMut(ParseNestedMeta<'_>) -> syn::Result<()>,
) {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(name)) {
        let mut empty = true;
        let outcome = attribute.parse_nested_meta(|meta| {
            empty = false;
            read(meta)
        });
        match outcome {
            Err(error) => errors.add(error),
            Ok(()) if empty => errors.add(Error::new(attribute.path().span(), format!("`#[{name}()]` says nothing"))),
            Ok(()) => {}
        }
    }
}

/// The error for an unknown name, with the nearest valid one and all of them.
pub(crate) fn unknown(path: &Path, what: &str, known: &[&str]) -> Error {
    let written = path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>().join("::");
    let near = known.iter().map(|name| (strsim::damerau_levenshtein(name, &written), name)).min();
    let all = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let problem = match near {
        _ if known.len() == 1 => format!("there is no {what} `{written}`; there is {all}"),
        Some((distance, name)) if distance <= 2 => {
            format!("there is no {what} `{written}`, did you mean `{name}`? (there are {all})")
        }
        _ => format!("there is no {what} `{written}`; there are {all}"),
    };
    Error::new(path.span(), problem)
}

/// The text after `=`.
pub(crate) fn text(meta: &ParseNestedMeta<'_>, like: &str) -> syn::Result<LitStr> {
    let is_text = meta.input.peek(Token![=]) && meta.input.peek2(LitStr);
    if is_text {
        meta.value()?.parse()
    } else {
        Err(Error::new(meta.path.span(), format!("a text is missing: `{like}`")))
    }
}

/// The name without `r#`.
pub(crate) fn plain(name: &Ident) -> String {
    syn::ext::IdentExt::unraw(name).to_string()
}
