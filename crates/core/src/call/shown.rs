//! stand-in
use super::args::{Args, Digest};
/// stand-in
pub struct Shown {
    /// stand-in
    pub digest: String,
}
impl Shown {
    /// stand-in
    #[must_use]
    pub fn of(args: &Args) -> Shown {
        Shown { digest: Digest::of(args.text().as_bytes()).to_string() }
    }
}
