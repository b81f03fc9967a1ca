//! The tools of a server as it lists them, and as agents get them.

use std::{future::poll_fn, io, sync::Arc, task::Poll};

use countersign_core::{
    call::schema::SCHEMA_BYTES,
    journal::{input::CallInput, permit::Permit},
};
use futures::future::BoxFuture;
use rmcp::model::{ListToolsResult, Tool as ServerTool};
use serde_json::{Value, json};

use crate::{
    McpToolInfo,
    link::Link,
    pipes::MESSAGE_BYTES,
    settings::{McpServer, in_names, secrets::Secrets},
};
use countersign_engine::tool::{Approval, Hints, Tool, ToolEntry, ToolError, ToolSpec, reserved};

/// Longest name of a tool: model providers accept no longer ones.
const NAME_BYTES: usize = 64;
/// How much is said of what is wrong with a tool, in characters.
const MISTAKE_CHARS: usize = 400;
/// Longest description of a tool that is passed on, in bytes.
const DESCRIPTION_BYTES: usize = 16 * 1024;

/// Most tools of one server.
pub(crate) const TOOLS: usize = 1024;
/// Most bytes of them, as JSON.
pub(crate) const TOOLS_BYTES: usize = MESSAGE_BYTES;

/// A server's list while its pages are read: what is kept of all of them is bounded.
#[derive(Default)]
pub(crate) struct Listing {
    pub(crate) tools: Vec<ListedTool>,
    bytes: usize,
    /// There were more tools, or larger ones, than are kept.
    pub(crate) is_full: bool,
}

impl Listing {
    /// Adds a page. `false`: not all of it, and no more is to be read.
    pub(crate) fn add(&mut self, page: &[ServerTool], settings: &McpServer) -> bool {
        for tool in page {
            self.bytes = self.bytes.saturating_add(bytes(tool));
            if self.tools.len() == TOOLS || self.bytes > TOOLS_BYTES {
                self.is_full = true;
                break;
            }
            self.tools.push(ListedTool::of(tool, settings));
        }
        !self.is_full
    }
}

/// A page of a list that the protocol's library does not read, where some tool is malformed: in the place of each of
/// those is one that is refused by its name, and says why. `None`: it is no list of tools.
pub(super) fn read(mut page: Value) -> Option<ListToolsResult> {
    for (at, tool) in page.get_mut("tools")?.as_array_mut()?.iter_mut().enumerate() {
        if let Err(error) = serde_path_to_error::deserialize::<_, ServerTool>(&*tool) {
            let nameless = || format!("number {}", at + 1);
            let name = tool["name"].as_str().map_or_else(nameless, str::to_owned);
            // It may quote any text of the server.
            let why: String = format!("the tool is malformed: {error}").chars().take(MISTAKE_CHARS).collect();
            *tool = json!({ "name": name, "inputSchema": not_used(&why) });
        }
    }
    serde_json::from_value(page).ok()
}

/// In place of a schema that is not used: one that is refused, and says why.
fn not_used(why: &str) -> Value {
    json!({ "type": format!("none: {why}") })
}

/// The size of a tool in the server's list, as JSON. Nothing is kept of it.
fn bytes(tool: &ServerTool) -> usize {
    struct Counted(usize);
    impl io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counted = Counted(0);
    // What cannot be written does not fit.
    serde_json::to_writer(&mut counted, tool).map_or(usize::MAX, |()| counted.0)
}

/// The schema of a tool's arguments, without the server's secrets. One that is too large for any tool is not kept, and
/// none with a secret outside of descriptions: in its place is one that is refused, and says why.
fn parameters(tool: &ServerTool, secrets: &Secrets) -> Value {
    let text = serde_json::to_string(&tool.input_schema).unwrap_or_default();
    if text.len() > SCHEMA_BYTES {
        return not_used(&format!("it has {} bytes, and at most {SCHEMA_BYTES} are allowed", text.len()));
    }
    let redacted = secrets.redact_schema(text).map(|text| serde_json::from_str(&text).unwrap_or_default());
    let mut parameters = redacted.unwrap_or_else(|why| not_used(&why));
    if let Some(keywords) = parameters.as_object_mut() {
        // Model providers require it.
        keywords.entry("type").or_insert_with(|| "object".into());
    }
    parameters
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
}

