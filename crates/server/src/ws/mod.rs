//! `GET /v1/ws`: the upgrade (spec W).

mod connection;
mod follow;
mod pulse;

use axum::{
    extract::{Extension, State, WebSocketUpgrade, ws::rejection::WebSocketUpgradeRejection},
    http::{HeaderMap, HeaderValue},
    response::{IntoResponse as _, Response},
};
use countersign_core::{limits, wire::PROTOCOL};

use crate::{app::App, auth::offered_protocols, options::READ_AT_ONCE, places::Visitor, problem::Problem};

/// Upgrades a request that offers the protocol.
pub(crate) async fn upgrade(
    State(app): State<App>,
    visitor: Option<Extension<Visitor>>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let mut upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => {
            return Problem::invalid(format!("this endpoint expects a WebSocket upgrade: {rejection}")).into_response();
        }
    };
    let pass = match app.options.auth.admit(&headers).await {
        Ok(pass) => pass,
        Err(refusal) => return Problem::of(refusal).into_response(),
    };
    let visitor = visitor.map(|Extension(visitor)| visitor);
    if let Some(visitor) = &visitor {
        visitor.is_known(pass.by());
    }
    if !offered_protocols(&headers).any(|name| name == PROTOCOL) {
        return Problem::invalid(format!("the WebSocket must offer the subprotocol {PROTOCOL:?}")).into_response();
    }
    upgrade.set_selected_protocol(HeaderValue::from_static(PROTOCOL));
    upgrade
        .read_buffer_size(READ_AT_ONCE)
        .max_message_size(limits::MESSAGE_FRAME_BYTES)
        .max_frame_size(limits::MESSAGE_FRAME_BYTES)
        .on_failed_upgrade(|error| tracing::debug!(%error, "the upgrade failed"))
        .on_upgrade(|socket| connection::serve(socket, app, pass, visitor))
}
