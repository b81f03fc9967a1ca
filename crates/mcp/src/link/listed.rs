//! The tools of a server as it lists them, and as agents get them.

use std::{future::poll_fn, io, sync::Arc, task::Poll};

use countersign_core::{
    call::schema::SCHEMA_BYTES,
    journal::{permit::Permit, state::input::CallInput},
    limits::JSON_VALUES,
    values::Values,
};
use futures::future::BoxFuture;
use rmcp::model::{ListToolsResult, Tool as ServerTool};
use serde_json::Value;

use crate::{
    McpToolInfo,
    link::Link,
    pipes::MESSAGE_BYTES,
    settings::{McpServer, in_names, secrets::Secrets},
};
use countersign_engine::tool::{Approval, Hints, Tool, ToolEntry, ToolError, ToolSpec, Unasked, reserved};

/// Longest name of a tool: model providers accept no longer ones.
const NAME_BYTES: usize = 64;
/// Longest name of a tool at its server, in bytes: it is recorded with each request about a call.
const OWN_NAME_BYTES: usize = 1024;
/// Longest description of a tool's fault, in characters.
const MISTAKE_CHARS: usize = 400;
/// Longest description of a tool that is passed on, in bytes.
const DESCRIPTION_BYTES: usize = 16 * 1024;

/// Most tools of one server.
pub(crate) const TOOLS: usize = 1024;
/// Most bytes of them, as JSON, and most values, each of which takes many times its text's memory: on all pages together
/// no more than on one.
pub(crate) const TOOLS_BYTES: usize = MESSAGE_BYTES;
const TOOLS_VALUES: usize = JSON_VALUES;

/// A server's list while its pages are read: the total that is kept is bounded.
#[derive(Default)]
pub(crate) struct Listing {
    pub(crate) tools: Vec<ListedTool>,
    size: Size,
    /// There were more tools, or larger ones, than are kept.
    pub(crate) is_full: bool,
}

impl Listing {
    /// Adds a page. `false`: the limit is reached, so not all of it, and reading stops.
    pub(crate) fn add(&mut self, page: &[Result<ServerTool, Malformed>], settings: &McpServer) -> bool {
        for tool in page {
            match tool {
                Ok(tool) => self.size.add(tool),
                Err(malformed) => self.size.add_text(&[&malformed.name, &malformed.why]),
            }
            if self.tools.len() == TOOLS || self.size.is_too_large() {
                self.is_full = true;
                break;
            }
            self.tools.push(match tool {
                Ok(tool) => ListedTool::of(tool, settings),
                Err(malformed) => ListedTool::malformed(malformed, settings),
            });
        }
        !self.is_full
    }
}

/// A malformed tool of a list.
pub(crate) struct Malformed {
    /// Its name, or its number in the page.
    pub(crate) name: String,
    /// What is wrong with it. It may quote any text of the server.
    pub(crate) why: String,
}

/// A page of a list.
pub(super) struct Page {
    pub(super) tools: Vec<Result<ServerTool, Malformed>>,
    pub(super) next_cursor: Option<String>,
    pub(super) ttl_ms: Option<u64>,
}

impl Page {
    /// As the protocol's library reads it.
    pub(super) fn of(page: ListToolsResult) -> Page {
        let ListToolsResult { tools, next_cursor, ttl_ms, .. } = page;
        Page { tools: tools.into_iter().map(Ok).collect(), next_cursor, ttl_ms }
    }

    /// One that the library does not read, because some tool is malformed. `None`: it is not a list of tools.
    pub(super) fn read(mut page: Value) -> Option<Page> {
        let tools = page.get_mut("tools")?.as_array_mut().map(std::mem::take)?;
        let whole = serde_json::from_value(page).ok().map(Page::of)?;
        let read = |(at, tool): (usize, Value)| {
            serde_path_to_error::deserialize(&tool).map_err(|error| {
                let nameless = || format!("number {}", at + 1);
                let name = tool["name"].as_str().map_or_else(nameless, str::to_owned);
                Malformed { name, why: error.to_string() }
            })
        };
        Some(Page { tools: tools.into_iter().enumerate().map(read).collect(), ..whole })
    }
}

