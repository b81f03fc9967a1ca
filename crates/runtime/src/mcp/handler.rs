//! What a server may ask of us, and tell us, while a connection to it is up.

use std::sync::Weak;

use rmcp::{
    ClientHandler, RoleClient,
    model::{ClientCapabilities, ClientConfig, Implementation},
    service::NotificationContext,
};

use super::link::Link;

/// Our side of one connection. Sampling, roots and logging are not offered: the protocol gives them up.
pub(super) struct Handler {
    pub(super) link: Weak<Link>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut us = Implementation::default();
        us.name = "countersign".to_owned();
        us.version = env!("CARGO_PKG_VERSION").to_owned();
        ClientConfig::new(ClientCapabilities::default(), us)
    }

    async fn on_tool_list_changed(&self, context: NotificationContext<RoleClient>) {
        if let Some(link) = self.link.upgrade() {
            link.list_again(context.peer);
        }
    }
}
