//! Each test is a promise about conditions: exact numbers, early refusal, and no way to harm the process.

use countersign_core::call::args::Args;
use proptest::prelude::*;

use super::*;

fn ask(expression: &str, args: &str) -> Result<bool, String> {
    let args = Args::parse(args).expect("args");
    let call = CallFacts {
        session_id: "s1",
        subject: Some("alice"),
        agent: "trader",
        tool: "pay",
        call_id: "call_1",
        tenant: None,
        roles: &["user".to_owned()],
        args: &args,
        context: &crate::tool::AppContext::default(),
    };
    CelCondition::compile(expression).expect("an expression").holds(&CelScope::of(&call))
}

fn refused(expression: &str) -> String {
    CelCondition::compile(expression).expect_err(expression).to_string()
}

#[test]
fn p1_a_condition_over_the_arguments_decides() {
    let rule = "args.quantity * args.price > 1000000";
    assert_eq!(ask(rule, r#"{"quantity":100,"price":10000}"#), Ok(false));
    assert_eq!(ask(rule, r#"{"quantity":100,"price":10001}"#), Ok(true));
    assert_eq!(ask(rule, r#"{"quantity":100,"price":82000.5}"#), Ok(true));
    assert_eq!(ask(rule, r#"{"quantity":0.5,"price":82000.5}"#), Ok(false));
    assert_eq!(ask(rule, r#"{"quantity":1e3,"price":1001}"#), Ok(true));
}

#[test]
fn p1_a_condition_sees_the_agent_the_session_and_the_user() {
    assert_eq!(ask("agent == 'trader' && session.id == 's1'", "{}"), Ok(true));
    assert_eq!(ask("user.subject == 'alice' && session.subject == user.subject", "{}"), Ok(true));
    assert_eq!(ask("'user' in user.roles && user.tenant == null && tool == 'pay'", "{}"), Ok(true));
    assert_eq!(ask("user.subject != null && agent in ['a', 'b']", "{}"), Ok(false));
}

#[test]
fn p1_strings_lists_and_loops_work() {
    let args = r#"{"path":"/etc/passwd","items":[{"n":1,"p":2.5},{"n":3,"p":1000}]}"#;
    for rule in [
        "args.path.startsWith('/etc/') && args.path.contains('pass') && args.path.endsWith('d')",
        "args.items.exists(i, i.n * i.p > 2999)",
        "args.items.all(i, i.n >= 1) && args.items.exists_one(i, i.n == 3)",
        "args.items.map(i, i.n + 1) == [2, 4] && size(args.items.filter(i, i.n > 2)) == 1",
        "has(args.path) && !has(args.other) && args.items.size() == 2 && type(args.path) == string",
        "args.items[0].n + args.items[1].n == 4 && args['path'] != ''",
        "args.items.map(i, i.p > 100, i.n) == [3]",
        "args.items.all(i, args.items.exists(j, j.n >= i.n))",
        "int('3') == 3 && string(3) == '3' && double('2.5') == 2.5 && dyn(1) == 1 && 'a' + 'b' == 'ab'",
        "[1] + [2] == [1, 2] && {'a': 1}.a == 1 && (1 > 2 ? false : true) && -1 < 0 && 7 % 4 == 3",
    ] {
        assert_eq!(ask(rule, args), Ok(true), "{rule}");
    }
}

#[test]
fn p1_integers_compare_exactly_and_never_by_rounding() {
    let over = r#"{"n":9007199254740993}"#;
    assert_eq!(ask("args.n > 9007199254740992", over), Ok(true));
    assert_eq!(ask("args.n == 9007199254740993", over), Ok(true));
    assert_eq!(ask("args.n + 1 == 9007199254740994", over), Ok(true));
    assert_eq!(ask("args.n > 18446744073709551614u", r#"{"n":18446744073709551615}"#), Ok(true));
    // As a double it would be equal, so the comparison is an error, and a person is asked.
    assert!(ask("args.n > 9007199254740992.0", over).expect_err("inexact").contains("cannot be held exactly"));
    assert!(ask("args.n * 1.5 > 1.0", over).is_err());
    assert_eq!(ask("args.n * 1.5 > 1.0", r#"{"n":9007199254740992}"#), Ok(true));
}

#[test]
fn p2_a_failed_evaluation_is_an_error() {
    for (rule, args, part) in [
        ("args.price > 5", "{}", "there is no `price`"),
        ("args.price > 5", r#"{"price":"high"}"#, "can not be compared"),
        ("args.a * args.b > 5", r#"{"a":9223372036854775807,"b":2}"#, "Overflow"),
        ("1 / args.a > 5", r#"{"a":0}"#, "Division by zero"),
        ("args.a", r#"{"a":1}"#, "neither true nor false but int"),
        ("args.a.b.c", r#"{"a":1}"#, ""),
        ("int(args.a) > 1", r#"{"a":"x"}"#, ""),
        ("0.0 / 0.0 > 1.0", "{}", "can not be compared"),
    ] {
        let error = ask(rule, args).expect_err(rule);
        assert!(error.contains(part), "{rule}: {error}");
        assert!(error.chars().count() < 400, "{rule}");
    }
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(100_000));
    assert!(ask("args.a * 2 > 1", &long).expect_err("error").len() < 1000);
}

/// In CEL they are unequal. A rule that is written with the wrong type would then never match, and let its calls run.
#[test]
fn p2_values_of_different_types_are_not_silently_unequal() {
    let args = r#"{"n":100,"s":"100","b":true,"l":["a"],"o":{"k":1},"z":null,"big":9007199254740993}"#;
    for rule in [
        "args.n == '100'",
        "args.s == 100",
        "args.s != 100",
        "args.b == 'true'",
        "args.l == 'a'",
        "user.roles == 'user'",
        "args.n in ['100', '200']",
        "args.s in [100]",
        "1 in args.o",
        "args.s in args.s",
        "args.big == 9007199254740992.0",
        "args.l.exists(i, i == 1)",
        "args.l == [1]",
        "args.o == {'k': '1'}",
        "args.l in [[1]]",
        "[args.big] == [9007199254740992.0]",
    ] {
        let error = ask(rule, args).expect_err(rule);
        assert!(error.contains("can not be compared") || error.contains("cannot be held exactly"), "{rule}: {error}");
    }
    for rule in [
        "args.n == 100.0 && args.n != 100.5 && args.n == 100u && !(args.n == 5u)",
        "args.z == null && args.n != null && null != args.s && !(args.z == 'x')",
        "args.n in [1, 100] && !(args.n in [1.5]) && 100.0 in [args.n] && !(args.n in [])",
        "args.s in ['a', 100, '100'] && !(args.s in ['a', 100]) && !(args.s in [null])",
        "'k' in args.o && !('x' in args.o) && 'user' in user.roles && !('a' in {})",
        "type(args.s) == string && type(args.n) != string && args.l == ['a'] && args.o == {'k': 1.0}",
        "args.n == '100' || args.n == 100",
        "args.l != [1, 2] && args.o != {'x': 'y'} && [args.n, args.s] != ['100', 'x'] && [args.z] == [null]",
        "args.l.exists_one(i, i == 'a') && args.l.filter(i, i == 'a') == args.l",
    ] {
        assert_eq!(ask(rule, args), Ok(true), "{rule}");
    }
}

#[test]
fn p1_unknown_names_are_refused_with_the_nearest_valid_one() {
    for (rule, message) in [
        ("arg.price > 5", "unknown variable `arg`; did you mean `args`?"),
        ("sesion.id == ''", "unknown variable `sesion`; did you mean `session`?"),
        ("user.sub == ''", "unknown field of `user` `sub`; known are subject, roles, tenant"),
        ("session.subjct == ''", "unknown field of `session` `subjct`; did you mean `subject`?"),
        ("args.a.startWith('x')", "unknown function `startWith`; did you mean `startsWith`?"),
        ("price > 5", "unknown variable `price`; known are args, agent, tool, session, user"),
        ("args.l.exists(i, k > 1)", "unknown variable `k`; did you mean `i`?"),
        ("args.l.exists(i, true) && i > 1", "unknown variable `i`; known are args, agent, tool, session, user"),
        ("args.l.exists(1, 2, 3)", "`exists` is called with the wrong arguments"),
        ("Order{a: 1}.a == 1", "unknown type `Order`"),
        ("", "the condition is empty"),
    ] {
        let error = refused(rule);
        assert_eq!(error, message, "{rule}");
    }
    assert!(refused("args.a.matches('(a+)+$')").starts_with("unknown function `matches`; known are all, bool"));
    assert!(refused("optional.of(1) == 1").starts_with("unknown function `of`; known are all, bool"));
    assert_eq!(refused("args.a >"), "the condition is not valid CEL: it ends too early (at character 9)");
    assert_eq!(refused("a b"), "the condition is not valid CEL: extraneous input 'b' expecting <EOF> (at character 3)");
}

#[test]
fn r9_an_expression_cannot_exhaust_the_stack() {
    let nested = |n: usize| format!("{}true{}", "(".repeat(n), ")".repeat(n));
    assert_eq!(ask(&nested(16), "{}"), Ok(true));
    for rule in [
        nested(17),
        nested(500),
        "!".repeat(1000) + "true",
        "-".repeat(1000) + "1 == 1",
        format!("true{}", " ? true : true".repeat(70)),
        format!("args{}", ".a".repeat(500)),
        format!("1{} > 0", "+1".repeat(500)),
        format!("'((((((((((((((((((((' == '' || {}", nested(40)),
        "[".repeat(1024),
        "{".repeat(1024),
        "a(".repeat(500),
        "f'".repeat(500),
        "x".repeat(1025),
        // A raw string that hides the brackets from our own count.
        format!("r'\\' == '' || {}1 == 1{}", "(".repeat(480), ")".repeat(480)),
        // The pattern on which the parser was exponential.
        format!("{}1{}", "[?{".repeat(40), "}]".repeat(40)),
    ] {
        // `!!` and `--` cancel out, so these may compile; all others are refused, and nothing crashes.
        if let Ok(condition) = CelCondition::compile(&rule) {
            assert!(rule.starts_with('!') || rule.starts_with('-'), "{rule}");
            drop(condition);
        }
    }
    let long = vec!["args.a == 1"; 60].join(" || ");
    assert_eq!(ask(&long, r#"{"a":2}"#), Ok(false));
    let deep = format!("1{} > 0", "+1".repeat(29));
    assert_eq!(ask(&deep, "{}"), Ok(true));
}

#[test]
fn r9_loops_over_large_arguments_end_in_time() {
    let items = vec!["1"; 60_000].join(",");
    let args = format!(r#"{{"l":[{items}]}}"#);
    let start = Instant::now();
    for rule in [
        "args.l.all(a, args.l.all(b, args.l.all(c, a == b && b == c)))",
        "args.l.exists(a, args.l.exists(b, a != b)) && true",
        "size(args.l.map(a, args.l.filter(b, a == b))) > 0",
    ] {
        let error = ask(rule, &args).expect_err(rule);
        assert!(error.contains("took too long") || error.contains("it makes more than"), "{rule}: {error}");
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn r9_what_an_expression_makes_of_the_arguments_is_bounded() {
    let args = format!(r#"{{"s":"{}","l":[{}]}}"#, "x".repeat(200_000), vec!["1"; 1000].join(","));
    // Without a loop the time is not checked.
    let joined = format!("size({}) > 0", vec!["args.s"; 15].join(" + "));
    let error = ask(&joined, &args).expect_err("too much");
    assert!(error.contains("it makes more than 16777216 bytes"), "{error}");
    for rule in [
        "size(args.l.map(a, args.s + args.s)) > 0",
        "size(args.l.map(a, bytes(args.s))) > 0",
        "size(args.l.map(a, [string(args.s), {'k': bytes(args.s)}])) > 0",
        "size(args.l.map(a, args.l.map(b, args.l + args.l))) > 0",
        "size(args.l.filter(a, size(args.s + args.s + args.s + args.s + args.s) == 1)) > 0",
    ] {
        let error = ask(rule, &args).expect_err(rule);
        // On a slow machine the time limit is reached first.
        assert!(error.contains("it makes more than") || error.contains("took too long"), "{rule}: {error}");
    }
    // Realistic rules need far less, and each evaluation has the full budget.
    let small = format!(r#"{{"s":"{}","l":[1,2,3]}}"#, "x".repeat(100_000));
    for _ in 0..100 {
        assert_eq!(ask("size(args.l.map(a, string(a) + 'x')) == 3 && args.s + '!' != args.s", &small), Ok(true));
    }
}

proptest! {
    #[test]
    fn r9_any_text_gives_an_answer(text in "[a-z0-9.()\\[\\]{}!&|?:+*/<>=' -]{0,80}") {
        if let Ok(condition) = CelCondition::compile(&text) {
            let args = Args::parse("{}").expect("args");
            let call = CallFacts {
                session_id: "s",
                subject: None,
                tenant: None,
                roles: &[],
                agent: "a",
                tool: "t",
                call_id: "c",
                args: &args,
                context: &crate::tool::AppContext::default(),
            };
            let _ = condition.holds(&CelScope::of(&call));
        }
    }
}
