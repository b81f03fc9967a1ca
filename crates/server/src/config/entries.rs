//! The declared tools as the runtime takes them.

use std::{collections::BTreeMap, sync::Arc};

use countersign::{
    model::ToolSpec,
    tool::{Approval, Require, ToolEntry, command::CommandTool, condition::CelCondition},
};
use countersign_core::call::schema::ArgsSchema;

use super::{Config, ConfigApproval, ConfigRequire, ConfigTool};

/// All tools of a configuration by name.
///
/// # Errors
/// A condition, schema or command that cannot be used; not after [`Config::load`], which has checked them.
pub fn tool_entries(config: &Config) -> Result<BTreeMap<String, ToolEntry>, String> {
    config.tools.iter().map(|tool| Ok((tool.name.clone(), entry(tool)?))).collect()
}

fn entry(tool: &ConfigTool) -> Result<ToolEntry, String> {
    let in_tool = |error: String| format!("tool {:?}: {error}", tool.name);
    ArgsSchema::compile(&tool.parameters).map_err(in_tool)?;
    let command = CommandTool::new(tool.command.iter().map(String::as_str)).map_err(in_tool)?;
    let command = command
        .cwd(&tool.cwd)
        .time_limit(tool.time_limit)
        .output_limit(usize::try_from(tool.output_limit).unwrap_or(usize::MAX))
        .pass_env(tool.env.iter().map(String::as_str));
    Ok(ToolEntry {
        spec: ToolSpec {
            name: tool.name.as_str().into(),
            description: tool.description.as_str().into(),
            parameters: Arc::new(tool.parameters.clone()),
        },
        approval: approval(&tool.approval).map_err(in_tool)?,
        idempotent: tool.idempotent,
        tool: Arc::new(command),
    })
}

fn approval(approval: &ConfigApproval) -> Result<Approval, String> {
    let require = match &approval.require {
        ConfigRequire::Never => Require::Never,
        ConfigRequire::Always => Require::Always,
        ConfigRequire::When(expression) => Require::When(Arc::new(CelCondition::compile(expression)?)),
    };
    Ok(Approval { require, ask: approval.ask.clone() })
}
