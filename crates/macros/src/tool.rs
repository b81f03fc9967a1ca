//! `#[tool]`: an async function as a tool.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::{
    Attribute, Error, Expr, ExprClosure, FnArg, Ident, ItemFn, LitInt, LitStr, Meta, Pat, Path, Token, Type,
    meta::ParseNestedMeta, parse::Parser as _, spanned::Spanned as _, token::Paren,
};

use crate::attribute::{self, Errors};

const OPTIONS: [&str; 9] =
    ["name", "description", "needs_approval", "idempotent", "timeout", "allow", "read_only", "time_limit", "derive"];
const DECISIONS: [(&str, &str); 5] =
    [("approve", "Approve"), ("reject", "Reject"), ("edit", "Edit"), ("respond", "Respond"), ("defer", "Defer")];

/// The options of the attribute.
#[derive(Default)]
struct Options {
    name: Option<LitStr>,
    description: Option<LitStr>,
    approval: Option<Need>,
    idempotent: bool,
    read_only: bool,
    timeout: Option<LitInt>,
    time_limit: Option<LitInt>,
    allow: Vec<Ident>,
    /// Further derives of the argument struct.
    derive: Vec<Path>,
}

/// When a person is asked.
enum Need {
    Always,
    Never,
    /// A synchronous closure.
    Closure(ExprClosure),
    /// An async closure, or the path of an async function.
    Async(Expr),
}

/// An argument of the tool.
struct Argument {
    name: Ident,
    of: Type,
    attributes: Vec<Attribute>,
}

pub(crate) fn expand(options: TokenStream, function: &ItemFn) -> syn::Result<TokenStream> {
    let mut errors = Errors::default();
    let options = read_options(options, &mut errors);
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        let problem = format!("a tool is an async function: `async fn {}`", signature.ident);
        errors.add(Error::new(signature.fn_token.span, problem));
    }
    if !signature.generics.params.is_empty() {
        let problem = "a tool has one schema for its arguments, so its function has no type parameters or lifetimes";
        errors.add(Error::new(signature.generics.span(), problem));
    }
    let (context, arguments) = arguments(function, &mut errors);
    errors.finish()?;
    Ok(written(function, &options, context, &arguments))
}

fn read_options(tokens: TokenStream, errors: &mut Errors) -> Options {
    let mut options = Options::default();
    let mut seen: Vec<String> = Vec::new();
    let parser = syn::meta::parser(|meta| {
        let name = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        if seen.contains(&name) {
            return Err(Error::new(meta.path.span(), format!("`{name}` is said twice")));
        }
        read_option(&meta, &name, &mut options)?;
        seen.push(name);
        Ok(())
    });
    if let Err(error) = parser.parse2(tokens) {
        errors.add(error);
    }
    if let Some(Need::Never) | None = options.approval {
        for (said, name) in [(options.timeout.is_some(), "timeout"), (!options.allow.is_empty(), "allow")] {
            if said {
                let problem = format!("`{name}` says how a person is asked, but nobody is: add `needs_approval`");
                errors.add(Error::new(Span::call_site(), problem));
            }
        }
    }
    options
}

fn read_option(meta: &ParseNestedMeta<'_>, name: &str, options: &mut Options) -> syn::Result<()> {
    match name {
        "name" => options.name = Some(attribute::text(meta, "name = \"get_weather\"")?),
        "description" => options.description = Some(attribute::text(meta, "description = \"The weather in a city.\"")?),
        "needs_approval" => options.approval = Some(read_need(meta)?),
        "idempotent" => options.idempotent = read_flag(meta, name)?,
        "read_only" => options.read_only = read_flag(meta, name)?,
        "timeout" => options.timeout = Some(read_seconds(meta, "timeout = 300`, in seconds to decide, 0 is for ever")?),
        "time_limit" => options.time_limit = Some(read_seconds(meta, "time_limit = 30`, in seconds to run")?),
        "allow" => read_allowed(meta, &mut options.allow)?,
        "derive" => read_derived(meta, &mut options.derive)?,
        _ => return Err(attribute::unknown(&meta.path, "option of a tool", &OPTIONS)),
    }
    Ok(())
}

fn read_flag(meta: &ParseNestedMeta<'_>, name: &str) -> syn::Result<bool> {
    if !meta.input.peek(Token![=]) {
        return Ok(true);
    }
    let value: syn::Result<syn::LitBool> = meta.value()?.parse();
    value.map(|value| value.value).map_err(|error| Error::new(error.span(), format!("`{name}` is true or false")))
}

fn read_seconds(meta: &ParseNestedMeta<'_>, like: &str) -> syn::Result<LitInt> {
    let problem = format!("a whole number is missing: `{like}");
    let value: syn::Result<LitInt> = meta.value().and_then(|value| value.parse());
    let value = value.map_err(|_| Error::new(meta.path.span(), &problem))?;
    value.base10_parse::<u32>().map_err(|_| Error::new(value.span(), &problem))?;
    Ok(value)
}

