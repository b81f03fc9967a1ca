//! The table of routes, with their documentation in `/openapi.json`. There is no other way to register a
//! route, so none is undocumented.

mod agents;
mod approvals;
mod documents;
mod sessions;
mod shared;
mod webhooks;

use super::route::Route;

/// Every route, in the order of the documents.
pub(super) fn all() -> impl Iterator<Item = &'static Route> {
    [sessions::ROUTES, approvals::ROUTES, webhooks::ROUTES, agents::ROUTES, documents::ROUTES].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w8_every_route_is_named_once_and_takes_a_body_where_its_method_does() {
        let all: Vec<&Route> = all().collect();
        for (i, route) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other.id != route.id), "{}", route.id);
            assert!(
                all[..i].iter().all(|other| (other.path, other.method) != (route.path, route.method)),
                "{} {}",
                route.method,
                route.path
            );
            assert_eq!(route.body.is_some(), matches!(route.method, "post" | "patch"), "{}", route.path);
            assert!(!route.answers.is_empty(), "{}", route.path);
            assert!([route.path, route.id, route.summary].iter().all(|text| !text.is_empty()), "{}", route.path);
        }
    }
}