/// The size of a list's tools, as JSON, of which nothing is kept.
#[derive(Default)]
struct Size {
    bytes: usize,
    values: Values,
}

impl Size {
    fn add(&mut self, tool: &ServerTool) {
        if serde_json::to_writer(&mut *self, tool).is_err() {
            // A value that cannot be written does not fit.
            self.bytes = usize::MAX;
        }
    }

    fn add_text(&mut self, texts: &[&str]) {
        texts.iter().for_each(|text| self.bytes = self.bytes.saturating_add(text.len()));
    }

    fn is_too_large(&self) -> bool {
        self.bytes > TOOLS_BYTES || self.values.count() > TOOLS_VALUES
    }
}

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        for byte in bytes {
            self.values.take(*byte);
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The schema of a tool's arguments, without the server's secrets.
///
/// # Errors
/// It is too large for any tool, or has a secret outside of descriptions: why it is not kept.
fn parameters(tool: &ServerTool, secrets: &Secrets) -> Result<Value, String> {
    let text = serde_json::to_string(&tool.input_schema).unwrap_or_default();
    if text.len() > SCHEMA_BYTES {
        return Err(format!("its schema has {} bytes, and at most {SCHEMA_BYTES} are allowed", text.len()));
    }
    let mut parameters = serde_json::from_str(&secrets.redact_schema(text)?).unwrap_or_default();
    if let Value::Object(keywords) = &mut parameters {
        // Model providers require it.
        keywords.entry("type").or_insert_with(|| "object".into());
    }
    Ok(parameters)
}

/// One tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListedTool {
    /// The server's own name.
    pub(crate) name: Arc<str>,
    /// The name under which models call it.
    pub(crate) as_name: Arc<str>,
    pub(crate) description: Arc<str>,
    pub(crate) parameters: Arc<Value>,
    pub(crate) hints: Hints,
    /// Whether agents with the server's tools have it.
    pub(crate) used: bool,
    /// It is not used because of its built-in name.
    pub(crate) built_in: bool,
    /// Why it was not even read, if so; it has no schema.
    unread: Option<Arc<str>>,
}

/// Whether a tool would be mistaken for a built-in one. A server may provide file tools and the shell if the operator
/// names the tool; a question, a todo list or a handoff is recognised by its name alone, and can never be a server's.
fn is_taken(as_name: &str, name: &str, settings: &McpServer) -> bool {
    let named = || {
        settings.require.names().contains(&name)
            || settings.allowed_tools.as_ref().is_some_and(|only| only.iter().any(|other| other == name))
    };
    reserved::says_something(as_name) || (reserved::is_built_in(as_name) && !named())
}

/// The name under which models call a tool of the server.
pub(crate) fn as_name(name: &str, settings: &McpServer) -> String {
    let prefix = settings.prefix.as_deref().unwrap_or_default();
    let mut as_name: String = prefix.chars().chain(name.chars()).map(|c| if in_names(c) { c } else { '_' }).collect();
    as_name.truncate(NAME_BYTES);
    as_name
}

impl ListedTool {
    /// A tool with a known name and nothing else.
    fn named(name: &str, settings: &McpServer) -> ListedTool {
        let as_name: Arc<str> = as_name(name, settings).into();
        let built_in = is_taken(&as_name, name, settings);
        let used = !built_in
            && !settings.blocked_tools.iter().any(|other| **other == *name)
            && settings.allowed_tools.as_ref().is_none_or(|only| only.iter().any(|other| **other == *name));
        ListedTool {
            name: name.into(),
            as_name,
            description: "".into(),
            parameters: Arc::default(),
            hints: Hints::default(),
            used,
            built_in,
            unread: None,
        }
    }

