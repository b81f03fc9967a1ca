//! MCP servers that the provider calls: what it asks about goes through our gate (SPEC S13, groups M of the
//! OpenAI Agents SDKs).
