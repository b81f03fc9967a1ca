//! `[policy]`, and how approval is requested: valid files, and each mistake with the line an operator reads.

use countersign_core::call::timeout::Timeout;
use countersign_core::call::{
    args::Args,
    gate::{Risk, Verdict},
    reviewer::Reviewer,
};
use countersign_engine::{
    policy::{Judge, Then},
    tool::{CallFacts, Hints},
};

use super::*;

/// A tool `pay` for the agent, and its reviewers; tests append a policy (from line 21 on).
const PAYS: &str = r#"[models.demo]
provider = "scripted"
script = "demo.json"
[agents.trader]
model = "demo"
tools = ["pay", "look_up"]
[tools.pay]
command = ["./tool"]
[tools.look_up]
command = ["./tool"]
hints = { read_only = true }
[[auth.tokens]]
subject = "alice"
roles = ["user", "trader", "desk"]
token_env = "ALICE_TOKEN"
[[auth.tokens]]
subject = "bob"
roles = ["admin", "legal"]
token_env = "BOB_TOKEN"

"#;

/// Others with bob's roles, so that distinct people can decide.
fn others() -> String {
    let other = |(name, digit): (&str, &str)| {
        let digest = digit.repeat(64);
        format!("[[auth.tokens]]\nsubject = \"{name}\"\nroles = [\"admin\", \"legal\"]\ntoken_sha256 = \"{digest}\"\n")
    };
    [("cat", "1"), ("dan", "2")].map(other).concat()
}

