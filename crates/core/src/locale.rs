//! The languages of every text the server itself produces (spec W6, C).
//!
//! One catalogue file for each language, `locales/{en,vi,zh}.json`. What a program reads (codes, field names, protocol
//! errors for developers) is not translated.

use std::{collections::HashMap, sync::LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A session's language, fixed at its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Locale {
    /// English
    #[default]
    En,
    /// Vietnamese
    Vi,
    /// Chinese
    Zh,
}

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident = $key:literal,)*) => {
        /// A text for the model or for people.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Text {
            $($(#[$doc])* $name,)*
        }

        impl Text {
            /// Every text.
            pub const ALL: &[Text] = &[$(Text::$name,)*];

            /// Its key in the catalogues.
            #[must_use]
            pub fn key(self) -> &'static str {
                match self {
                    $(Text::$name => $key,)*
                }
            }
        }
    };
}

texts! {
    /// The result of a rejected call without a reviewer's message (spec W6).
    Rejected = "rejected",
    /// The result of a call that timed out without a decision (spec W7).
    TimedOut = "timed_out",
    /// The result of a call that was pending when its turn was cancelled.
    Cancelled = "cancelled",
    /// The result of a call that was running when its turn was cancelled.
    CancelledRunning = "cancelled_running",
    /// The result of a call whose outcome a crash left unknown and that a person gave up (spec R4).
    OutcomeUnknown = "outcome_unknown",
    /// Before the result of a call whose arguments a reviewer changed; what ran follows (spec S10).
    Edited = "edited",
    /// Before a result that a person supplied instead of running the call.
    Responded = "responded",
    /// The label of the free-text option that is added to a question (spec Q1).
    OtherOption = "other_option",
    /// The result of a question that was declined without a message (spec Q3).
    QuestionDeclined = "question_declined",
    /// The result of a question that timed out (spec Q4).
    QuestionTimedOut = "question_timed_out",
    /// Questions that break the rules go back to the model: `errors` (spec Q1).
    BadQuestion = "bad_question",
    /// No questions, or too many: `count`, `most`.
    QuestionCount = "question_count",
    /// A question without text: `n`.
    QuestionEmpty = "question_empty",
    /// Two questions with the same text: `n`, `first`.
    QuestionTwice = "question_twice",
    /// No options, or too many: `n`, `count`, `most`.
    OptionCount = "option_count",
    /// An option without a label: `n`, `option`.
    OptionEmpty = "option_empty",
    /// Two options with the same label: `n`, `option`, `first`.
    OptionTwice = "option_twice",
    /// The model called a tool that its agent does not have: `tool`, `known`.
    NoTool = "no_tool",
    /// The same, and the agent has no tools at all: `tool`.
    NoTools = "no_tools",
    /// The session's agent is no longer configured: `agent`.
    NoAgent = "no_agent",
    /// The model's arguments break the tool's schema: `errors` (spec M3).
    BadArgs = "bad_args",
    /// Arguments that are not a JSON object.
    UnreadableArgs = "unreadable_args",
    /// The tool disappeared while its call was pending: `tool`.
    ToolGone = "tool_gone",
    /// The tool's server could not be reached: `tool`.
    ToolUnreached = "tool_unreached",
    /// The tool's schema changed while its call was pending.
    ArgsOutdated = "args_outdated",
    /// Why a call is requested again: the tool has changed since the call was allowed (spec S13).
    ToolChanged = "tool_changed",
    /// The tool panicked.
    ToolFailed = "tool_failed",
    /// The end of a result that was too long: `bytes`, `kept`.
    ResultCut = "result_cut",
    /// Why a person is asked, when the rule that decides it failed: `error` (spec P2).
    ConditionFailed = "condition_failed",
    /// The same without a message.
    ConditionBroke = "condition_broke",
    /// The result of a call that the policy denies without its own message (spec P1).
    PolicyDenied = "policy_denied",
    /// The turn used up its model calls (spec S24).
    MaxTurns = "max_turns",
    /// The result of a handoff: `agent` (spec S25).
    HandedOff = "handed_off",
    /// The result of another handoff in the same answer.
    HandedOffAlready = "handed_off_already",
    /// Agents nested too deeply: `depth`.
    TooDeep = "too_deep",
    /// The result of `share_thought`.
    ThoughtShared = "thought_shared",
    /// Before the list in the result of `write_todos`.
    TodosKept = "todos_kept",
    /// A model's answer with too many calls: `most`.
    TooManyCalls = "too_many_calls",
    /// A model's answer that is too long: `bytes`.
    AnswerTooLong = "answer_too_long",
    /// Beside an answer that is incomplete: `reason`.
    AnswerCut = "answer_cut",
    /// Why a turn failed, where its agent accepts no incomplete answers: `reason`.
    AnswerRefused = "answer_refused",
    /// Why a turn failed, where its answer was cut before it had content: `reason`.
    NothingSaid = "nothing_said",
    /// The result of a call in which an answer was cut: `reason`.
    CallCut = "call_cut",
    /// The prompt to a model whose answer was cut, to continue it.
    GoOn = "go_on",
    /// Why the turn of a fork is held: `ways`.
    HeldFork = "held_fork",
    /// Why a turn that ended its processes is held: `times`, `ways`.
    HeldCrashes = "held_crashes",
    /// Why a turn whose store was restored from a backup is held: `ways`.
    HeldRestored = "held_restored",
    /// What continues a turn that is held.
    WayMessage = "way_message",
    /// The same, if something is pending.
    WayDecision = "way_decision",
    /// The same, and what ends it: a retry or a cancel.
    WayRetry = "way_retry",
    /// A function that panicked while it ran.
    ToolBroke = "tool_broke",
    /// A preview was not computed in time: `seconds`.
    PreviewLate = "preview_late",
    /// Arguments that do not fit a function's type: `error`.
    FunctionArgs = "function_args",
    /// A function's result that cannot be serialized: `error`.
    ResultNotJson = "result_not_json",
    /// A command's working directory is gone: `folder`.
    CommandNoFolder = "command_no_folder",
    /// A command that wrote too much: `bytes`, `output`.
    CommandTooMuch = "command_too_much",
    /// A command that took too long: `seconds`.
    CommandTooLong = "command_too_long",
    /// A program that does not exist: `program`.
    CommandNotFound = "command_not_found",
    /// A program that may not be run: `program`.
    CommandNotAllowed = "command_not_allowed",
    /// A program that could not be started: `program`, `error`.
    CommandNotStarted = "command_not_started",
    /// A command that failed: `code`.
    CommandExit = "command_exit",
    /// A command that was killed: `signal`.
    CommandSignal = "command_signal",
    /// A command that failed in an unknown way.
    CommandFailed = "command_failed",
    /// The same, without any output: `how`.
    CommandWroteNothing = "command_wrote_nothing",
    /// The same, without errors but with output: `how`, `output`.
    CommandWroteOutput = "command_wrote_output",
    /// A request that needs a missing argument: `place` (spec M2).
    HttpMissing = "http_missing",
    /// An empty argument in the path of an address: `place`.
    HttpEmpty = "http_empty",
    /// An argument that would redirect an address: `place`.
    HttpDots = "http_dots",
    /// An argument with a `/` or `\` in the path of an address: `place`.
    HttpSlash = "http_slash",
    /// An argument that is invalid in a header: `place`.
    HttpHeader = "http_header",
    /// An argument that makes a request too large: `place`, `bytes`.
    HttpTooLarge = "http_too_large",
    /// A request that was not sent: `server`, `error`.
    HttpNotSent = "http_not_sent",
    /// A connection that broke after the request was sent: `server`, `error`.
    HttpLost = "http_lost",
    /// A server that took too long: `server`, `seconds`.
    HttpTooLong = "http_too_long",
    /// An answer that is too long: `status`, `bytes`, `output`.
    HttpTooMuch = "http_too_much",
    /// An answer that is not text: `status`, `type`.
    HttpNotText = "http_not_text",
    /// An answer that is an error, without a text: `status`.
    HttpStatus = "http_status",
    /// An answer that is an error: `status`, `output`.
    HttpStatusBody = "http_status_body",
    /// An answer that is a redirect: `status`, `to`.
    HttpRedirect = "http_redirect",
    /// The result where an answer has no body: `status`.
    HttpNothing = "http_nothing",
    /// An MCP server that cannot be reached: `server`, `error` (spec S13).
    McpDown = "mcp_down",
    /// An MCP server whose tools could not be listed again before a call: `server`, `error`.
    McpUnlisted = "mcp_unlisted",
    /// A call to an MCP server that was sent and has no answer: `server`.
    McpLost = "mcp_lost",
    /// An MCP server that took too long: `server`, `seconds`.
    McpTooLong = "mcp_too_long",
    /// An MCP server whose answer cannot be read: `server`.
    McpUnreadable = "mcp_unreadable",
    /// Why a person is asked about a call that had asked something, and cannot resume with the answer.
    AnswerForgotten = "answer_forgotten",
    /// An MCP server that answered with an error: `server`, `error`.
    McpRefused = "mcp_refused",
    /// After a command's output that is not UTF-8.
    NotUtf8 = "not_utf8",
    /// The instructions for a model that summarizes the beginning of a conversation (spec G5).
    Summarise = "summarise",
    /// In place of an image, for a model that takes none, and in texts to summarize.
    ImageLeftOut = "image_left_out",
    /// In place of a screenshot in the result of a call, which the model gets as an image.
    ScreenshotFollows = "screenshot_follows",
    /// Before that image: `tool`.
    ScreenshotOf = "screenshot_of",
    /// Before the summary, which replaces that beginning.
    SummaryNote = "summary_note",
    /// The message to a person whose approval calls need (spec G3).
    ApprovalRequired = "approval_required",
    /// Why a run was stopped: the user's message was rejected: `name` (spec S11).
    GuardrailInput = "guardrail_input",
    /// The same, for the agent's last answer: `name`.
    GuardrailOutput = "guardrail_output",
    /// The same, for a call: `name`.
    GuardrailToolInput = "guardrail_tool_input",
    /// The same, for a call's result, and that the call has run: `name`.
    GuardrailToolOutput = "guardrail_tool_output",
    /// A guardrail failed, so that the user's message is unchecked: `name` (spec S11).
    InputUnchecked = "input_unchecked",
    /// The same, for the agent's last answer: `name`.
    OutputUnchecked = "output_unchecked",
    /// The same, for a call: `name`.
    ToolInputUnchecked = "tool_input_unchecked",
    /// The same, for a call's result, and that the call has run: `name`.
    ToolOutputUnchecked = "tool_output_unchecked",
    /// The agent's last answer is not of its output type: `errors` (spec S23).
    InvalidOutput = "invalid_output",
    /// The error in an answer that is not JSON: `error`.
    OutputNotJson = "output_not_json",
    /// The error in an answer with a duplicate member: `name`.
    OutputTwice = "output_twice",
    /// Between the items of a list.
    List = "list",
    /// Between a name and its value.
    Colon = "colon",
    /// A message to a chat: a person is asked about calls: `what` (spec U4).
    NotifyRequested = "notify_requested",
    /// The same: a person is asked a question, or for an input: `what`.
    NotifyQuestion = "notify_question",
    /// The same: it still is not answered: `what`.
    NotifyQuestionReminded = "notify_question_reminded",
    /// The same: it was handed over: `what`.
    NotifyQuestionReassigned = "notify_question_reassigned",
    /// The same: it still is not decided: `what`.
    NotifyReminded = "notify_reminded",
    /// The same: it was handed over: `what`.
    NotifyReassigned = "notify_reassigned",
    /// The same: others were asked in their place: `what`.
    NotifyEscalated = "notify_escalated",
    /// The same: it has ended: `what`, `how`.
    NotifyResolved = "notify_resolved",
    /// The same: its deadline has passed: `what`.
    NotifyTimedOut = "notify_timed_out",
    /// The same: a call was interrupted: `what`.
    NotifyInDoubt = "notify_in_doubt",
    /// The same: the operator tests it.
    NotifyTest = "notify_test",
    /// The agent, in such a message: `agent`.
    NotifyAgent = "notify_agent",
    /// Who decides: `role`.
    NotifyRole = "notify_role",
    /// The session's owner decides.
    NotifyUser = "notify_user",
    /// Who did it: `by`.
    NotifyBy = "notify_by",
    /// When it times out: `at`.
    NotifyDeadline = "notify_deadline",
    /// The text of the link to it.
    NotifyOpen = "notify_open",
    /// The end of an e-mail: replies are not read.
    NotifyNoReply = "notify_no_reply",
    /// How a request ended.
    NotifyApprove = "notify_approve",
    /// The same.
    NotifyReject = "notify_reject",
    /// The same.
    NotifyEdit = "notify_edit",
    /// The same.
    NotifyRespond = "notify_respond",
    /// The same.
    NotifyAnswered = "notify_answered",
    /// The same.
    NotifyDefer = "notify_defer",
    /// The same.
    NotifyCancelled = "notify_cancelled",
}

