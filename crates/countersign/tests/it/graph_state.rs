//! States of graphs: what each reducer does, how updates are written, and the errors of updates.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use countersign::graph::{GraphState, Identified, MergeError, Route};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Message {
    id: String,
    text: String,
}

impl Identified for Message {
    fn id(&self) -> &str {
        &self.id
    }
}

fn message(id: &str, text: &str) -> Message {
    Message { id: id.to_owned(), text: text.to_owned() }
}

fn join_lines(text: &mut String, more: String) {
    if text.is_empty() {
        *text = more;
    } else {
        *text = [text.as_str(), &more].join("\n");
    }
}

/// One field of each kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, GraphState)]
struct Essay {
    /// What it is about.
    topic: String,
    editor: Option<u32>,
    #[graph(append)]
    notes: Vec<String>,
    #[graph(append_by_id)]
    messages: Vec<Message>,
    #[graph(add)]
    spent: i64,
    #[graph(max)]
    best: u32,
    #[graph(min)]
    worst: f64,
    #[graph(merge)]
    facts: BTreeMap<String, String>,
    #[graph(reduce = join_lines)]
    text: String,
}

fn after(updates: impl IntoIterator<Item = EssayUpdate>) -> Result<Essay, MergeError> {
    merged(Essay::default(), updates)
}

fn merged<S: GraphState>(mut state: S, updates: impl IntoIterator<Item = S::Update>) -> Result<S, MergeError> {
    state.merge(updates.into_iter().collect()).map(|()| state)
}

/// The error of these updates, with its place.
fn problem(updates: impl IntoIterator<Item = EssayUpdate>) -> (&'static str, String) {
    let error = after(updates).expect_err("an error");
    (error.field, error.problem)
}

fn update() -> EssayUpdate {
    EssayUpdate::new()
}

fn ids(essay: &Essay) -> Vec<&str> {
    essay.messages.iter().map(|message| message.id.as_str()).collect()
}

#[test]
fn g1_an_empty_update_changes_nothing() {
    assert_eq!(after([]), Ok(Essay::default()));
    assert_eq!(after([update(), EssayUpdate::default()]), Ok(Essay::default()));
    assert_eq!(json!(update()), json!({}));
}

#[test]
fn g1_each_reducer_takes_the_updates_in_the_order_of_the_tasks() {
    let one = update()
        .topic("tea")
        .notes(["a".to_owned()])
        .messages([message("1", "first"), message("2", "second")])
        .spent(5)
        .best(7)
        .worst(-1.5)
        .facts([("leaf".to_owned(), "green".to_owned()), ("cup".to_owned(), "blue".to_owned())])
        .text("one");
    let two = update()
        .editor(Some(3))
        .notes(["b".to_owned(), "c".to_owned()])
        .messages([message("3", "third"), message("1", "first, again")])
        .spent(-7)
        .best(2)
        .worst(0.5)
        .facts([("leaf".to_owned(), "black".to_owned())])
        .text("two");
    let essay = after([one, two]).expect("merged");
    let facts = BTreeMap::from([("cup".to_owned(), "blue".to_owned()), ("leaf".to_owned(), "black".to_owned())]);
    let expected = Essay {
        topic: "tea".to_owned(),
        editor: Some(3),
        notes: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
        messages: vec![message("1", "first, again"), message("2", "second"), message("3", "third")],
        spent: -2,
        best: 7,
        worst: -1.5,
        facts,
        text: "one\ntwo".to_owned(),
    };
    assert_eq!(essay, expected);
    assert_eq!(merged(essay, [update().best(8).worst(9.0)]).expect("merged").best, 8);
}

#[test]
fn g1_two_tasks_that_set_one_field_are_an_error_that_names_it() {
    let expected = "two nodes of one step have set it; give it a reducer or set it in one of them";
    let updates = [update().topic("a"), update().notes(["x".to_owned()]), update().topic("a")];
    assert_eq!(problem(updates), ("topic", expected.to_owned()));
    let error = after([update().editor(None), update().editor(None)]).expect_err("an error");
    assert_eq!(error.to_string(), format!("the field \"editor\" of the state: {expected}"));
    // Within one update the last value counts.
    assert_eq!(after([update().topic("a").topic("b")]).expect("merged").topic, "b");
}

