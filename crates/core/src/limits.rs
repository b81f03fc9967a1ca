//! Every bound of the system, in one place (spec R9).
//!
//! Sizes are bytes, times are seconds unless the name says otherwise.

/// Longest session id, in characters (spec W1).
pub const SESSION_ID_CHARS: usize = 128;
/// Largest WebSocket frame or HTTP body that is read, except for messages.
pub const FRAME_BYTES: usize = 1024 * 1024;
/// Largest WebSocket frame or HTTP body with a message: [`IMAGES_BYTES`] in Base64, and [`MESSAGE_BYTES`] of text with
/// every byte escaped.
pub const MESSAGE_FRAME_BYTES: usize = 9 * 1024 * 1024;
/// Deepest nesting of arrays and objects in any JSON text from outside.
pub const JSON_DEPTH: usize = 64;
/// Deepest nesting of arrays and objects in a value that a program records, such as a graph's state: serde_json reads
/// none deeper.
pub const RECORDED_JSON_DEPTH: usize = 127;
/// Most values in one JSON text from outside (bounds memory, not meaning).
pub const JSON_VALUES: usize = 200_000;
/// Most values in one JSON text that is made here of such texts, such as the calls of an answer: each value takes at least
/// two of the answer's bytes.
pub const RECORDED_JSON_VALUES: usize = RESPONSE_BYTES;
/// Largest argument text of one tool call.
pub const ARGS_BYTES: usize = 256 * 1024;
/// Largest image in a message, in bytes of the image: 5 MiB in Base64, the smallest bound of the large providers.
pub const IMAGE_BYTES: usize = 3_932_160;
/// Most bytes of all images in one message.
pub const IMAGES_BYTES: usize = 5 * 1024 * 1024;
/// Most images in one message.
pub const IMAGES: usize = 20;
/// Longest address of an image.
pub const IMAGE_URL_BYTES: usize = 2048;
/// Most pixels on a side of an image, which is Anthropic's bound.
pub const IMAGE_SIDE: usize = 8_000;
/// Most pixels of an image: 160 MB once a browser has decoded it. A small file may declare very many.
pub const IMAGE_PIXELS: usize = 40_000_000;
/// Most images of a conversation that a model sees; the newest. With more, Anthropic takes only small ones.
pub const SHOWN_IMAGES: usize = IMAGES;
/// Most screenshots among the results of calls that a model sees; the newest. Older screens say little about the
/// current one.
pub const SHOWN_SCREENSHOTS: usize = 3;
/// Most bytes, as sent, of the images that a model sees. Anthropic accepts requests of 32 MB.
pub const SHOWN_IMAGES_BYTES: usize = 20 * 1024 * 1024;
/// Total text of the largest user message.
pub const MESSAGE_BYTES: usize = 256 * 1024;
/// Largest text a person may attach to a decision (a reason, a comment, a supplied result).
pub const DECISION_TEXT_BYTES: usize = 64 * 1024;
/// Largest comment on a request.
pub const COMMENT_BYTES: usize = 4 * 1024;
/// Most comments on one interruption.
pub const COMMENTS: u32 = 100;
/// Most comments and reassignments together on one interruption: onlookers' comments leave room for those who hand it on.
pub const NOTES: u32 = 2 * COMMENTS;
/// Largest tool result that is stored and given to the model; longer ones are truncated with a note.
pub const RESULT_BYTES: usize = 256 * 1024;
/// Largest preview of a call that a reviewer is shown, besides its arguments.
pub const PREVIEW_BYTES: usize = 32 * 1024;
/// Lines of both texts, together, for which a short diff is computed. With more lines the whole differing part is shown
/// as replaced.
pub const DIFF_LINES: usize = 400_000;
/// Longest time for computing a preview; after that the reviewer sees that there is none.
pub const PREVIEW_SECONDS: u64 = 60;
/// Largest file that the file tools read or write.
pub const FILE_BYTES: usize = 4 * 1024 * 1024;
/// Most text of files that one patch reads and writes, in total.
pub const PATCH_BYTES: usize = 32 * 1024 * 1024;
/// Most steps in locating the lines of a patch in a file: a step is a line that is compared, and each 64 bytes of one.
pub const PATCH_STEPS: usize = 50_000_000;
/// File operations, of calls and of previews, that run at the same time. Others wait.
pub const FILE_WORK: usize = 4;
/// Most text that the conditions on one call produce in total: joined texts and lists, and conversions.
pub const CONDITION_BYTES: usize = 16 * 1024 * 1024;
/// Largest request of an `http` tool, with its arguments filled in.
pub const REQUEST_BYTES: usize = 4 * 1024 * 1024;
/// Most bytes of events buffered for one follower of a session. A slower one gets them from the journal, about this
/// many bytes of appends at a time, or one append.
pub const FOLLOWER_BYTES: usize = 512 * 1024;
/// Most messages that a client may ask for at the end of a session, or before a `seq`.
pub const LAST_MESSAGES: u32 = 1000;
/// Largest answer of a model, all blocks together.
pub const RESPONSE_BYTES: usize = 4 * 1024 * 1024;
/// Most tool calls in one model response; an answer with more fails the turn.
pub const CALLS_PER_RESPONSE: usize = 256;
/// How often a model is asked to continue one answer that was cut, where its agent enables that.
pub const CONTINUATIONS: u32 = 8;
/// Most messages in a session's queue (`on_pending: queue`).
pub const QUEUED_MESSAGES: usize = 32;
/// Most bytes of the queue: it is in memory, and in each snapshot of the session, until it is read.
pub const QUEUED_BYTES: usize = 16 * 1024 * 1024;
/// How much of a received name or value an error repeats, in characters.
pub const ECHO_CHARS: usize = 200;
/// Most bytes of a page of rows that may be long: messages of a history, requests in the inbox, standing rules,
/// records of the audit log. A page ends before the row that would exceed this, and has at least one.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Longest `request_id` or `Idempotency-Key`.
pub const REQUEST_ID_BYTES: usize = 200;
/// Longest name of a person, and of a role.
pub const SUBJECT_BYTES: usize = 128;
/// Longest name of a tool or an agent.
pub const NAME_BYTES: usize = 128;
/// Longest title that a person gives a session, in characters.
pub const TITLE_CHARS: usize = 200;
/// Default time to decide an ordinary approval (spec W7).
pub const APPROVAL_TIMEOUT_SECONDS: u32 = 300;
/// Longest time to decide that can be configured: 400 days.
pub const APPROVAL_TIMEOUT_SECONDS_MAX: u32 = 400 * 24 * 3600;
/// Default number of model calls in one turn (spec S24).
pub const MAX_TURNS: u32 = 20;
/// Deepest nesting of agents.
pub const AGENT_DEPTH: usize = 32;
/// Longest call id that is taken over from the model, in bytes; a call with a longer one gets another. Some proxies
/// keep thousands of bytes in it that must go back to the provider; programs get it in their environment, where Linux
/// allows 128 KiB.
pub const CALL_ID_BYTES: usize = 32 * 1024;
/// Tool calls of one session that run at the same time; and as many model calls.
pub const PARALLEL_CALLS: usize = 8;
/// Longest one-line message of a call (`tool_content_message`), in characters.
pub const CONTENT_MESSAGE_CHARS: usize = 200;
/// Most questions in one `ask_user_question` (spec Q1).
pub const QUESTIONS: usize = 8;
/// Most options of one question (spec Q1).
pub const OPTIONS: usize = 20;
/// Default time to answer a question (spec Q4).
pub const QUESTION_TIMEOUT_SECONDS: u32 = 600;
/// Largest update of one task of a graph, result of a step, item of a fan-out, initial state (of an inner graph, too), or
/// answer, as JSON text.
pub const UPDATE_BYTES: usize = 1024 * 1024;
/// Most bytes of all items of one round of a graph, as JSON text.
pub const ROUND_BYTES: usize = 16 * 1024 * 1024;
/// Most steps of one run of a node, and as many questions: it has all of them in memory, and goes through them whenever
/// it starts over.
pub const TASK_STEPS: usize = 10_000;
/// How much of the initial state of a graph's run is shown as its first message, in characters.
pub const INPUT_CHARS: usize = 4_000;
/// Most tasks in one round of a graph.
pub const ROUND_TASKS: usize = 10_000;
/// Most rounds of one run of a graph, unless configured (spec G1).
pub const ROUNDS: u32 = 10_000;
/// Deepest nesting of graphs in graphs.
pub const GRAPH_DEPTH: usize = 16;
/// Most pending questions of a graph at one time in a session.
pub const OPEN_QUESTIONS: usize = 10_000;
/// Tasks of one session that run at the same time.
pub const PARALLEL_TASKS: usize = 256;
/// Most paused nodes that one runtime keeps in memory, ready to resume where they stopped. Other nodes start over when
/// they are answered.
pub const WARM_TASKS: usize = 1024;
/// The longest time that such a node is kept.
pub const WARM_SECONDS: u64 = 60;
/// Most entries of a session's to-do list.
pub const TODOS: usize = 100;
/// Most of one message that is given to a model to summarize; the rest is omitted.
pub const SUMMARISED_BYTES: usize = 16 * 1024;
/// The text to summarize is never cut to fewer tokens than this, so that the newest message has room.
pub const SUMMARISED_TOKENS: u64 = 8_000;
/// The approximate size that a session may grow to, by the texts in it. At this size its turn ends with the error
/// `session_full`, no new message is accepted, and everything else continues to work: it can be read, decided, forked
/// at an earlier checkpoint, deleted.
pub const SESSION_BYTES: u64 = 256 * 1024 * 1024;
/// Most bytes of conversations that a runtime keeps folded, so that a model call reads only what is new; the most
/// recently read are kept.
pub const KEPT_CONVERSATIONS_BYTES: usize = 32 * 1024 * 1024;
/// Most operations that read a whole journal (reads of the past, forks) at the same time in one runtime.
pub const HEAVY_AT_ONCE: usize = 2;
/// Most such operations that may be queued per person. One per person runs at a time.
pub const HEAVY_WAITING: usize = 16;
/// Most previews of undecided edits that one runtime computes at the same time.
pub const EDITS_AT_ONCE: usize = 8;
/// Most such previews that may be queued per person. One per person is computed at a time.
pub const EDITS_WAITING: usize = 16;
/// Longest time for judging such an edit, with its preview.
pub const EDIT_SECONDS: u64 = 2 * PREVIEW_SECONDS;
/// Longest time for judging the calls of a fork, with their previews. Previews that hang are shown as failed meanwhile;
/// nobody else's fork waits longer for this one's place.
pub const FORK_SECONDS: u64 = 10 * PREVIEW_SECONDS;
/// Longest time for judging the edited calls of a decision, with their previews, however often it has to be tried.
pub const DECISION_SECONDS: u64 = 10 * PREVIEW_SECONDS;
/// Turns that are kept uncompressed, unless the agent configures another number (spec G5).
pub const KEPT_TURNS: u32 = 2;
