//! A build without the feature `cel` has no conditions in the Common Expression Language.

use countersign_core::setting::SettingError;
use futures::future::BoxFuture;

use crate::tool::{CallFacts, Condition};

/// A condition in the Common Expression Language, which cannot exist: this build is without the feature `cel`.
#[derive(Clone, Debug)]
pub enum CelCondition {}

/// What conditions see of a call.
pub struct CelScope(());

impl CelCondition {
    /// Accepts none.
    ///
    /// # Errors
    /// Always.
    pub fn compile(_: &str) -> Result<CelCondition, SettingError> {
        Err(SettingError::new("this build has no conditions in CEL, it is without the feature `cel`"))
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// None: there is no condition.
    pub fn holds(&self, _: &CelScope) -> Result<bool, String> {
        match *self {}
    }

    /// The expression.
    #[must_use]
    pub fn source(&self) -> &str {
        match *self {}
    }
}

impl CelScope {
    /// What conditions see of a call.
    #[must_use]
    pub fn of(_: &CallFacts<'_>) -> CelScope {
        CelScope(())
    }
}

impl Condition for CelCondition {
    fn check<'a>(&'a self, _: &'a CallFacts<'a>) -> BoxFuture<'a, Result<bool, String>> {
        match *self {}
    }

    fn describe(&self) -> Option<&str> {
        match *self {}
    }
}
