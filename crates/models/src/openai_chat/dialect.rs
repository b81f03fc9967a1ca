//! What known servers of the API do otherwise than OpenAI's. A request that one of them refuses is refused in every
//! later turn too, since it has the whole conversation.

/// How a server wants its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// The name of the limit of an answer.
    pub(super) max_tokens: &'static str,
    /// Whether usage is asked for. Mistral tells it unasked, and refuses to be asked.
    pub(super) asks_for_usage: bool,
    /// Whether it takes the schema of an answer. DeepSeek refuses it, and Z.ai does not heed it.
    pub(super) takes_schemas: bool,
    /// Whether a user's message may follow results. Mistral's models want an answer in between.
    pub(super) takes_user_after_results: bool,
    /// Whether each answer must have `reasoning_content`. DeepSeek and Moonshot refuse calls without it, in every later
    /// turn too, and whoever made them.
    pub(super) wants_reasoning: bool,
}

impl Dialect {
    /// That of a model at this address. Mistral's models are as strict on other servers, which use their templates.
    pub(super) fn of(base_url: &str, model: &str) -> Dialect {
        let url = reqwest::Url::parse(base_url.trim()).ok();
        let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or_default();
        let at = |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|left| left.ends_with('.'));
        let model = model.to_ascii_lowercase();
        let is_openais = at("openai.com") || at("openai.azure.com");
        // Mistral, Devstral, Ministral …; Mixtral, Pixtral.
        let is_mistrals = at("mistral.ai") || ["stral", "xtral"].iter().any(|name| model.contains(name));
        Dialect {
            max_tokens: if is_openais { "max_completion_tokens" } else { "max_tokens" },
            asks_for_usage: !at("mistral.ai"),
            takes_schemas: !["deepseek.com", "z.ai", "bigmodel.cn"].into_iter().any(at),
            takes_user_after_results: !is_mistrals,
            wants_reasoning: at("deepseek.com") || at("moonshot.ai") || at("moonshot.cn"),
        }
    }
}