#[test]
fn g1_a_replacement_replaces_what_was_there_before_the_step_and_loses_nothing_of_it() {
    let before = after([update().notes(["old".to_owned()]).text("old").spent(9)]).expect("merged");
    let others = || update().notes(["mine".to_owned()]).text("mine").spent(1);
    let replaces = || {
        update()
            .notes(["not this".to_owned()])
            .replace_notes(vec!["new".to_owned()])
            .notes(["more".to_owned()])
            .replace_text("new")
            .replace_spent(100)
    };
    let essay = merged(before.clone(), [others(), replaces(), others()]).expect("merged");
    assert_eq!(essay.notes, ["new", "mine", "more", "mine"].map(|mine| mine.to_owned()).to_vec());
    assert_eq!((essay.text.as_str(), essay.spent), ("new\nmine\nmine", 102));

    let expected = "two nodes of one step replace it; replace it in one of them and add to it in the others";
    assert_eq!(problem([replaces(), replaces()]), ("notes", expected.to_owned()));
    let twice = || update().replace_messages(Vec::new());
    assert_eq!(problem([twice(), twice()]), ("messages", expected.to_owned()));
    assert_eq!(merged(before, [update().replace_notes(Vec::new())]).expect("merged").notes, Vec::<String>::new());
}

#[test]
fn g1_messages_are_replaced_and_removed_by_id() {
    let before = after([update().messages(["a", "b", "c"].map(|id| message(id, "old")))]).expect("merged");
    let apply = |update| merged(before.clone(), [update]);

    let essay = apply(update().messages([message("b", "new"), message("d", "new")])).expect("merged");
    assert_eq!(ids(&essay), ["a", "b", "c", "d"]);
    assert_eq!(essay.messages.get(1), Some(&message("b", "new")));

    assert_eq!(ids(&apply(update().remove_messages(["a", "c"])).expect("merged")), ["b"]);
    // Removed and added again: at the end. Added and removed: gone.
    let moved = update().remove_messages(["a"]).messages([message("a", "new")]);
    assert_eq!(ids(&apply(moved).expect("merged")), ["b", "c", "a"]);
    let gone = update().messages([message("d", "new")]).remove_messages(["d".to_owned()]);
    assert_eq!(ids(&apply(gone).expect("merged")), ["a", "b", "c"]);
    // Many at once, some of them twice.
    let many = (0..40).map(|n| message(&format!("m{}", n % 20), &n.to_string())).chain([message("b", "new")]);
    let essay = apply(update().messages(many)).expect("merged");
    assert_eq!((essay.messages.len(), essay.messages.get(4)), (23, Some(&message("m1", "21"))));
    assert_eq!(essay.messages.get(1), Some(&message("b", "new")));
    let twice = update().replace_messages(vec![message("x", "1"), message("y", "2"), message("x", "3")]);
    assert_eq!(apply(twice).expect("merged").messages, [message("x", "3"), message("y", "2")]);
}

#[test]
fn g1_removing_what_is_not_there_is_an_error_that_names_the_id() {
    let (field, problem) = problem([update().messages([message("a", "")]).remove_messages(["a", "b"])]);
    assert_eq!((field, problem.as_str()), ("messages", r#"there is no item with the id "b", which is to be removed"#));
    // That two tasks remove the same item is none.
    let before = after([update().messages([message("a", "")])]).expect("merged");
    let removes = || update().remove_messages(["a"]);
    assert_eq!(ids(&merged(before.clone(), [removes(), removes()]).expect("merged")), [""; 0]);
    assert_eq!(ids(&merged(before, [removes(), update().replace_messages(Vec::new())]).expect("merged")), [""; 0]);
    assert_eq!(
        self::problem([update().messages([message("", "x")])]),
        ("messages", "an item has an empty id".to_owned())
    );
}

#[test]
fn g1_a_sum_that_does_not_fit_is_an_error() {
    let expected = || ("spent", "the sum is more than its type can hold".to_owned());
    assert_eq!(problem([update().spent(i64::MAX), update().spent(1)]), expected());
    assert_eq!(problem([update().spent(i64::MAX).spent(1)]), expected());
    assert_eq!(after([update().spent(i64::MAX), update().spent(-1)]).expect("merged").spent, i64::MAX - 1);

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, GraphState)]
    struct Sums {
        #[graph(add)]
        small: u8,
        #[graph(add)]
        real: f64,
        #[graph(add)]
        time: Duration,
    }
    let before = Sums { small: 1, real: 0.5, time: Duration::from_secs(1) };
    let all = SumsUpdate::new().small(2).real(0.25).time(Duration::from_secs(2));
    let expected = Sums { small: 3, real: 0.75, time: Duration::from_secs(3) };
    assert_eq!(merged(before.clone(), [all]), Ok(expected));
    for wrong in [
        SumsUpdate::new().small(255),
        SumsUpdate::new().real(f64::MAX).real(f64::MAX),
        SumsUpdate::new().time(Duration::MAX),
    ] {
        merged(before.clone(), [wrong]).expect_err("a sum that does not fit");
    }
}

