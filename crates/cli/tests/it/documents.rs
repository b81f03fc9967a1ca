//! What the documents show works as it stands there: configurations are checked, recipes talk with the real demo.

use std::{fs, path::Path};

use crate::{
    demo::{Demo, book, demo},
    support::{Ended, python, run, run_program},
};

/// A page of the repository.
fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// The blocks of a page in a language, in order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("\n```{language}\n");
    page.split(&*fence).skip(1).map(|rest| format!("{}\n", rest.split("\n```").next().unwrap())).collect()
}

/// Checks a configuration; the key of its model is there.
fn check(config: &str) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("countersign.toml"), config).unwrap();
    run(dir.path(), &["check"], "", &[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")])
}

#[track_caller]
fn is_right(config: &str) {
    let ended = check(config);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{config}");
    assert!(ended.stdout.contains("\"Large payment\": pay, when args.amount >= 10000"), "{}", ended.stdout);
}

#[test]
fn u3_the_configuration_of_the_readme_is_right_with_each_of_its_models() {
    let config = blocks(&page("README.md"), "toml");
    let [agent, policy] = &config[..] else { panic!("{} configurations", config.len()) };
    let openai = format!("{agent}\n{policy}");
    is_right(&openai);
    let anthropic = openai.replace("\"openai\"", "\"anthropic\"").replace("OPENAI_API_KEY", "ANTHROPIC_API_KEY");
    is_right(&anthropic);
    let key = "api_key_env = \"OPENAI_API_KEY\"";
    let address = "base_url = \"http://127.0.0.1:11434/v1\"";
    assert!(agent.contains(key) && agent.contains("provider = \"openai-chat\"") && agent.contains(address));
    is_right(&openai.replace("\"openai\" ", "\"openai-chat\" ").replace(key, address));
}

#[test]
fn u3_the_configuration_of_the_quickstart_is_right_after_each_step() {
    let config = blocks(&page("docs/quickstart.md"), "toml");
    let [agent, approval, policy] = &config[..] else { panic!("{} configurations", config.len()) };
    assert_eq!(check(agent).code, Some(0));
    assert_eq!(agent.matches("approval = true\n").count(), 1);
    is_right(&format!("{}\n{policy}", agent.replace("approval = true\n", approval)));
}

/// A program of the page about clients, for a server at another address.
fn recipe(language: &str, n: usize, demo: &Demo) -> String {
    let mut recipes = blocks(&page("docs/clients.md"), language);
    let (recipe, address) = (recipes.remove(n), "127.0.0.1:7410");
    assert!(recipe.contains(address));
    recipe.replace(address, &demo.1.to_string())
}

#[track_caller]
fn done(ended: &Ended) -> &str {
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    &ended.stdout
}

#[tokio::test]
async fn u2_the_recipe_for_curl_rejects_an_order() {
    let dir = tempfile::tempdir().unwrap();
    let running = demo(dir.path(), "en").await;
    let script = recipe("sh", 0, &running) + &recipe("sh", 1, &running);
    let ended = run_program("sh", dir.path(), &["-ec", &script], "", &[]);
    let told = done(&ended);
    assert!(told.contains(r#""pending":["curl-1_1"]"#) && told.contains(r#""status":"completed""#), "{told}");
    assert!(told.contains("Not today"), "{told}");
    assert!(book(dir.path()).is_empty());
}

#[tokio::test]
async fn u2_the_recipe_for_python_approves_what_it_shows() {
    let dir = tempfile::tempdir().unwrap();
    let running = demo(dir.path(), "en").await;
    let ended = run_program("python3", dir.path(), &["-c", &recipe("python", 0, &running)], "", &[]);
    let told = done(&ended);
    assert!(told.starts_with("execute_trade {\"price\": 82000, \"quantity\": 100"), "{told}");
    assert!(told.contains("completed Done: **Order 1: buy 100 VNM"), "{told}");
    assert_eq!(book(dir.path()).len(), 1);
}

/// `cargo xtask test` runs it with those of third parties.
#[tokio::test]
#[ignore = "needs the packages of tests/third-party/clients/requirements.txt; cargo xtask test has them"]
async fn u2_third_party_websockets_approve_what_the_recipe_for_python_shows() {
    let dir = tempfile::tempdir().unwrap();
    let running = demo(dir.path(), "en").await;
    let script = recipe("python", 1, &running);
    let ended = run_program(&python("clients", "python"), dir.path(), &["-c", &script], "", &[]);
    let told = done(&ended);
    assert!(told.starts_with("Let me look up"), "{told}");
    assert!(told.contains("\n? execute_trade {\"price\": 82000") && told.contains("**Order 1: buy 100 VNM"), "{told}");
    assert_eq!(book(dir.path()).len(), 1);
}