/// Whether a tool would be mistaken for a built-in one. A server may provide file tools and the shell if the operator
/// names the tool; a question, a todo list or a handoff is recognised by its name alone, and can never be a server's.
fn is_taken(as_name: &str, name: &str, settings: &McpServer) -> bool {
    let named = || {
        settings.require.names().contains(&name)
            || settings.only.as_ref().is_some_and(|only| only.iter().any(|other| other == name))
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
    /// Reads a tool from the server's list.
    pub(crate) fn of(tool: &ServerTool, settings: &McpServer) -> ListedTool {
        let name: Arc<str> = tool.name.as_ref().into();
        let as_name: Arc<str> = as_name(&name, settings).into();
        let built_in = is_taken(&as_name, &name, settings);
        let used = !built_in
            && !settings.without.iter().any(|other| **other == *name)
            && settings.only.as_ref().is_none_or(|only| only.iter().any(|other| **other == *name));
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
        ListedTool {
            name,
            as_name,
            description: description.into(),
            parameters: Arc::new(parameters(tool, &settings.secrets)),
            hints,
            used,
            built_in,
        }
    }

    /// What of it differs from another tool of the name, for a log.
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
            mistake: self.spec().mistake(),
        }
    }

    pub(super) fn spec(&self) -> ToolSpec {
        ToolSpec::new(self.as_name.clone(), self.description.clone(), self.parameters.clone())
    }

    /// The tool for an agent. Hints are for the policy's rules: whether it is idempotent is the operator's decision.
    ///
    /// It is idempotent as the server's declaration says, unless overridden for this tool.
    pub(crate) fn entry(&self, link: &Arc<Link>, idempotent: Option<bool>) -> ToolEntry {
        let settings = &link.settings;
        let approval = Approval { require: settings.require.of(&self.name), ask: Default::default() };
        let declared = || settings.idempotent.iter().any(|name| **name == *self.name);
        let idempotent = idempotent.unwrap_or_else(declared);
        let tool = RemoteTool { link: link.clone(), tool: self.clone(), idempotent };
        // A call that was approved for one program or address is asked about again before another runs it.
        let source = Some(format!("mcp {:?} {:?} {}", &*settings.name, &*self.name, link.reached).into());
        ToolEntry { source, ..ToolEntry::new(self.spec(), Arc::new(tool)) }
            .needs_approval(approval)
            .claims(self.hints)
            .idempotent(idempotent)
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
    fn unasked(&self, session_id: &str, call: u32, input: &CallInput) -> BoxFuture<'static, bool> {
        // It must not keep the link alive.
        let link = Arc::downgrade(&self.link);
        let input = input.clone();
        let session_id = session_id.to_owned();
        let ends = self.link.parked.watch(&session_id, call, &input);
        Box::pin(async move {
            let unasked = poll_fn(|context| match link.upgrade() {
                Some(link) => link.parked.poll_unasked(&session_id, call, &input, context),
                None => Poll::Ready(false),
            });
            tokio::select! { biased; unasked = unasked => unasked, _ = ends => false }
        })
    }
}

#[cfg(test)]
mod tests {
    use countersign_core::call::schema::ArgsSchema;
    use countersign_engine::key::ApiKey;

    use super::*;

    fn tool(name: &str, description: &str, schema: &Value) -> ServerTool {
        serde_json::from_value(json!({ "name": name, "description": description, "inputSchema": schema }))
            .expect("a tool")
    }

    #[test]
    fn s13_r9_a_list_of_tools_is_bounded_in_all_and_so_is_each_schema() {
        let settings = McpServer::stdio("shop", ["shop"]);
        let large = tool("large", "", &json!({ "type": "object", "enum": vec![1; 1 << 20] }));
        let mut listing = Listing::default();
        let pages = (0..64).take_while(|_| listing.add(std::slice::from_ref(&large), &settings)).count();
        assert_eq!((pages, listing.tools.len(), listing.is_full), (3, 3, true), "2 MiB each");
        let kept = &listing.tools[0].parameters;
        assert!(kept.to_string().len() < 200, "{kept}");
        let Err(why) = ArgsSchema::compile(kept) else { panic!("no tool is used with it") };
        assert!(why.contains("2097"), "{why}");

        let small = vec![tool("small", "", &json!({ "type": "object" })); TOOLS];
        let mut listing = Listing::default();
        assert!(listing.add(&small, &settings) && !listing.add(&small, &settings));
        assert_eq!(listing.tools.len(), TOOLS);
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
    fn x_a_tool_whose_schema_repeats_a_secret_outside_of_descriptions_is_refused_and_not_rewritten() {
        let settings = McpServer::stdio("cloud", ["cloud"]).env("TOKEN", ApiKey::new("t0ken-of-shop"));
        let settings = settings.env_text("REGION", "us-east-1").checked().expect("a declaration");
        let schema =
            |value: &str| json!({ "type": "object", "properties": { "a": { "enum": [value, "eu-central-1"] } } });
        let open = ListedTool::of(&tool("start", "In us-east-1.", &schema("us-east-1")), &settings);
        assert_eq!((&*open.description, &*open.parameters), ("In us-east-1.", &schema("us-east-1")));
        let secret = ListedTool::of(&tool("start", "", &schema("t0ken-of-shop")), &settings);
        let Err(why) = ArgsSchema::compile(&secret.parameters) else { panic!("no tool is used with it") };
        assert!(why.contains("repeats a secret") && !why.contains("t0ken"), "{why}");
    }
}
