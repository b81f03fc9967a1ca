//! What a client accepts, by its weights (RFC 9110, 12.4.2).

use axum::http::{HeaderMap, HeaderName};

/// The members of a header such as `Accept`, each with its weight from 0 to 1: 1 if it has none, 0 if it cannot be read.
pub(crate) fn weighted<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<(&'a str, f32)> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    let member = |one: &'a str| {
        let (member, parameters) = one.split_once(';').unwrap_or((one, ""));
        (member.trim(), parameters.split(';').find_map(weight).unwrap_or(1.0))
    };
    values.flat_map(|value| value.split(',')).map(member).collect()
}

/// The weight, if this parameter is one.
fn weight(parameter: &str) -> Option<f32> {
    let (name, value) = parameter.split_once('=')?;
    let weight = || value.trim().parse().ok().filter(|weight| (0.0..=1.0).contains(weight));
    name.trim().eq_ignore_ascii_case("q").then(|| weight().unwrap_or(0.0))
}
