//! The HTTP twin of the WebSocket protocol (spec W8).
//!
//! [`routes::all`] is the single table that both registers and documents the routes.

mod agents;
pub(crate) mod approvals;
pub(crate) mod asyncapi;
mod audit;
mod compressing;
mod documents;
mod events;
mod extract;
mod graphs;
pub(crate) mod health;
mod history;
pub(crate) mod openapi;
#[cfg(test)]
mod pages;
mod past;
mod policy;
mod query;
mod route;
mod routes;
mod rules;
mod runs;
mod sessions;
mod webhooks;

use std::collections::BTreeSet;

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::Response,
};
use countersign_core::refusal::{Code, Refusal, shortened};

use crate::{app::App, problem::Problem};

/// A router of every route in the table.
pub(crate) fn routes(app: &App) -> Router<App> {
    let handler = |route| query::checked(route, compressing::handler(route), app);
    routes::all().fold(Router::new(), |router, route| router.route(route.path, handler(route)))
}

/// The methods of all routes, as `Access-Control-Allow-Methods` lists them.
pub(crate) fn methods() -> String {
    let methods: BTreeSet<String> = routes::all().map(|route| route.method.to_ascii_uppercase()).collect();
    Vec::from_iter(methods).join(", ")
}

/// The answer for an unknown path.
pub(crate) async fn not_found(uri: Uri) -> Problem {
    let path = shortened(uri.path());
    Problem::of(Refusal::new(
        Code::NotFound,
        format!("there is nothing at {path:?}; /openapi.json lists what there is"),
    ))
}

/// The answer for a method that the path does not support.
pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    let path = shortened(uri.path());
    Problem::of(Refusal::new(Code::MethodNotAllowed, format!("{method} is not allowed on {path:?}")))
}

/// Headers for every response.
pub(crate) async fn security_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if !switching && !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
