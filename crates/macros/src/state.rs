//! `#[derive(GraphState)]`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use std::collections::HashMap;
use syn::{
    Attribute, Data, DataStruct, DeriveInput, Error, Fields, GenericParam, Visibility, parse_quote,
    spanned::Spanned as _,
};

use crate::{
    attribute::Errors,
    field::{self, Reducer, StateField},
};

pub(crate) fn derive(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Struct(DataStruct { fields: Fields::Named(fields), .. }) = &input.data else {
        let name = &input.ident;
        let problem =
            format!("a state has fields with names, which updates refer to: `struct {name} {{ text: String }}`");
        return Err(Error::new(name.span(), problem));
    };
    let mut errors = Errors::default();
    for lifetime in input.generics.lifetimes() {
        let problem = "a state owns all that it has, since it is read back from the journal: no lifetimes";
        errors.add(Error::new(lifetime.span(), problem));
    }
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("graph")) {
        errors.add(Error::new(attribute.path().span(), "a reducer belongs to a field; the state itself has none"));
    }
    let ignored = ["rename", "default", "deny_unknown_fields", "bound", "crate", "expecting"];
    let serde = field::serde(&input.attrs, &["rename_all"], &ignored, &mut errors);
    let fields: Vec<StateField<'_>> = fields
        .named
        .iter()
        .filter_map(|field| Some(StateField::read(field, field.ident.as_ref()?, &mut errors)))
        .collect();
    names(&fields, &mut errors);
    errors.finish()?;

    let update = update(input, &fields, &serde);
    let implementation = implementation(input, &fields);
    Ok(quote!(#update #implementation))
}

/// Checks that no two methods of the update have the same name.
fn names(fields: &[StateField<'_>], errors: &mut Errors) {
    let mut taken = HashMap::from([("new".to_owned(), "the update itself".to_owned())]);
    for field in fields {
        let mut methods = vec![field.plain.clone()];
        if !matches!(field.reducer, Reducer::Last) {
            methods.push(format!("replace_{}", field.plain));
        }
        if matches!(field.reducer, Reducer::AppendById) {
            methods.push(format!("remove_{}", field.plain));
        }
        for method in methods {
            if let Some(other) = taken.insert(method.clone(), format!("`{}`", field.plain)) {
                let problem = format!("the update's method `{method}` is there for {other} already; rename the field");
                errors.add(Error::new(field.name.span(), problem));
            }
        }
    }
}

/// The type of the updates, with its methods.
fn update(input: &DeriveInput, fields: &[StateField<'_>], serde: &TokenStream) -> TokenStream {
    let (state, seen) = (&input.ident, &input.vis);
    let update = format_ident!("{state}Update");
    let (generics, (parameters, arguments, bounds)) = (&input.generics, input.generics.split_for_impl());
    let here = quote!(::countersign::graph::__private);

    let declared = fields.iter().map(|field| {
        let StateField { name, of, serde, .. } = field;
        let (kind, unchanged) = match field.reducer {
            Reducer::Last => (quote!(LastValue), "::countersign::graph::__private::LastValue::is_unchanged"),
            Reducer::AppendById => (quote!(ById), "::countersign::graph::__private::ById::is_unchanged"),
            _ => (quote!(Reduced), "::countersign::graph::__private::Reduced::is_unchanged"),
        };
        quote! {
            #[serde(default = "::countersign::graph::__private::unchanged", skip_serializing_if = #unchanged)]
            #serde
            #name: #here::#kind<#of>
        }
    });
    let names: Vec<_> = fields.iter().map(|field| field.name).collect();
    let methods = fields.iter().map(|field| methods(field, seen));

    // Serde and Clone infer their bounds on type parameters.
    let serialized = with(input, &parse_quote!(#update #arguments: #here::serde::Serialize));
    let serialized = serialized.split_for_impl().2;
    let about = format!("What a node changes in a [`{state}`]: nothing, until its methods say so.");
    let nothing = format!("Changes nothing in a [`{state}`].");
    let name = update.to_string();
    quote! {
        #[doc = #about]
        #[derive(
            ::core::clone::Clone,
            #here::serde::Serialize,
            #here::serde::Deserialize,
        )]
        #[serde(crate = "::countersign::graph::__private::serde", deny_unknown_fields)]
        #serde
        #[must_use = "an update changes nothing until a node returns it"]
        #seen struct #update #generics #bounds {
            #(#declared,)*
        }

        // Methods are named after fields, which may look like a convention that they do not follow.
        #[allow(dead_code, unreachable_pub, clippy::all)]
        impl #parameters #update #arguments #bounds {
            #[doc = #nothing]
            #seen fn new() -> Self {
                <Self as ::core::default::Default>::default()
            }

            #(#methods)*
        }

        #[automatically_derived]
        impl #parameters ::core::default::Default for #update #arguments #bounds {
            fn default() -> Self {
                Self { #(#names: ::core::default::Default::default(),)* }
            }
        }

        #[automatically_derived]
        impl #parameters ::core::fmt::Debug for #update #arguments #serialized {
            fn fmt(&self, formatter: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                #here::show(#name, self, formatter)
            }
        }

        #[automatically_derived]
        impl #parameters ::core::cmp::PartialEq for #update #arguments #serialized {
            fn eq(&self, other: &Self) -> bool {
                #here::same(self, other)
            }
        }
    }
}