fn read_allowed(meta: &ParseNestedMeta<'_>, allowed: &mut Vec<Ident>) -> syn::Result<()> {
    let known: Vec<&str> = DECISIONS.iter().map(|(name, _)| *name).collect();
    if !meta.input.peek(Paren) {
        let problem = "say which decisions: `allow(approve, reject, respond)`";
        return Err(Error::new(meta.path.span(), problem));
    }
    meta.parse_nested_meta(|decision| {
        let name = decision.path.get_ident().map(Ident::to_string).unwrap_or_default();
        let Some((_, variant)) = DECISIONS.iter().find(|(known, _)| *known == name) else {
            return Err(attribute::unknown(&decision.path, "decision", &known));
        };
        allowed.push(format_ident!("{variant}", span = decision.path.span()));
        Ok(())
    })
}

fn read_derived(meta: &ParseNestedMeta<'_>, derived: &mut Vec<Path>) -> syn::Result<()> {
    if !meta.input.peek(Paren) {
        let problem = "say what the struct of the arguments derives: `derive(Clone, serde::Serialize)`";
        return Err(Error::new(meta.path.span(), problem));
    }
    meta.parse_nested_meta(|name| {
        derived.push(name.path);
        Ok(())
    })
}

fn read_need(meta: &ParseNestedMeta<'_>) -> syn::Result<Need> {
    let problem = "`needs_approval` is true, false, a closure `|call, args| args.amount > 1000`, or the path of an \
                   async function of both";
    if !meta.input.peek(Token![=]) {
        return Ok(Need::Always);
    }
    let value: Expr = meta.value()?.parse()?;
    match value {
        Expr::Lit(literal) => match &literal.lit {
            syn::Lit::Bool(value) if value.value => Ok(Need::Always),
            syn::Lit::Bool(_) => Ok(Need::Never),
            _ => Err(Error::new(literal.span(), problem)),
        },
        Expr::Closure(closure) if closure.inputs.len() != 2 => {
            let problem = "the closure is given two things: the call that the agent wants to make, and its arguments: \
                           `|call, args| …`";
            Err(Error::new(closure.span(), problem))
        }
        Expr::Closure(closure) if closure.asyncness.is_some() || matches!(*closure.body, Expr::Async(_)) => {
            Ok(Need::Async(Expr::Closure(closure)))
        }
        Expr::Closure(closure) => Ok(Need::Closure(closure)),
        Expr::Path(path) => Ok(Need::Async(Expr::Path(path))),
        other => Err(Error::new(other.span(), problem)),
    }
}

/// Whether the function takes the context, and its arguments.
fn arguments(function: &ItemFn, errors: &mut Errors) -> (bool, Vec<Argument>) {
    let mut context = false;
    let mut arguments = Vec::new();
    for (i, input) in function.sig.inputs.iter().enumerate() {
        let typed = match input {
            FnArg::Typed(typed) => typed,
            FnArg::Receiver(receiver) => {
                let problem = "a tool is a function by itself, not a method; what it needs it gets from its context";
                errors.add(Error::new(receiver.span(), problem));
                continue;
            }
        };
        if is_named(&typed.ty, "ToolContext") {
            if i > 0 {
                errors.add(Error::new(typed.ty.span(), "the context comes first: `context: ToolContext, …`"));
            }
            context = true;
            continue;
        }
        if let Type::Reference(reference) = &*typed.ty {
            let owned = if is_named(&reference.elem, "str") { "`String`" } else { "a type without `&`" };
            let problem = format!("the model writes the arguments, so the function owns them: {owned}");
            errors.add(Error::new(reference.span(), problem));
            continue;
        }
        let Pat::Ident(pattern) = &*typed.pat else {
            let problem = "an argument has a name, which the model uses: `order: Order`";
            errors.add(Error::new(typed.pat.span(), problem));
            continue;
        };
        let mut name = pattern.ident.clone();
        name.set_span(pattern.ident.span());
        arguments.push(Argument { name, of: (*typed.ty).clone(), attributes: typed.attrs.clone() });
    }
    (context, arguments)
}

fn is_named(of: &Type, name: &str) -> bool {
    matches!(of, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

/// Whether it takes arguments under names that its schema does not have: all that no other one has, or an alias.
fn takes_other_names(argument: &Argument) -> bool {
    let names = |token| matches!(token, TokenTree::Ident(name) if name == "flatten" || name == "alias");
    let mut serde = argument.attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    serde.any(|attribute| matches!(&attribute.meta, Meta::List(list) if list.tokens.clone().into_iter().any(names)))
}

/// The text of doc comments: lines of a paragraph are joined.
fn documented(attributes: &[Attribute]) -> String {
    let mut text = String::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let syn::Meta::NameValue(value) = &attribute.meta else { continue };
        let Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(line), .. }) = &value.value else { continue };
        let line = line.value();
        let line = line.trim();
        if line.is_empty() {
            text.push('\n');
        } else {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push(' ');
            }
            text.push_str(line);
        }
    }
    text.trim().to_owned()
}

