//! Which answers are compressed: JSON of some size, by gzip, if the client accepts that.
//!
//! A compressed answer is shorter when one part of it repeats another. An attacker who can put text into an answer,
//! have it fetched repeatedly, and see the length of the encrypted response can guess the rest of it (BREACH). No
//! answer contains a token, and no page of another origin can have one fetched, since there are no cookies. The
//! remaining risk is the lists and graphs that the console reloads automatically whenever something changes, with texts
//! of people in them: they are not compressed. Everything else is fetched only when a person opens it. Event streams
//! and WebSockets are never compressed.

use axum::{
    http::{Extensions, HeaderMap, StatusCode, Version, header},
    routing::MethodRouter,
};
use tower_http::{
    CompressionLevel,
    compression::{
        CompressionLayer,
        predicate::{Predicate as _, SizeAbove},
    },
};

use super::route::Route;
use crate::app::App;

/// The operations that are polled.
const NEVER: [&str; 3] = ["listSessions", "listApprovals", "getSessionGraph"];
/// Below this many bytes compressing costs more than it saves.
const WORTH: u16 = 1024;

/// The handler of a route, whose answers are compressed unless that is unsafe.
pub(super) fn handler(route: &Route) -> MethodRouter<App> {
    let handler = (route.handler)();
    if NEVER.contains(&route.id) {
        return handler;
    }
    let layer = CompressionLayer::new().quality(CompressionLevel::Fastest);
    handler.layer(layer.compress_when(SizeAbove::new(WORTH).and(is_json)))
}

fn is_json(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|media| media == "application/json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::routes;

    #[test]
    fn x_the_lists_that_are_never_compressed_are_routes() {
        for id in NEVER {
            assert!(routes::all().any(|route| route.id == id), "{id}");
        }
    }
}