type Catalogue = HashMap<String, String>;

static CATALOGUES: LazyLock<[Catalogue; 3]> = LazyLock::new(|| {
    [include_str!("../locales/en.json"), include_str!("../locales/vi.json"), include_str!("../locales/zh.json")]
        // A catalogue that cannot be read fails the tests below; here it would only cost the texts.
        .map(|text| serde_json::from_str(text).unwrap_or_default())
});

impl Locale {
    /// Every locale.
    pub const ALL: &'static [Locale] = &[Locale::En, Locale::Vi, Locale::Zh];

    /// The locale named `name` (`en`, `vi`, `zh`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Locale> {
        match name {
            "en" => Some(Locale::En),
            "vi" => Some(Locale::Vi),
            "zh" => Some(Locale::Zh),
            _ => None,
        }
    }

    /// The result of something that may have taken effect and is not run again: why, if that was said, replaces nothing of
    /// it (spec R4).
    #[must_use]
    pub fn outcome_unknown(self, why: Option<&str>) -> String {
        let unknown = self.text(Text::OutcomeUnknown);
        why.map_or_else(|| unknown.to_owned(), |why| format!("{unknown} ({why})"))
    }

    fn catalogue(self) -> &'static Catalogue {
        let [en, vi, zh] = &*CATALOGUES;
        match self {
            Locale::En => en,
            Locale::Vi => vi,
            Locale::Zh => zh,
        }
    }

    /// The text in this language, as it is in the catalogue.
    #[must_use]
    pub fn text(self, text: Text) -> &'static str {
        self.catalogue().get(text.key()).map_or_else(|| text.key(), String::as_str)
    }

    /// The text in this language with its `{name}` placeholders filled in.
    #[must_use]
    pub fn fill(self, text: Text, values: &[(&str, &str)]) -> String {
        let mut rest = self.text(text);
        let mut out = String::with_capacity(rest.len() + 32);
        // One pass, so that a value with braces in it is left alone.
        while let Some(open) = rest.find('{') {
            out.push_str(&rest[..open]);
            rest = &rest[open..];
            let Some(close) = rest.find('}') else { break };
            match values.iter().find(|(name, _)| *name == &rest[1..close]) {
                Some((_, value)) => out.push_str(value),
                None => out.push_str(&rest[..=close]),
            }
            rest = &rest[close + 1..];
        }
        out.push_str(rest);
        out
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn places(text: &str) -> BTreeSet<&str> {
        text.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name).collect()
    }

    /// Spec C: each catalogue has every text, nothing else, and the same placeholders.
    #[test]
    fn c_every_text_is_in_every_language() {
        let keys: BTreeSet<&str> = Text::ALL.iter().map(|text| text.key()).collect();
        assert_eq!(keys.len(), Text::ALL.len());
        for &locale in Locale::ALL {
            let catalogue = locale.catalogue();
            assert_eq!(catalogue.keys().map(String::as_str).collect::<BTreeSet<_>>(), keys, "{locale:?}");
            for text in Text::ALL {
                assert!(!locale.text(*text).trim().is_empty(), "{locale:?} {text:?}");
                assert_eq!(places(locale.text(*text)), places(Locale::En.text(*text)), "{locale:?} {text:?}");
            }
        }
    }

    #[test]
    fn w6_the_texts_of_the_sources_are_kept() {
        assert_eq!(Locale::Zh.text(Text::Rejected), "操作已被用户取消");
        assert_eq!(Locale::Vi.text(Text::Rejected), "Thao tác đã bị người dùng từ chối");
        assert_eq!(Locale::En.text(Text::Rejected), "The user rejected this action");
        let others: Vec<_> = Locale::ALL.iter().map(|locale| locale.text(Text::OtherOption)).collect();
        assert_eq!(others, ["Other", "Khác", "其他"]);
    }

    #[test]
    fn a_value_is_filled_in_as_it_is() {
        let filled = Locale::En.fill(Text::NoTool, &[("tool", "{known}"), ("known", "a, b")]);
        assert_eq!(filled, "there is no tool {known}; there are a, b");
    }
}