fn warnings(text: &str) -> Vec<String> {
    parse(text).expect("config").warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn p1_every_key_of_a_rule_is_read() {
    let text = format!(
        "{PAYS}{}",
        r#"[[policy.rules]]
name = "Large payments"
tool = ["pay", "look_*"]
agent = "trader"
hints = { read_only = false, destructive = true, open_world = true, idempotent = false }
role = ["desk", "trader"]
when = "args.amount > 10"
require = "args.amount > 1000"
levels = ["user", "admin"]
quorum = 2
not_self = true
allowed_decisions = ["approve", "reject"]
timeout = 60
on_timeout = { escalate = ["legal", "admin"] }
reminders = [10, 30]
reassign = ["legal"]
[[policy.rules]]
tool = "look_up"
require = false
[[policy.rules]]
agent = ["trader"]
role = "trader"
deny = "not on Fridays"
[[policy.rules]]
deny = true
"#
    );
    let config = parse(&format!("{text}{}", others())).expect("config");
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let reviewers = |names: &[&str]| names.iter().copied().map(Reviewer::of).collect::<Vec<_>>();
    let ask = Ask {
        timeout: Timeout::of(60),
        allowed: Some(vec![DecisionType::Approve, DecisionType::Reject]),
        levels: reviewers(&["user", "admin"]),
        quorum: 2,
        not_self: true,
        escalate: reviewers(&["legal", "admin"]),
        reminders: vec![10, 30],
        reassign: reviewers(&["legal"]),
        ..Ask::default()
    };
    let large = ConfigRule {
        line: 21,
        name: Some("Large payments".to_owned()),
        tools: names(&["pay", "look_*"]),
        agents: names(&["trader"]),
        hints: [Some(false), Some(true), Some(true), Some(false)],
        roles: names(&["desk", "trader"]),
        when: Some("args.amount > 10".to_owned()),
        then: ConfigThen::Require(ConfigRequire::When("args.amount > 1000".to_owned()), ask.clone()),
    };
    let bare = |line, then| ConfigRule {
        line,
        name: None,
        tools: Vec::new(),
        agents: Vec::new(),
        hints: [None; 4],
        roles: Vec::new(),
        when: None,
        then,
    };
    let look = ConfigThen::Require(ConfigRequire::Never, Ask::default());
    let friday = ConfigThen::Deny(Some("not on Fridays".to_owned()));
    assert_eq!(
        config.rules,
        [
            large,
            ConfigRule { tools: names(&["look_up"]), ..bare(37, look) },
            ConfigRule { agents: names(&["trader"]), roles: names(&["trader"]), ..bare(40, friday) },
            bare(44, ConfigThen::Deny(None)),
        ]
    );
    let policy = config.policy().expect("policy");
    assert_eq!(policy.rules.len(), 4);
    assert!(matches!(&policy.rules[0].then, Then::AskWhen(_, asked) if *asked == ask), "{:?}", policy.rules[0]);
    assert!(matches!(policy.rules[1].then, Then::Allow) && matches!(policy.rules[3].then, Then::Deny(None)));
}

#[test]
fn p1_a_tool_says_how_it_is_asked_about_and_what_it_does() {
    let approval = r#"approval = { require = true, levels = ["admin"], quorum = 2, not_self = true, timeout = 9, on_timeout = { escalate = "legal" }, reminders = [3], reassign = ["legal"], risk = "high" }
hints = { destructive = false, open_world = false }
"#;
    let config = parse(&PAYS.replace("[tools.look_up]\n", &format!("{approval}[tools.look_up]\n"))).expect("config");
    let ask = Ask {
        timeout: Timeout::of(9),
        levels: vec!["admin".into()],
        quorum: 2,
        not_self: true,
        escalate: vec!["legal".into()],
        reminders: vec![3],
        reassign: vec!["legal".into()],
        risk: Some(Risk::High),
        ..Ask::default()
    };
    assert_eq!(config.tools[0].approval, Some(ConfigApproval { require: ConfigRequire::Always, ask }));
    assert_eq!(config.tools[0].hints, Some(Hints { read_only: false, destructive: false, open_world: false }));
    // A read-only tool is not destructive, unless declared so.
    assert_eq!(config.tools[1].hints, Some(Hints { read_only: true, destructive: false, open_world: true }));
    let plain = parse(PAYS).expect("config");
    let unsaid = tool_entries(&plain).expect("entries")["pay"].hints;
    assert_eq!(unsaid, Hints { read_only: false, destructive: true, open_world: true });
}

#[test]
fn p1_a_rule_may_be_about_a_handoff() {
    let rule = |tool: &str| format!("{PAYS}\n[[policy.rules]]\ntool = \"{tool}\"\nrequire = true\n");
    let config = parse(&rule("transfer_to_trader")).expect("config");
    assert_eq!(config.rules.last().expect("the rule").tools, ["transfer_to_trader"]);
    assert!(parse(&rule("transfer_to_nobody")).is_err(), "there is no such agent");
}

#[test]
fn p1_each_mistake_in_a_rule_is_told_with_its_line() {
    // The body of a rule (so it begins in line 22), and its one error.
    for (added, line) in [
        ("", r#"21: missing "require" in [[policy.rules]]: true, false or a condition (or "deny")"#),
        (
            "levels = [\"admin\"]",
            r#"21: missing "require" in [[policy.rules]]: true, false or a condition (or "deny")"#,
        ),
        ("require = true\ntools = \"pay\"", r#"23: unknown key "tools" in [[policy.rules]]; did you mean "tool"?"#),
        ("require = true\nqourum = 2", r#"23: unknown key "qourum" in [[policy.rules]]; did you mean "quorum"?"#),
        (
            "requires = true\nrequire = true",
            r#"22: unknown key "requires" in [[policy.rules]]; did you mean "require"?"#,
        ),
        ("require = true\ntool = \"pya\"", r#"23: unknown tool "pya" in [[policy.rules]]; did you mean "pay"?"#),
        (
            "require = true\ntool = [\"pay\", \"wipe_everything\"]",
            r#"23: unknown tool "wipe_everything" in [[policy.rules]]"#,
        ),
        ("require = true\ntool = []", r#"23: "tool" in [[policy.rules]] must not be empty; leave it out to match all"#),
        ("require = true\ntool = 1", r#"23: "tool" in [[policy.rules]] must be a list of strings, not a whole number"#),
        (
            "require = true\nagent = \"trade\"",
            r#"23: unknown agent "trade" in [[policy.rules]]; did you mean "trader"?"#,
        ),
        (
            "require = true\nrole = \"a b\"",
            r#"23: "role" in [[policy.rules]] has "a b", which is not a role; a role has the characters A-Z a-z 0-9 _ - . :"#,
        ),
        // Spec P1: `user` is the requester, everywhere.
        (
            "require = true\nrole = \"user\"",
            r#"23: "role" in [[policy.rules]] cannot be "user": everybody who asks is the user; leave it out to match all"#,
        ),
        (
            "require = true\nrole = [\"trader\", \"user\"]",
            r#"23: "role" in [[policy.rules]] cannot be "user": everybody who asks is the user; leave it out to match all"#,
        ),
        (
            "deny = true\ntool = [\"pay\", \"ask_user_question\"]",
            r#"23: "tool" in [[policy.rules]] names "ask_user_question", which has nothing to approve: no rule matches it"#,
        ),
        (
            "require = true\nhints = { readonly = true }",
            r#"23: unknown key "readonly" in [policy.rules.hints]; did you mean "read_only"?"#,
        ),
        (
            "require = true\nhints = { read_only = 1 }",
            r#"23: "read_only" in [policy.rules.hints] must be true or false, not a whole number"#,
        ),
        ("require = true\nhints = true", r#"23: "hints" in [[policy.rules]] must be a table, not true or false"#),
        (
            "require = true\nwhen = \"arg.n > 1\"",
            r#"23: "when" in [[policy.rules]]: unknown variable `arg`; did you mean `args`?"#,
        ),
        ("require = true\nwhen = true", r#"23: "when" in [[policy.rules]] must be a string, not true or false"#),
        (
            "require = \"args.n >\"",
            r#"22: "require" in [[policy.rules]]: the condition is not valid CEL: it ends too early (at character 9)"#,
        ),
        (
            "require = \"user.role == 'x'\"",
            r#"22: "require" in [[policy.rules]]: unknown field of `user` `role`; did you mean `roles`?"#,
        ),
        ("require = 1", r#"22: "require" in [[policy.rules]] must be true, false or a condition, not a whole number"#),
        (
            "require = true\nname = \"\"",
            r#"23: "name" in [[policy.rules]] must have 1 to 1024 bytes and no control characters"#,
        ),
        (
            "deny = true\nrequire = true",
            r#"23: "require" in [[policy.rules]] cannot be combined with "deny": what is refused does not run"#,
        ),
        (
            "deny = \"no\"\nallowed_decisions = [\"reject\"]",
            r#"23: "allowed_decisions" in [[policy.rules]] cannot be combined with "deny": nobody is asked"#,
        ),
        (
            "deny = false",
            r#"22: "deny" in [[policy.rules]] is false; leave it out, and say with "require" what is to happen"#,
        ),
        ("deny = \" \"", r#"22: "deny" in [[policy.rules]] must have 1 to 1024 bytes, or be true"#),
        (
            "require = false\nlevels = [\"admin\"]",
            r#"23: "levels" in [[policy.rules]] cannot be combined with "require = false": nobody is asked"#,
        ),
        (
            "require = true\nlevels = \"admin\"",
            r#"23: "levels" in [[policy.rules]] must be a list of strings, not a string"#,
        ),
        ("require = true\nlevels = []", r#"23: "levels" in [[policy.rules]] must name at least one role"#),
        ("require = true\nlevels = [\"admin\", \"admin\"]", r#"23: "levels" in [[policy.rules]] has "admin" twice"#),
        (
            "require = true\nquorum = 2",
            r#"23: "quorum" in [[policy.rules]] is 2, but the session's owner is one person; name other roles in "levels""#,
        ),
        ("require = true\nquorum = 0", r#"23: "quorum" in [[policy.rules]] is 0; it must be 1 to 100"#),
        (
            "require = true\nnot_self = true\nlevels = [\"user\"]",
            r#"23: "not_self" in [[policy.rules]] leaves nobody who may approve: name a role other than "user" in "levels""#,
        ),
        (
            "require = true\nallowed_decisions = [\"aprove\"]",
            r#"23: unknown decision "aprove" in [[policy.rules]]; did you mean "approve"?"#,
        ),
        (
            "require = true\nlevels = [\"admin\"]\nnot_self = true\non_timeout = { escalate = \"user\" }",
            r#"25: "on_timeout" in [[policy.rules]] names "user", who asked for it, which goes around "not_self"; name another role"#,
        ),
        (
            "require = true\nlevels = [\"admin\"]\nquorum = 2\nreassign = [\"user\"]",
            r#"25: "reassign" in [[policy.rules]] names "user", who asked for it, which goes around "quorum"; name another role"#,
        ),
        (
            "require = true\ntimeout = \"5m\"",
            r#"23: "timeout" in [[policy.rules]] must be a whole number of seconds, not a string"#,
        ),
        (
            "require = true\non_timeout = \"escalate\"",
            r#"23: "on_timeout" in [[policy.rules]] is "escalate"; it must be "reject", { escalate = "ROLE" } or { escalate = ["ROLE", …] }"#,
        ),
        (
            "require = true\non_timeout = {}",
            r#"23: "on_timeout" in [[policy.rules]] must be "reject", { escalate = "ROLE" } or { escalate = ["ROLE", …] }"#,
        ),
        (
            "require = true\non_timeout = { escalate = [] }",
            r#"23: "escalate" in [policy.rules.on_timeout] must name at least one role"#,
        ),
        (
            "require = true\non_timeout = { escalate = \"admin\", after = 5 }",
            r#"23: unknown key "after" in [policy.rules.on_timeout]"#,
        ),
        (
            "require = true\ntimeout = 0\non_timeout = { escalate = \"admin\" }",
            r#"24: "on_timeout" in [[policy.rules]] never happens: "timeout" is 0, which waits for ever"#,
        ),
        (
            "require = true\ntimeout = 60\nreminders = [60]",
            r#"24: "reminders" in [[policy.rules]] has 60, but after 60 seconds ("timeout") it is over"#,
        ),
        (
            "require = true\nreminders = [20, 10]",
            r#"23: "reminders" in [[policy.rules]] has 10 after a later one; write them in order, each once"#,
        ),
        (
            "require = true\nreminders = 60",
            r#"23: "reminders" in [[policy.rules]] must be a list of whole numbers, not a whole number"#,
        ),
        (
            "require = true\nreassign = [\"a b\"]",
            r#"23: "reassign" in [[policy.rules]] has "a b", which is not a role; a role has the characters A-Z a-z 0-9 _ - . :"#,
        ),
        (
            "require = true\nrisk = \"grave\"",
            r#"23: "risk" in [[policy.rules]] is "grave"; it must be "low", "medium" or "high""#,
        ),
    ] {
        let text = format!("{PAYS}[[policy.rules]]\n{added}\n");
        assert_eq!(lines(&text), [format!("countersign.toml:{line}")], "{added}");
    }
    for (policy, line) in [
        ("[policy]\nrule = []", r#"22: unknown key "rule" in [policy]; did you mean "rules"?"#),
        (
            "[policy]\nrules = true",
            r#"22: "rules" in [policy] must be a list of tables ([[policy.rules]]), not true or false"#,
        ),
        ("[policy]\nrules = [1]", r#"22: "rules" in [policy] must be a list of tables, not a whole number"#),
        ("[[policy]]\ntool = \"pay\"", r#"21: "policy" must be a table, not a list"#),
    ] {
        assert_eq!(lines(&format!("{PAYS}{policy}\n")), [format!("countersign.toml:{line}")], "{policy}");
    }
}

#[test]
fn p1_mistakes_in_the_hints_of_a_tool_are_told_with_their_line() {
    for (hints, line) in [
        (
            "{ read_only = true, destructive = true }",
            r#"12: "destructive" in [tools.look_up.hints] is true, but "read_only" says that it changes nothing"#,
        ),
        ("{ openworld = true }", r#"12: unknown key "openworld" in [tools.look_up.hints]; did you mean "open_world"?"#),
        ("[]", r#"12: "hints" in [tools.look_up] must be a table, not a list"#),
    ] {
        let text = PAYS.replace("hints = { read_only = true }", &format!("\nhints = {hints}"));
        assert_eq!(lines(&text), [format!("countersign.toml:{line}")], "{hints}");
    }
}

/// Spec P1: files that are valid but have no effect, or can never be decided, are warned of.
#[test]
fn p1_a_rule_that_cannot_do_what_it_says_is_a_warning() {
    for (policy, warned) in [
        (
            "[[policy.rules]]\ntool = \"delete_*\"\ndeny = true",
            vec![r#"22: no tool matches "delete_*" in [[policy.rules]]"#],
        ),
        (
            "[[policy.rules]]\ntool = \"*\"\nrequire = true\n[[policy.rules]]\ntool = \"pay\"\ndeny = true",
            vec!["24: this rule is never reached: the one at line 21 matches every call"],
        ),
        (
            "[[policy.rules]]\nrequire = true\nlevels = [\"admn\"]\non_timeout = { escalate = \"board\" }\nreassign = [\"legal\"]",
            vec![
                r#"23: nobody in [[auth.tokens]] has the role "admn"; did you mean "admin"?"#,
                r#"24: nobody in [[auth.tokens]] has the role "board""#,
            ],
        ),
        (
            "[[policy.rules]]\nrole = \"tradr\"\nrequire = true",
            vec![r#"22: nobody in [[auth.tokens]] has the role "tradr"; did you mean "trader"?"#],
        ),
    ] {
        let warned: Vec<String> = warned.into_iter().map(|line| format!("countersign.toml:{line}")).collect();
        assert_eq!(warnings(&format!("{PAYS}{policy}\n")), warned, "{policy}");
    }
}

#[test]
fn p1_different_people_where_nobody_can_be_told_apart_are_a_warning() {
    let open = PAYS.split("[[auth.tokens]]").next().expect("the beginning");
    let rule = "[[policy.rules]]\nrequire = true\nlevels = [\"admin\"]\nquorum = 2\nnot_self = true\n";
    let what = "needs different people: without [auth] nobody can be told apart, so nobody can approve it";
    assert_eq!(
        warnings(&format!("{open}{rule}")),
        [
            format!(r#"countersign.toml:15: "quorum" in [[policy.rules]] {what}"#),
            format!(r#"countersign.toml:16: "not_self" in [[policy.rules]] {what}"#),
        ]
    );
    let tool =
        open.replace("[tools.look_up]\n", "approval = { levels = [\"admin\"], not_self = true }\n[tools.look_up]\n");
    assert_eq!(warnings(&tool), [format!(r#"countersign.toml:9: "not_self" in [tools.pay.approval] {what}"#)]);
    assert!(warnings(&format!("{PAYS}{rule}{}", others())).is_empty());
}

#[test]
fn r9_a_policy_has_a_bounded_number_of_rules() {
    let rules = "[[policy.rules]]\ntool = \"pay\"\nrequire = true\n".repeat(10_001);
    let [line] = lines(&format!("{PAYS}{rules}")).try_into().expect("one line");
    assert!(line.ends_with("a policy has at most 10000 rules"), "{line}");
}

/// `examples/policy.toml`: its verdicts, so that its comments are true.
#[tokio::test]
async fn p1_the_example_of_a_policy_says_what_its_comments_say() {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policy.toml"));
    let config = Config::load(&file).expect("the example");
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let tools = tool_entries(&config).expect("tools");
    let of_clerk = config.agents[0].tools.iter().map(|name| ("clerk".to_owned(), tools[name].clone()));
    let judge = Judge::new(config.policy().expect("policy"), of_clerk);
    let mut said = Vec::new();
    for (tool, role, args, levels, reason) in [
        ("delete_supplier", "finance", "{}", None, "suppliers are never deleted; mark them as closed"),
        ("find_invoice", "user", "{}", None, ""),
        ("pay", "user", r#"{"amount":100000}"#, Some("finance, board"), "Very large payment"),
        ("pay", "finance", r#"{"amount":99999}"#, Some("finance"), "Large payment"),
        ("pay", "finance", r#"{"amount":1}"#, Some("finance"), "Four eyes"),
        ("pay", "user", r#"{"amount":100}"#, Some(""), "Payment"),
        ("pay", "user", r#"{"amount":99}"#, None, ""),
        ("change_account", "user", "{}", Some("finance"), "Bank details"),
        ("send_mail", "user", r#"{"to":"bea@example.com"}"#, None, ""),
        // The rule allows it, the tool does not.
        ("send_mail", "user", r#"{"to":"bea@example.org"}"#, Some(""), "!args.to.endsWith('@example.com')"),
        ("close_supplier", "user", "{}", Some("finance"), "Everything else"),
        // A condition that fails requires approval, as its rule would (spec P2).
        ("pay", "user", r#"{"amount":"many"}"#, Some("finance, board"), "the condition failed"),
    ] {
        let (args, roles) = (Args::parse(args).expect("arguments"), [role.to_owned()]);
        let call = CallFacts {
            context: &countersign_engine::tool::AppContext::default(),
            session_id: "s",
            subject: Some("ann"),
            tenant: None,
            roles: &roles,
            agent: "clerk",
            tool,
            call_id: "c",
            args: &args,
        };
        let about = format!("{tool} {role} {}", args.text());
        match judge.verdict(&call, Locale::En).await.expect("a tool of the clerk's") {
            Verdict::Allow => assert_eq!((levels, reason), (None, ""), "{about}"),
            Verdict::Deny(text) => assert_eq!((levels, reason), (None, &*text), "{about}"),
            Verdict::Ask(ask) => {
                let why = ask.reason.as_deref().unwrap_or_default();
                assert_eq!(levels, Some(&*Reviewer::join(&ask.levels, ", ")), "{about}");
                assert!(why.contains(reason), "{about}: {why}");
                said.push(ask);
            }
            other => panic!("{about}: {other:?}"),
        }
    }
    let [very_large, large, four_eyes, _, bank, ..] = said.as_slice() else { panic!("{said:?}") };
    assert!(very_large.not_self && very_large.reminders == [3600, 43200] && very_large.timeout == Timeout::of(86400));
    assert_eq!((large.quorum, large.reassign.as_slice(), large.not_self), (2, &["audit".into()][..], false));
    assert!(four_eyes.not_self && four_eyes.quorum == 1);
    assert_eq!((Reviewer::join(&bank.escalate, ", ").as_str(), bank.allowed().len()), ("audit, board", 2));
}
