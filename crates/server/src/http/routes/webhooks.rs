//! Routes of webhooks and their failed deliveries.

use axum::routing::{get, post};
use countersign_core::refusal::Code;

use super::{
    super::{
        route::{GET, Route, json, of, optional_body},
        webhooks,
    },
    shared::{CURSOR, LIMIT, WEBHOOK},
};

pub(super) const ROUTES: &[Route] = &[
    Route {
        path: "/v1/webhooks",
        id: "listWebhooks",
        summary: "The webhooks and their deliveries: for callers who may read the audit log, of their tenant.",
        answers: &[json(200, "The webhooks, in the order of the file.", of::<webhooks::WebhookList>)],
        refusals: &[Code::Forbidden, Code::StoreUnavailable],
        handler: || get(webhooks::list),
        ..GET
    },
    Route {
        path: "/v1/webhooks/{name}/failed",
        id: "listFailedMessages",
        summary: "The messages of a webhook that did not arrive, in the order of their records in the audit log.",
        parameters: &[CURSOR, LIMIT],
        answers: &[json(200, "A page of them.", of::<webhooks::FailedMessages>)],
        refusals: &[Code::InvalidMessage, Code::Forbidden, Code::WebhookNotFound, Code::StoreUnavailable],
        handler: || get(webhooks::failed),
        ..GET
    },
    Route {
        method: "post",
        path: "/v1/webhooks/{name}/failed/{n}/retry",
        id: "retryFailedMessage",
        summary: "Sends a message that did not arrive again now, with the full number of attempts. Takes no `Idempotency-Key`.",
        parameters: &[],
        body: optional_body::<webhooks::Nothing>(),
        answers: &[json(200, "It will be sent.", of::<webhooks::Retried>)],
        refusals: WEBHOOK,
        open: false,
        handler: || post(webhooks::retry_one),
    },
    Route {
        method: "post",
        path: "/v1/webhooks/{name}/retry",
        id: "retryFailedMessages",
        summary: "Sends all dead letters of a webhook again. Takes no `Idempotency-Key`.",
        parameters: &[],
        body: optional_body::<webhooks::Nothing>(),
        answers: &[json(200, "They will be sent.", of::<webhooks::Retried>)],
        refusals: WEBHOOK,
        open: false,
        handler: || post(webhooks::retry_all),
    },
    Route {
        method: "post",
        path: "/v1/webhooks/{name}/forget",
        id: "forgetWebhook",
        summary: "Drops a webhook's undelivered messages and restarts it at the end of the audit log; works for removed webhooks too. Takes no `Idempotency-Key`: repeated, it drops what came in between.",
        parameters: &[],
        body: optional_body::<webhooks::Nothing>(),
        answers: &[json(200, "It was forgotten.", of::<webhooks::Forgotten>)],
        refusals: WEBHOOK,
        open: false,
        handler: || post(webhooks::forget),
    },
    Route {
        method: "post",
        path: "/v1/webhooks/{name}/test",
        id: "testWebhook",
        summary: "Sends a webhook one test message, and answers with the outcome. Takes no `Idempotency-Key`: repeated, it sends another.",
        parameters: &[],
        body: optional_body::<webhooks::Nothing>(),
        answers: &[json(200, "Whether it arrived.", of::<webhooks::Tested>)],
        refusals: WEBHOOK,
        open: false,
        handler: || post(webhooks::test),
    },
];