/// The methods for one field.
fn methods(field: &StateField<'_>, seen: &Visibility) -> TokenStream {
    let StateField { name, of, docs, plain, .. } = field;
    let (replace, remove) = (format_ident!("replace_{plain}"), format_ident!("remove_{plain}"));
    let (value, owned) = if field.is_string() {
        (quote!(impl ::core::convert::Into<#of>), quote!(::core::convert::Into::into(value)))
    } else {
        (quote!(#of), quote!(value))
    };
    let items = quote_spanned!(field.place()=>
        impl ::core::iter::IntoIterator<Item = <#of as ::core::iter::IntoIterator>::Item>
    );
    let (about, taken, change) = match &field.reducer {
        Reducer::Last => (format!("Sets `{plain}`."), value.clone(), quote!(set(#owned))),
        Reducer::Append => (format!("Adds items at the end of `{plain}`."), items, quote!(extend(value))),
        Reducer::AppendById => {
            let about = format!("Adds items to `{plain}`: at its end, or in the place of the one with the same id.");
            (about, items, quote!(extend(value)))
        }
        Reducer::Merge => {
            let about = format!("Adds entries to `{plain}`, in the place of those with the same key.");
            (about, items, quote!(extend(value)))
        }
        Reducer::Add => (format!("Adds to `{plain}`."), value.clone(), quote!(add(#owned))),
        Reducer::Max => (format!("Sets `{plain}`, if this is greater."), value.clone(), quote!(add(#owned))),
        Reducer::Min => (format!("Sets `{plain}`, if this is smaller."), value.clone(), quote!(add(#owned))),
        Reducer::With(path) => {
            let path = quote!(#path).to_string().replace(' ', "");
            (format!("Adds to `{plain}`, with `{path}`."), value.clone(), quote!(add(#owned)))
        }
    };
    let docs = documentation(&about, docs);
    let mut methods = quote! {
        #docs
        #seen fn #name(mut self, value: #taken) -> Self {
            self.#name.#change;
            self
        }
    };
    if !matches!(field.reducer, Reducer::Last) {
        let about = format!("Replaces `{plain}`, and what this update said of it before.");
        methods.extend(quote! {
            #[doc = #about]
            #seen fn #replace(mut self, value: #value) -> Self {
                self.#name.replace(#owned);
                self
            }
        });
    }
    if matches!(field.reducer, Reducer::AppendById) {
        let about = format!(
            "Removes the items with these ids from `{plain}`. An id that is not there is an error of the step."
        );
        methods.extend(quote! {
            #[doc = #about]
            #seen fn #remove(
                mut self,
                ids: impl ::core::iter::IntoIterator<Item = impl ::core::convert::Into<::std::string::String>>,
            ) -> Self {
                self.#name.remove(ids);
                self
            }
        });
    }
    methods
}

/// What a method does, then the field's own documentation.
fn documentation(about: &str, docs: &[&Attribute]) -> TokenStream {
    if docs.is_empty() { quote!(#[doc = #about]) } else { quote!(#[doc = #about] #[doc = ""] #(#docs)*) }
}

/// The implementation of the trait.
fn implementation(input: &DeriveInput, fields: &[StateField<'_>]) -> TokenStream {
    let state = &input.ident;
    let update = format_ident!("{state}Update");
    let (parameters, arguments, _) = input.generics.split_for_impl();
    let here = quote!(::countersign::graph::__private);
    let owned = quote!(#here::serde::Serialize + #here::serde::de::DeserializeOwned
        + ::core::marker::Send + ::core::marker::Sync + 'static);
    let mut generics = with(input, &parse_quote!(Self: ::core::clone::Clone + #owned));
    if generics.type_params().next().is_some() {
        generics.make_where_clause().predicates.push(parse_quote!(#update #arguments: #owned));
    }
    let bounds = &generics.where_clause;

    let joined = fields.iter().map(|StateField { name, plain, .. }| quote!(joined.#name.join(#plain, update.#name)?;));
    let applied = fields.iter().map(|field| {
        let StateField { name, plain, of, .. } = field;
        let place = field.place();
        match &field.reducer {
            Reducer::Last => quote!(joined.#name.apply(&mut self.#name);),
            Reducer::AppendById => quote_spanned!(place=> joined.#name.apply(#plain, &mut self.#name)?;),
            Reducer::Append | Reducer::Merge => {
                quote_spanned!(place=> joined.#name.apply(#plain, &mut self.#name, |value, more| ::countersign::graph::__private::extend(value, more))?;)
            }
            Reducer::Add => quote_spanned!(place=> joined.#name.apply(#plain, &mut self.#name, |value, more| ::countersign::graph::__private::add(value, more))?;),
            Reducer::Max => quote_spanned!(place=> joined.#name.apply(#plain, &mut self.#name, |value, more| ::countersign::graph::__private::max(value, more))?;),
            Reducer::Min => quote_spanned!(place=> joined.#name.apply(#plain, &mut self.#name, |value, more| ::countersign::graph::__private::min(value, more))?;),
            Reducer::With(path) => {
                let place = Span::call_site().located_at(path.span());
                let typed = quote_spanned!(place=> let reduce: fn(&mut #of, #of) = #path;);
                quote! {
                    #typed
                    joined.#name.apply(#plain, &mut self.#name, |value, more| {
                        reduce(value, more);
                        ::core::result::Result::Ok(())
                    })?;
                }
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl #parameters ::countersign::graph::GraphState for #state #arguments #bounds {
            type Update = #update #arguments;

            #[allow(unused_variables, unused_mut, clippy::all)]
            fn merge(
                &mut self,
                updates: ::std::vec::Vec<Self::Update>,
            ) -> ::core::result::Result<(), ::countersign::graph::MergeError> {
                let mut joined = <Self::Update as ::core::default::Default>::default();
                for update in updates {
                    #(#joined)*
                }
                #(#applied)*
                ::core::result::Result::Ok(())
            }
        }
    }
}

/// The generics with one more condition, if there are type parameters that it could depend on.
fn with(input: &DeriveInput, condition: &syn::WherePredicate) -> syn::Generics {
    let mut generics = input.generics.clone();
    if generics.params.iter().any(|parameter| matches!(parameter, GenericParam::Type(_))) {
        generics.make_where_clause().predicates.push(condition.clone());
    }
    generics
}
