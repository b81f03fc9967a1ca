//! A field of a state: its reducer, and its serde attributes.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{
    Attribute, Error, Expr, Field, Ident, Path, Token, Type, meta::ParseNestedMeta, parenthesized,
    spanned::Spanned as _, token::Paren,
};

use crate::attribute::{self, Errors};

const REDUCERS: [&str; 7] = ["append", "append_by_id", "merge", "add", "max", "min", "reduce"];

/// How a field combines the updates of a step.
pub(crate) enum Reducer {
    Last,
    Append,
    AppendById,
    Merge,
    Add,
    Max,
    Min,
    With(Path),
}

/// A field with its attributes.
pub(crate) struct StateField<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) plain: String,
    pub(crate) of: &'a Type,
    pub(crate) reducer: Reducer,
    /// The field's own documentation.
    pub(crate) docs: Vec<&'a Attribute>,
    /// Its serde name.
    pub(crate) serde: TokenStream,
}

impl<'a> StateField<'a> {
    pub(crate) fn read(field: &'a Field, name: &'a Ident, errors: &mut Errors) -> StateField<'a> {
        let mut reducer = None;
        attribute::each(&field.attrs, "graph", errors, |meta| {
            let read = read_reducer(&meta)?;
            if reducer.is_some() {
                return Err(Error::new(meta.path.span(), format!("`{name}` has a reducer already; a field has one")));
            }
            reducer = Some(read);
            Ok(())
        });
        let known = ["rename", "alias"];
        let ignored = ["default", "skip_serializing_if", "bound"];
        StateField {
            name,
            plain: attribute::plain(name),
            of: &field.ty,
            reducer: reducer.unwrap_or(Reducer::Last),
            docs: field.attrs.iter().filter(|attribute| attribute.path().is_ident("doc")).collect(),
            serde: serde(&field.attrs, &known, &ignored, errors),
        }
    }

    /// Whether it is written as `String`, the one type whose values usually come as another type.
    pub(crate) fn is_string(&self) -> bool {
        matches!(self.of, Type::Path(path) if path.path.segments.last().is_some_and(|last| {
            last.ident == "String" && last.arguments.is_none()
        }))
    }

    /// The span for errors about the field's type.
    pub(crate) fn place(&self) -> Span {
        Span::call_site().located_at(self.of.span())
    }
}

fn read_reducer(meta: &ParseNestedMeta<'_>) -> syn::Result<Reducer> {
    let name = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
    let reducer = match name.as_str() {
        "append" => Reducer::Append,
        "append_by_id" => Reducer::AppendById,
        "merge" => Reducer::Merge,
        "add" => Reducer::Add,
        "max" => Reducer::Max,
        "min" => Reducer::Min,
        "reduce" => return read_function(meta),
        _ => return Err(attribute::unknown(&meta.path, "reducer", &REDUCERS)),
    };
    if meta.input.peek(Token![=]) || meta.input.peek(Paren) {
        let problem = format!("`{name}` takes nothing; a function of your own is `reduce = path`");
        return Err(Error::new(meta.path.span(), problem));
    }
    Ok(reducer)
}

fn read_function(meta: &ParseNestedMeta<'_>) -> syn::Result<Reducer> {
    let problem = "`reduce` needs the path of a function, without quotes: `reduce = join_lines`, where it is \
                   `fn join_lines(value: &mut T, more: T)`";
    let function: syn::Result<Expr> = meta.value().and_then(|value| value.parse());
    match function {
        Ok(Expr::Path(path)) if path.qself.is_none() => Ok(Reducer::With(path.path)),
        Ok(other) => Err(Error::new(other.span(), problem)),
        Err(_) => Err(Error::new(meta.path.span(), problem)),
    }
}

/// The serde attributes that determine a name. Others would make an update's form differ from the state's, and are
/// errors, except those that do not affect the form.
pub(crate) fn serde(attributes: &[Attribute], known: &[&str], ignored: &[&str], errors: &mut Errors) -> TokenStream {
    let mut kept = TokenStream::new();
    attribute::each(attributes, "serde", errors, |meta| {
        let path = &meta.path;
        let value = if meta.input.peek(Token![=]) {
            let value: Expr = meta.value()?.parse()?;
            quote!(= #value)
        } else if meta.input.peek(Paren) {
            let content;
            parenthesized!(content in meta.input);
            let inside: TokenStream = content.parse()?;
            quote!((#inside))
        } else {
            TokenStream::new()
        };
        if known.iter().any(|name| path.is_ident(name)) {
            kept.extend(quote!(#[serde(#path #value)]));
            Ok(())
        } else if ignored.iter().any(|name| path.is_ident(name)) {
            Ok(())
        } else {
            let allowed = known.iter().chain(ignored).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let name = path.get_ident().map(Ident::to_string).unwrap_or_default();
            let problem = format!(
                "with `{name}` an update would not have the form of the state; give the field a type that is written \
                 so by itself. Of serde's attributes there may be {allowed} here"
            );
            Err(Error::new(path.span(), problem))
        }
    });
    kept
}