/// `get_weather` → `GetWeatherArgs`, `_2fa` → `_2faArgs`.
fn args_name(function: &Ident) -> Ident {
    let plain = attribute::plain(function);
    let words = plain.split('_').filter(|word| !word.is_empty());
    let camel: String = words
        .map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>()).unwrap_or_default()
        })
        .collect();
    let name = format!("{camel}Args");
    // Nothing can be named `2faArgs`.
    let mark = if syn::parse_str::<Ident>(&name).is_ok() { "" } else { "_" };
    Ident::new(&format!("{mark}{name}"), function.span())
}

fn written(function: &ItemFn, options: &Options, context: bool, arguments: &[Argument]) -> TokenStream {
    let here = quote!(::countersign::tool::__private);
    let derived = &options.derive;
    let (seen, name) = (&function.vis, &function.sig.ident);
    let args = args_name(name);
    let tool_name = options.name.as_ref().map_or_else(|| attribute::plain(name), LitStr::value);
    let description = options.description.as_ref().map_or_else(|| documented(&function.attrs), LitStr::value);
    let (docs, others): (Vec<&Attribute>, Vec<&Attribute>) =
        function.attrs.iter().partition(|attribute| attribute.path().is_ident("doc"));

    let fields = arguments.iter().map(|Argument { name, of, attributes }| quote!(#(#attributes)* #seen #name: #of,));
    let names: Vec<&Ident> = arguments.iter().map(|argument| &argument.name).collect();
    let mut inner = function.clone();
    inner.attrs = others.into_iter().cloned().collect();
    inner.vis = syn::Visibility::Inherited;
    for input in &mut inner.sig.inputs {
        if let FnArg::Typed(typed) = input {
            typed.attrs.retain(|attribute| attribute.path().is_ident("allow") || attribute.path().is_ident("expect"));
        }
    }
    let context = context.then(|| quote!(__context,));
    // Autoref specialisation: only the compiler knows whether the type, perhaps an alias, is a `Result`.
    let outcome = quote! {
        use #here::{KindOfResult as _, KindOfValue as _};
        let __returned = __function(#context #(#names),*).await;
        (&__returned).__countersign_kind().outcome(__returned)
    };
    let approval = approval(options, &args, &here);
    let idempotent = options.idempotent.then(|| quote!(.idempotent(true)));
    let read_only = options.read_only.then(|| quote!(.hints(#here::read_only())));
    let time_limit = options.time_limit.as_ref().map(|limit| quote!(.time_limit(#here::seconds(#limit))));
    let about = format!("The arguments of the tool `{tool_name}`.");
    let title = if docs.is_empty() {
        let text = format!("The tool `{tool_name}`.");
        quote!(#[doc = #text])
    } else {
        quote!(#(#docs)*)
    };
    let unused = arguments.is_empty().then(|| quote!(let _ = &__args;));
    // What a reviewer sees is what the function gets: an argument that it does not have is not dropped in silence.
    let strict = (!arguments.iter().any(takes_other_names)).then(|| quote!(#[serde(deny_unknown_fields)]));
    quote! {
        #[doc = #about]
        #[derive(#here::serde::Deserialize, #here::schemars::JsonSchema #(, #derived)*)]
        #[serde(crate = "::countersign::tool::__private::serde")]
        #[schemars(crate = "::countersign::tool::__private::schemars")]
        #strict
        #[allow(dead_code, missing_docs)]
        #seen struct #args {
            #(#fields)*
        }

        #title
        #seen fn #name() -> ::countersign::tool::ToolEntry {
            #inner

            #here::entry(#tool_name, #description, |__context, __args: #args| async move {
                #unused
                // Named before the arguments, one of which may have the function's name.
                let __function = #name;
                let #args { #(#names),* } = __args;
                let _ = &__context;
                #outcome
            })
            #approval
            #idempotent
            #read_only
            #time_limit
        }
    }
}

/// How its calls are approved, and how long people have for that if it says so.
fn approval(options: &Options, args: &Ident, here: &TokenStream) -> Option<TokenStream> {
    let asked = match options.approval.as_ref()? {
        Need::Never => return None,
        Need::Always => quote!(::countersign::tool::Approval::always()),
        Need::Closure(closure) => quote_spanned!(closure.span()=> #here::when::<#args, _, _>(#closure)),
        Need::Async(function) => quote_spanned!(function.span()=> #here::when_async::<#args, _, _, _>(#function)),
    };
    let timeout = options.timeout.as_ref().map(|timeout| quote!(.timeout(#here::timeout(#timeout))));
    let allow = (!options.allow.is_empty()).then(|| {
        let kinds = &options.allow;
        quote!(.allow([#(::countersign::DecisionType::#kinds),*]))
    });
    Some(quote!(.needs_approval(#asked #timeout #allow)))
}