fn json_of(update: &EssayUpdate, expected: &Value) {
    assert_eq!(&json!(update), expected);
    let again: EssayUpdate = serde_json::from_value(expected.clone()).expect("the same update");
    assert_eq!(&again, update);
}

#[test]
fn g1_an_update_in_json_has_only_the_fields_that_change() {
    json_of(&update().topic("tea").editor(None), &json!({"topic": "tea", "editor": null}));
    json_of(&update().notes(["a".to_owned()]).notes(["b".to_owned()]), &json!({"notes": {"add": ["a", "b"]}}));
    json_of(&update().replace_notes(Vec::new()), &json!({"notes": {"replace": []}}));
    let both = update().replace_notes(vec!["a".to_owned()]).notes(["b".to_owned()]);
    json_of(&both, &json!({"notes": {"replace": ["a"], "add": ["b"]}}));
    json_of(&update().spent(3).best(4), &json!({"spent": {"add": 3}, "best": {"add": 4}}));
    json_of(&update().text("a").text("b"), &json!({"text": [{"add": "a"}, {"add": "b"}]}));
    json_of(&update().facts([("a".to_owned(), "b".to_owned())]), &json!({"facts": {"add": {"a": "b"}}}));

    let messages = || update().remove_messages(["x", "y"]).messages([message("a", "b")]);
    let added = json!([{"id": "a", "text": "b"}]);
    json_of(&messages(), &json!({"messages": {"remove": ["x", "y"], "add": added}}));
    json_of(
        &messages().remove_messages(["z"]),
        &json!({"messages": [{"remove": ["x", "y"], "add": added}, {"remove": ["z"]}]}),
    );
    let replaced = update().replace_messages(Vec::new()).remove_messages(["z"]);
    json_of(&replaced, &json!({"messages": {"replace": [], "remove": ["z"]}}));
}

#[test]
fn g1_bad_json_of_an_update_is_refused_with_what_would_be_right() {
    for (wrong, why) in [
        (json!({"topik": "tea"}), "unknown field `topik`, expected one of `topic`, `editor`, `notes`"),
        (json!({"topic": 1}), "expected a string"),
        (json!({"notes": ["a"]}), "invalid type: string \"a\", expected struct Change"),
        (json!({"notes": "a"}), "expected an object with `add` or `replace`, or a list of such objects"),
        (json!({"notes": {"append": ["a"]}}), "unknown field `append`, expected `replace` or `add`"),
        (json!({"notes": {"remove": ["a"]}}), "unknown field `remove`, expected `replace` or `add`"),
        (json!({"notes": {}}), "a change says nothing; it needs `add` or `replace`"),
        (json!({"notes": []}), "a change says nothing; it needs `add` or `replace`"),
        (json!({"messages": [{}]}), "a change says nothing; it needs `add`, `remove` or `replace`"),
        (json!({"messages": {"remove": "a"}}), "invalid type: string \"a\", expected a sequence"),
        (json!({"spent": {"add": "3"}}), "invalid type: string \"3\", expected i64"),
        (json!({"best": {"add": null}}), "invalid type: null, expected u32"),
        (json!(7), "expected struct EssayUpdate"),
    ] {
        let error = serde_json::from_value::<EssayUpdate>(wrong.clone()).expect_err("refused").to_string();
        assert!(error.contains(why), "{wrong}: {error}");
    }
    let twice = serde_json::from_str::<EssayUpdate>(r#"{"topic": "a", "topic": "b"}"#).expect_err("refused");
    assert!(twice.to_string().contains("duplicate field `topic`"), "{twice}");
}

#[test]
fn g1_an_update_is_shown_and_compared_as_its_json() {
    assert_eq!(format!("{:?}", update().topic("tea")), r#"EssayUpdate {"topic":"tea"}"#);
    assert_eq!(update().topic("tea").clone(), update().topic("tea"));
    assert_ne!(update().topic("tea"), update().topic("coffee"));
    assert_ne!(update(), update().replace_notes(Vec::new()));
}

/// Names as serde has them, types of other crates, a keyword, a documented type parameter with bounds.
mod unusual {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, GraphState)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub(super) struct Plan<T: Clone + Ord, const WIDE: bool = false>
    where
        T: Send + Sync,
    {
        #[graph(append)]
        pub(super) open_items: VecDeque<T>,
        #[graph(merge)]
        pub(super) seen: BTreeSet<T>,
        #[serde(rename = "kind", skip_serializing_if = "Option::is_none")]
        pub(super) r#type: Option<T>,
        #[graph(max)]
        pub(super) r#match: Option<T>,
    }

    #[derive(Clone, Serialize, Deserialize, GraphState)]
    pub(super) struct Nothing {}
}

#[test]
fn g1_states_may_be_generic_and_are_called_what_serde_calls_them() {
    fn works<T>(one: T, two: T) -> unusual::Plan<T, true>
    where
        T: Clone + Ord + Default + Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let update = unusual::PlanUpdate::<T, true>::new()
            .open_items([one.clone(), two.clone()])
            .seen([one.clone(), one.clone()])
            .r#type(Some(two.clone()))
            .r#match(Some(two))
            .replace_match(None)
            .r#match(Some(one));
        merged(unusual::Plan::default(), [update]).expect("merged")
    }
    let plan = works(1, 2);
    assert_eq!(json!(plan), json!({"openItems": [1, 2], "seen": [1], "kind": 2, "match": 1}));
    let update = unusual::PlanUpdate::<u8>::new().open_items([3]).r#type(None);
    assert_eq!(json!(update), json!({"openItems": {"add": [3]}, "kind": null}));
    assert_eq!(json!(unusual::NothingUpdate::new()), json!({}));
    merged(unusual::Nothing {}, [unusual::NothingUpdate::new()]).expect("merged");
}

