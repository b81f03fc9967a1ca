//! `[tracing]`: where spans go to, and what stands in them (spec S22).

use super::reader::{At, Section};

/// Where spans go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigTracing {
    /// The collector's whole address, for OTLP over HTTP; without one there are no spans but for the log.
    pub otlp_endpoint: Option<String>,
    /// Whether arguments, results and answers stand in spans.
    pub content: bool,
}

pub(super) fn read(root: &Section<'_>) -> ConfigTracing {
    let Some(section) = root.table("tracing") else { return ConfigTracing::default() };
    let endpoint = section.string("otlp_endpoint");
    let content = section.boolean("content").unwrap_or_default();
    section.finish();
    if let Some(At { value, at }) = &endpoint
        && let Err(why) = check(value)
    {
        section.bad(*at, "otlp_endpoint", why);
    }
    ConfigTracing { otlp_endpoint: endpoint.map(|endpoint| endpoint.value), content }
}

#[cfg(feature = "otlp")]
fn check(endpoint: &str) -> Result<(), String> {
    countersign::otlp::check(endpoint).map_err(|error| error.to_string())
}

#[cfg(not(feature = "otlp"))]
fn check(_: &str) -> Result<(), String> {
    Err("cannot be used in this build (it was built without the feature \"otlp\"); build it with --features otlp, or \
         take it out"
        .to_owned())
}
