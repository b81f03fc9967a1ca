//! The policy that is in force, for auditors (spec P1).

use axum::{Json, extract::State};
use countersign_runtime::run::PolicyView;

use super::extract::Caller;
use crate::{app::App, problem::Problem};

pub(super) async fn get(State(app): State<App>, Caller(by): Caller) -> Result<Json<PolicyView>, Problem> {
    Ok(Json(app.runtime.policy(&by)?))
}