#[test]
fn g1_ways_have_labels() {
    #[derive(Clone, Copy, Debug, PartialEq, Route)]
    enum Verdict {
        #[route(label = "good enough")]
        Good,
        NeedsReview,
    }
    assert_eq!(Verdict::ALL, [Verdict::Good, Verdict::NeedsReview]);
    assert_eq!(Verdict::ALL.iter().map(|way| way.label()).collect::<Vec<_>>(), ["good enough", "needs review"]);
}

/// One operation of an update.
#[derive(Clone, Debug)]
enum Say {
    Topic(String),
    Editor(Option<u32>),
    Notes(Vec<String>),
    ReplaceNotes(Vec<String>),
    Messages(Vec<u8>),
    RemoveMessages(Vec<u8>),
    ReplaceMessages(Vec<u8>),
    Spent(i64),
    Best(u32),
    Text(String),
    ReplaceText(String),
}

fn say() -> impl Strategy<Value = Say> {
    let text = || prop_oneof![Just(String::new()), "[a-c]{1,2}"];
    let few = || vec(0..4_u8, 0..4);
    prop_oneof![
        text().prop_map(Say::Topic),
        any::<Option<u32>>().prop_map(Say::Editor),
        vec(text(), 0..3).prop_map(Say::Notes),
        vec(text(), 0..3).prop_map(Say::ReplaceNotes),
        few().prop_map(Say::Messages),
        few().prop_map(Say::RemoveMessages),
        few().prop_map(Say::ReplaceMessages),
        prop_oneof![any::<i64>(), -9..9_i64].prop_map(Say::Spent),
        any::<u32>().prop_map(Say::Best),
        text().prop_map(Say::Text),
        text().prop_map(Say::ReplaceText),
    ]
}

fn said(update: EssayUpdate, say: Say) -> EssayUpdate {
    let messages = |ids: Vec<u8>| ids.into_iter().map(|id| message(&id.to_string(), &format!("{id}")));
    match say {
        Say::Topic(topic) => update.topic(topic),
        Say::Editor(editor) => update.editor(editor),
        Say::Notes(notes) => update.notes(notes),
        Say::ReplaceNotes(notes) => update.replace_notes(notes),
        Say::Messages(ids) => update.messages(messages(ids)),
        Say::RemoveMessages(ids) => update.remove_messages(ids.into_iter().map(|id| id.to_string())),
        Say::ReplaceMessages(ids) => update.replace_messages(messages(ids).collect()),
        Say::Spent(spent) => update.spent(spent),
        Say::Best(best) => update.best(best),
        Say::Text(text) => update.text(text),
        Say::ReplaceText(text) => update.replace_text(text),
    }
}

proptest! {
    /// Journals keep updates as JSON; what is read back must lead to the very same state, or error.
    #[test]
    fn g1_an_update_that_was_written_and_read_does_the_same(
        before in vec(0..4_u8, 0..4),
        tasks in vec(vec(say(), 0..8), 0..4),
    ) {
        let before = Essay {
            messages: before.into_iter().collect::<BTreeSet<_>>().into_iter().map(|id| message(&id.to_string(), "old")).collect(),
            ..Essay::default()
        };
        let updates: Vec<EssayUpdate> =
            tasks.into_iter().map(|says| says.into_iter().fold(update(), said)).collect();
        let read = updates.iter().map(|update| {
            let written = serde_json::to_string(update).expect("written");
            let read = serde_json::from_str::<EssayUpdate>(&written).expect("read");
            assert_eq!(serde_json::to_string(&read).expect("written again"), written);
            read
        });
        let read: Vec<EssayUpdate> = read.collect();
        prop_assert_eq!(&read, &updates);
        prop_assert_eq!(merged(before.clone(), read), merged(before, updates));
    }
}
