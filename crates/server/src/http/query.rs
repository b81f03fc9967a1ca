//! The query of a request: the parameters that the table has for its route, each once and of its kind. A misspelt or
//! misplaced parameter is refused by name, not ignored.

use std::ops::RangeInclusive;

use axum::{
    extract::{Query, Request, State},
    http::Uri,
    middleware::{Next, from_fn_with_state},
    response::IntoResponse as _,
    routing::MethodRouter,
};
use countersign_core::refusal::shortened;

use super::route::{Kind, Parameter, Route};
use crate::{app::App, problem::Problem};

/// The handler of a route, which gets only requests with a valid query.
pub(super) fn checked(route: &'static Route, handler: MethodRouter<App>, app: &App) -> MethodRouter<App> {
    let check = move |State(app): State<App>, request: Request, next: Next| async move {
        let Err(wrong) = check(route.parameters, request.uri()) else { return next.run(request).await };
        // A client without a token learns that first.
        if !route.open
            && let Err(refusal) = app.options.auth.identify(request.headers()).await
        {
            return Problem::of(refusal).into_response();
        }
        wrong.into_response()
    };
    handler.route_layer(from_fn_with_state(app.clone(), check))
}

/// # Errors
/// `invalid_message`, naming the parameter and what would be right.
fn check(known: &[Parameter], uri: &Uri) -> Result<(), Problem> {
    if uri.query().is_none() {
        return Ok(());
    }
    let wrong = |name: &str, what: &str| Err(Problem::invalid(format!("the query: {}: {what}", shortened(name))));
    let Ok(Query(given)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
        return Err(Problem::invalid("the query: must be NAME=VALUE, with & between them"));
    };
    let parameters = || known.iter().filter(|parameter| parameter.place == "query");
    for (i, (name, value)) in given.iter().enumerate() {
        let Some(parameter) = parameters().find(|parameter| parameter.name == name) else {
            let names: Vec<&str> = parameters().map(|parameter| parameter.name).collect();
            let names = if names.is_empty() { "it has none".into() } else { format!("known: {}", names.join(", ")) };
            return wrong(name, &format!("is not a parameter here; {names}"));
        };
        if given[..i].iter().any(|(earlier, _)| earlier == name) {
            return wrong(name, "is given more than once");
        }
        if let Some(right) = parameter.kind.unlike(value) {
            return wrong(name, &format!("must be {right}"));
        }
    }
    Ok(())
}

impl Kind {
    /// What a value must be, if this one is not that.
    fn unlike(&self, value: &str) -> Option<String> {
        let whole = |range: RangeInclusive<u64>| {
            let fits = value.parse().is_ok_and(|number| range.contains(&number));
            (!fits).then(|| format!("a whole number from {} to {}", range.start(), range.end()))
        };
        match self {
            Kind::Text => None,
            Kind::Whole => whole(0..=u64::MAX),
            Kind::UpTo(most) => whole(1..=*most),
            Kind::Flag => (!matches!(value, "true" | "false")).then(|| "true or false".to_owned()),
            Kind::SomeOf(values) => {
                let known = value.split(',').all(|one| values.contains(&one));
                (!known).then(|| format!("some of {}, with commas between them", values.join(", ")))
            }
            Kind::OneOf(values) => (!values.contains(&value)).then(|| format!("one of {}", values.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::routes;

    fn refused(id: &str, query: &str) -> Option<String> {
        let route = routes::all().find(|route| route.id == id).expect(id);
        let uri: Uri = format!("/x?{query}").parse().expect("a query");
        let problem = serde_json::to_value(check(route.parameters, &uri).err()?).expect("JSON");
        problem["detail"].as_str().map(str::to_owned)
    }

    #[test]
    fn r9_a_query_has_the_parameters_of_its_route_and_an_error_says_what_is_right() {
        for (id, query) in [
            ("listAgents", ""),
            ("listSessions", "status=awaiting_input&agent=a%26b&cursor=&limit=200"),
            ("followSession", "after=0&before=18446744073709551615"),
            ("decideApproval", "wait=true"),
            ("listRules", "state=active,suspended"),
        ] {
            assert_eq!(refused(id, query), None, "{id}?{query}");
        }
        let long = "q".repeat(9000);
        let whole = "must be a whole number from 0 to 18446744073709551615";
        for (id, query, told) in [
            ("sendMessage", "wait=true", "wait: is not a parameter here; it has none"),
            ("listAgents", "bogus", "bogus: is not a parameter here; it has none"),
            ("getApproval", "wait=true", "wait: is not a parameter here; it has none"),
            ("decideApproval", "wiat=true", "wiat: is not a parameter here; known: wait"),
            // A header of the route is no parameter of its query.
            ("decideApproval", "Idempotency-Key=k", "Idempotency-Key: is not a parameter here; known: wait"),
            ("decideApproval", "wait=yes", "wait: must be true or false"),
            ("decideApproval", "wait", "wait: must be true or false"),
            ("followSession", "after=-1", &format!("after: {whole}")),
            ("followSession", "after=", &format!("after: {whole}")),
            ("followSession", "after=18446744073709551616", &format!("after: {whole}")),
            ("followSession", "after=0&before=0", "before: must be a whole number from 1 to 18446744073709551615"),
            ("followSession", "last=1001", "last: must be a whole number from 1 to 1000"),
            ("listSessions", "limit=201", "limit: must be a whole number from 1 to 200"),
            ("readHistory", "limit=0", "limit: must be a whole number from 1 to 1000"),
            ("followSession", "last=1&last=1", "last: is given more than once"),
            ("listRules", "state=1", "state: must be some of active, suspended, ended, with commas between them"),
            ("listApprovals", "status=open", "status: must be one of waiting, resolved"),
            ("listAgents", &long, &format!("{}…: is not a parameter here; it has none", "q".repeat(200))),
        ] {
            assert_eq!(refused(id, query), Some(format!("the query: {told}")), "{id}?{query}");
        }
    }
}