    /// One with a name that is too long to be kept.
    fn misnamed(name: &str, settings: &McpServer) -> ListedTool {
        let why = format!("its name has {} bytes, and at most {OWN_NAME_BYTES} are allowed", name.len());
        let cut = format!("{}…", &name[..name.floor_char_boundary(OWN_NAME_BYTES)]);
        ListedTool { unread: Some(why.into()), ..ListedTool::named(&cut, settings) }
    }

    /// One that is malformed, in the place where the server lists it.
    fn malformed(malformed: &Malformed, settings: &McpServer) -> ListedTool {
        if malformed.name.len() > OWN_NAME_BYTES {
            return ListedTool::misnamed(&malformed.name, settings);
        }
        let why = settings.secrets.redact_said(malformed.why.clone());
        let why: String = format!("the tool is malformed: {why}").chars().take(MISTAKE_CHARS).collect();
        ListedTool { unread: Some(why.into()), ..ListedTool::named(&malformed.name, settings) }
    }

    /// Reads a tool from the server's list.
    pub(crate) fn of(tool: &ServerTool, settings: &McpServer) -> ListedTool {
        if tool.name.len() > OWN_NAME_BYTES {
            return ListedTool::misnamed(&tool.name, settings);
        }
        let description = tool.description.as_deref().unwrap_or_default();
        let description = settings.secrets.redact_said(description.to_owned());
        let description = &description[..description.floor_char_boundary(DESCRIPTION_BYTES)];
        let default = Hints::default();
        let hints = tool.annotations.as_ref().map_or(default, |said| {
            let read_only = said.read_only_hint.unwrap_or(default.read_only);
            Hints {
                read_only,
                // The protocol's default: a read-only tool destroys nothing, any other may.
                destructive: !read_only && said.destructive_hint.unwrap_or(default.destructive),
                open_world: said.open_world_hint.unwrap_or(default.open_world),
            }
        });
        let (parameters, unread) = match parameters(tool, &settings.secrets) {
            Ok(parameters) => (Arc::new(parameters), None),
            Err(why) => (Arc::default(), Some(why.into())),
        };
        let description = description.into();
        ListedTool { description, parameters, hints, unread, ..ListedTool::named(&tool.name, settings) }
    }

    /// How it differs from another tool of the name, for a log.
    pub(super) fn differs(&self, other: &ListedTool) -> &'static str {
        match (self.description == other.description, self.parameters == other.parameters) {
            (false, false) => "description and schema",
            (false, true) => "description",
            (true, false) => "schema",
            (true, true) => "annotations",
        }
    }

    pub(crate) fn info(&self) -> McpToolInfo {
        McpToolInfo {
            name: self.name.to_string(),
            as_name: self.as_name.to_string(),
            description: self.description.to_string(),
            used: self.used,
            mistake: self.mistake(),
        }
    }

    /// Why no agent can have it, if so.
    pub(super) fn mistake(&self) -> Option<String> {
        self.unread.as_deref().map(str::to_owned).or_else(|| self.spec().mistake())
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(self.as_name.clone(), self.description.clone(), self.parameters.clone())
    }

    /// The tool for an agent; none if it was not read, which is logged. Hints are for the policy's rules: whether it is idempotent is the operator's decision.
    ///
    /// It is idempotent as the server's declaration says, unless overridden for this tool.
    pub(crate) fn entry(&self, link: &Arc<Link>, idempotent: Option<bool>) -> Option<ToolEntry> {
        let settings = &link.settings;
        if let Some(why) = self.unread.as_deref() {
            if let Some(left_out) = link.warned.unread.due() {
                // Quoted, since they may contain text of the server.
                tracing::warn!(server = &*settings.name, tool = &*self.name, left_out, why, "the tool is left out");
            }
            return None;
        }
        let approval = Approval { require: settings.require.of(&self.name), ask: Default::default() };
        let declared = || settings.idempotent.iter().any(|name| **name == *self.name);
        let idempotent = idempotent.unwrap_or_else(declared);
        let tool = RemoteTool { link: link.clone(), tool: self.clone(), idempotent };
        // A call that was approved for one program or address is asked about again before another runs it.
        let source = Some(format!("mcp {:?} {:?} {}", &*settings.name, &*self.name, link.reached).into());
        let entry = ToolEntry { source, ..ToolEntry::new(self.spec(), Arc::new(tool)) };
        Some(entry.needs_approval(approval).claims(self.hints).idempotent(idempotent))
    }
}

