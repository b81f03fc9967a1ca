//! Requests and notifications of a server over an open connection.

use std::sync::Weak;

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorData,
        FormElicitationCapability, Implementation, ProtocolVersion, UrlElicitationCapability,
    },
    service::{InboundStreamOrigin, NotificationContext, RequestContext},
};
use tokio::sync::oneshot;

use crate::{
    asks,
    link::Link,
    link::running::{Calls, Elicited},
};

/// Our side of one connection. Sampling, roots and logging are not offered: the protocol deprecates them.
pub(crate) struct Handler {
    pub(crate) link: Weak<Link>,
    pub(crate) calls: Calls,
    /// The revision of the protocol to use, if configured.
    pub(crate) revision: Option<ProtocolVersion>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut us = Implementation::default();
        us.name = "countersign".to_owned();
        us.version = env!("CARGO_PKG_VERSION").to_owned();
        let mut capabilities = ClientCapabilities::default();
        let asks = ElicitationCapability::new()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::default());
        capabilities.elicitation = Some(asks);
        let config = ClientConfig::new(capabilities, us);
        match &self.revision {
            Some(revision) => config.with_protocol_version(revision.clone()),
            None => config,
        }
    }

    /// Until 2025-11-25 a server asks in the middle of a call, and waits.
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(link) = self.link.upgrade() else { return Ok(asks::cancelled()) };
        let name = uuid::Uuid::now_v7().to_string();
        let Some(question) = link.question(&name, &request) else { return Ok(asks::cancelled()) };
        let call = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => self.calls.of(Some(id)),
            Some(InboundStreamOrigin::Unassociated) | None => {
                link.turns.asked_untold();
                self.calls.of(None)
            }
        };
        let (reply, answer) = oneshot::channel();
        let Some(call) = call.filter(|call| !call.is_closed()) else {
            if let Some(left_out) = link.warned.questions.due() {
                let server = &*link.settings.name;
                tracing::warn!(
                    server,
                    left_out,
                    "the MCP server asks a question, and it is not clear in which of its calls"
                );
            }
            return Ok(asks::cancelled());
        };
        // The question belongs to the call, and must not keep the link alive.
        drop(link);
        if call.try_send(Elicited { question, reply }).is_err() {
            // The call has ended, or has too many questions at once.
            return Ok(asks::cancelled());
        }
        drop(call);
        tokio::select! {
            answer = answer => Ok(answer.unwrap_or_else(|_| asks::cancelled())),
            () = context.ct.cancelled() => Ok(asks::cancelled()),
        }
    }

    async fn on_tool_list_changed(&self, context: NotificationContext<RoleClient>) {
        // Notifications over a replaced connection are not about the tools of the next.
        if let Some(link) = self.link.upgrade().filter(|_| !self.calls.is_spent()) {
            link.list_again(context.peer);
        }
    }
}
