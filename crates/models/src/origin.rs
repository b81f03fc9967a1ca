//! Where an answer comes from.
//!
//! Data that a provider needs back with an answer (encrypted reasoning, signatures, ids of calls) goes only to the
//! model and the address that it came from: another provider of a model with the same name cannot read it and refuses
//! the request, in every turn from then on, and it is not meant for others.

use std::sync::Arc;

use countersign_core::call::args::Digest;
use countersign_engine::model::ModelConfigError;

use super::http::Endpoint;

/// The characters of the digest of an address.
const AT_CHARS: usize = 12;

/// A model at an address.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    /// The model's name, as the provider knows it.
    pub(super) model: Arc<str>,
    /// A short digest of the address.
    pub(super) at: Arc<str>,
}

impl Origin {
    /// A model at this base address, whose query does not count: it may change, or contain a key.
    ///
    /// # Errors
    /// The address cannot be used.
    pub(super) fn new(model: &str, base_url: &str) -> Result<Origin, ModelConfigError> {
        let shown = Endpoint::new(base_url, &[])?.shown;
        let digest = Digest::of(shown.trim_end_matches('/').as_bytes()).to_string();
        Ok(Origin { model: model.into(), at: digest.get(..AT_CHARS).unwrap_or_default().into() })
    }

    /// Whether it gave what is kept for `model` at `at`. Data of earlier versions names no address.
    pub(super) fn gave(&self, model: &str, at: Option<&str>) -> bool {
        *self.model == *model && at.is_none_or(|at| at == &*self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_an_answer_comes_from_a_model_at_an_address_whatever_its_query() {
        let origin = |url: &str| Origin::new("m", url).unwrap();
        let here = origin("https://a.example/v1");
        assert_eq!(here.at.len(), AT_CHARS);
        for same in ["https://a.example/v1/", "https://a.example/v1?key=s3cret", "https://a.example/v1?v=2"] {
            assert!(here.gave("m", Some(&origin(same).at)), "{same}");
        }
        for other in
            ["https://b.example/v1", "https://a.example/v2", "http://a.example/v1", "https://a.example:8443/v1"]
        {
            assert!(!here.gave("m", Some(&origin(other).at)), "{other}");
        }
        assert!(here.gave("m", None) && !here.gave("n", None) && !here.gave("n", Some(&here.at)));
    }
}
