//! The type of a route in the table.

use axum::routing::MethodRouter;
use countersign_core::{refusal::Code, wire::schema::Schemas};
use schemars::JsonSchema;
use serde_json::Value;

use crate::app::App;

/// A route.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// The operation id, for generated clients.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    /// The query parameters and headers; path parameters are in the path.
    pub(super) parameters: &'static [Parameter],
    pub(super) body: Option<Body>,
    pub(super) answers: &'static [Answer],
    /// Refusals beyond those that every route may answer.
    pub(super) refusals: &'static [Code],
    /// Whether it answers without a token.
    pub(super) open: bool,
    pub(super) handler: fn() -> MethodRouter<App>,
}

/// What most routes share; a test checks that each has the rest.
pub(super) const GET: Route = Route {
    method: "get",
    path: "",
    id: "",
    summary: "",
    parameters: &[],
    body: None,
    answers: &[],
    refusals: &[],
    open: false,
    handler: || unreachable!("each route has its own handler"),
};

/// The body of a request.
#[derive(Clone, Copy)]
pub(super) struct Body {
    pub(super) schema: SchemaOf,
    /// Whether it may be left out: it is an empty object then.
    pub(super) optional: bool,
}

/// The schema of a type.
pub(super) type SchemaOf = fn(&mut Schemas) -> Value;

/// A parameter of the query or a header.
pub(super) struct Parameter {
    pub(super) place: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
}

/// The type of a parameter.
pub(super) enum Kind {
    Text,
    /// A whole number.
    Whole,
    /// A whole number from 1 to this.
    UpTo(u64),
    Flag,
    OneOf(&'static [&'static str]),
    /// Some of these, with commas between them.
    SomeOf(&'static [&'static str]),
}

/// A successful response.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) about: &'static str,
    pub(super) media: &'static str,
    pub(super) schema: Option<SchemaOf>,
}

pub(super) const fn query(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { place: "query", name, kind, about }
}

pub(super) const fn header(name: &'static str, about: &'static str) -> Parameter {
    Parameter { place: "header", name, kind: Kind::Text, about }
}

pub(super) const fn json(status: u16, about: &'static str, schema: SchemaOf) -> Answer {
    Answer { status, about, media: "application/json", schema: Some(schema) }
}

pub(super) const fn other(status: u16, about: &'static str, media: &'static str) -> Answer {
    Answer { status, about, media, schema: None }
}

/// A body that must be there, read as this type.
pub(super) const fn body<T: JsonSchema>() -> Option<Body> {
    Some(Body { schema: read::<T>, optional: false })
}

/// A body that may be left out, read as this type.
pub(super) const fn optional_body<T: JsonSchema>() -> Option<Body> {
    Some(Body { schema: read::<T>, optional: true })
}

/// The schema a body is deserialised with.
fn read<T: JsonSchema>(schemas: &mut Schemas) -> Value {
    schemas.input::<T>()
}

/// The schema an answer is serialised with.
pub(super) fn of<T: JsonSchema>(schemas: &mut Schemas) -> Value {
    schemas.output::<T>()
}