/// A tool that runs at its server.
pub(crate) struct RemoteTool {
    link: Arc<Link>,
    /// As it was listed when its agent got it.
    tool: ListedTool,
    idempotent: bool,
}

impl Tool for RemoteTool {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let (link, tool, idempotent) = (self.link.clone(), self.tool.clone(), self.idempotent);
        Box::pin(async move { link.call(&tool, idempotent, &permit).await })
    }
    fn has_parked(&self, session_id: &str, call: u32, input: &CallInput) -> bool {
        self.link.parked.has(session_id, call, input)
    }
    fn unasked(&self, session_id: &str, call: u32, input: &CallInput) -> BoxFuture<'static, Option<Unasked>> {
        // It must not keep the link alive.
        let link = Arc::downgrade(&self.link);
        let input = input.clone();
        let session_id = session_id.to_owned();
        let ends = self.link.parked.watch(&session_id, call, &input);
        Box::pin(async move {
            let unasked = poll_fn(|context| match link.upgrade() {
                Some(link) => link.parked.poll_unasked(&session_id, call, &input, context),
                None => Poll::Pending,
            });
            tokio::select! {
                biased;
                given_up = ends => given_up.ok().map(|()| Unasked::GivenUp),
                () = unasked => Some(Unasked::TakenBack),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use countersign_engine::key::ApiKey;
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str, schema: &Value) -> ServerTool {
        serde_json::from_value(json!({ "name": name, "description": description, "inputSchema": schema }))
            .expect("a tool")
    }

    #[test]
    fn s13_r9_a_list_of_tools_is_bounded_in_all_and_so_is_each_schema() {
        let settings = McpServer::stdio("shop", ["shop"]);
        let large = [Ok(tool("large", "", &json!({ "type": "object", "title": "x".repeat(2 << 20) })))];
        let mut listing = Listing::default();
        let pages = (0..64).take_while(|_| listing.add(&large, &settings)).count();
        assert_eq!((pages, listing.tools.len(), listing.is_full), (3, 3, true), "2 MiB each");
        assert_eq!(*listing.tools[0].parameters, Value::Null, "it is not kept");
        let why = listing.tools[0].mistake().expect("no agent can have it");
        assert!(why.contains("2097"), "{why}");

        let small: Vec<_> = (0..TOOLS).map(|_| Ok(tool("small", "", &json!({ "type": "object" })))).collect();
        let mut listing = Listing::default();
        assert!(listing.add(&small, &settings) && !listing.add(&small, &settings));
        assert_eq!(listing.tools.len(), TOOLS);
    }

    /// Each of these maps takes a hundred times the memory of its text.
    #[test]
    fn s13_r9_the_values_of_a_list_of_tools_are_bounded_on_all_pages_together() {
        let settings = McpServer::stdio("shop", ["shop"]);
        let of = || Ok(tool("many", "", &json!({ "type": "object", "examples": vec![json!({ "": 0 }); 8000] })));
        let page = [of(), of()];
        let mut listing = Listing::default();
        let pages = (0..64).take_while(|_| listing.add(&page, &settings)).count();
        assert!(listing.is_full && listing.tools.iter().all(|tool| tool.mistake().is_none()));
        assert_eq!((pages, listing.tools.len()), (6, TOOLS_VALUES / 16_000), "16,000 values each");
    }

    /// Its name is in the source of its calls, which is recorded with each request to a person.
    #[test]
    fn r9_s13_a_tool_whose_name_is_too_long_is_left_out_and_its_name_is_cut() {
        let settings = McpServer::stdio("shop", ["shop"]);
        let of = |name: &str| ListedTool::of(&tool(name, "", &json!({ "type": "object" })), &settings);
        assert_eq!(of(&"x".repeat(OWN_NAME_BYTES)).mistake(), None);
        let malformed = Malformed { name: "ơ".repeat(1 << 20), why: "x".to_owned() };
        for long in [of(&"ơ".repeat(1 << 20)), ListedTool::malformed(&malformed, &settings)] {
            let why = long.mistake().expect("no agent can have it");
            assert_eq!(why, "its name has 2097152 bytes, and at most 1024 are allowed");
            assert!(long.name.len() <= OWN_NAME_BYTES + 3 && long.name.ends_with("ơ…"), "{}", long.name.len());
        }
    }

    #[test]
    fn x_a_tool_repeats_no_secret_of_its_server() {
        let settings = McpServer::stdio("shop", ["shop"]).env("TOKEN", ApiKey::new("t0ken-of-shop"));
        let settings = settings.checked().expect("a declaration");
        let schema = json!({ "properties": { "a": { "description": "t0ken-of-shop" } } });
        let listed = ListedTool::of(&tool("pay", "With t0ken-of-shop.", &schema), &settings);
        assert_eq!(&*listed.description, "With [API key].");
        let expected = json!({ "type": "object", "properties": { "a": { "description": "[API key]" } } });
        assert_eq!(*listed.parameters, expected);
    }

    #[test]
    fn x_what_is_wrong_with_a_malformed_tool_repeats_no_secret_and_is_bounded() {
        let settings = McpServer::stdio("shop", ["shop"]).env("TOKEN", ApiKey::new("t0ken-of-shop"));
        let settings = settings.checked().expect("a declaration");
        let page = json!({ "tools": [
            { "name": "pay", "inputSchema": { "type": "object" } },
            { "name": "bad", "inputSchema": "t0ken-of-shop" },
            { "name": "worse", "inputSchema": "x".repeat(1 << 20) },
        ], "nextCursor": "2" });
        let page = Page::read(page).expect("a page");
        assert_eq!(page.next_cursor.as_deref(), Some("2"));
        let mut listing = Listing::default();
        assert!(listing.add(&page.tools, &settings));
        let why: Vec<Option<String>> = listing.tools.iter().map(ListedTool::mistake).collect();
        let bad = why[1].as_deref().unwrap_or_default();
        assert!(bad.contains("inputSchema") && bad.contains("[API key]") && !bad.contains("t0ken"), "{bad}");
        assert_eq!((&why[0], why[2].as_ref().map(|why| why.chars().count())), (&None, Some(MISTAKE_CHARS)));
    }

    #[test]
    fn x_a_tool_whose_schema_repeats_a_secret_outside_of_descriptions_is_refused_and_not_rewritten() {
        let settings = McpServer::stdio("cloud", ["cloud"]).env("TOKEN", ApiKey::new("t0ken-of-shop"));
        let settings = settings.env_text("REGION", "us-east-1").checked().expect("a declaration");
        let schema =
            |value: &str| json!({ "type": "object", "properties": { "a": { "enum": [value, "eu-central-1"] } } });
        let open = ListedTool::of(&tool("start", "In us-east-1.", &schema("us-east-1")), &settings);
        assert_eq!((&*open.description, &*open.parameters), ("In us-east-1.", &schema("us-east-1")));
        let secret = ListedTool::of(&tool("start", "", &schema("t0ken-of-shop")), &settings);
        let why = secret.mistake().expect("no agent can have it");
        assert!(why.contains("repeats a secret") && !why.contains("t0ken"), "{why}");
    }
}
