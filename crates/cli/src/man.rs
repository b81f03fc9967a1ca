//! `countersign man`

use std::{fs, path::PathBuf};

use clap::{Args, CommandFactory as _};

use crate::{Cli, Outcome, say};

/// Arguments of `man`.
#[derive(Args)]
pub(crate) struct Man {
    /// Write the pages of all commands into this folder, such as /usr/local/share/man/man1
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Prints the page of the program, or writes those of all its commands.
pub(crate) fn run(man: &Man) -> Outcome {
    let Some(folder) = &man.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(|error| error.to_string())?;
        return say(String::from_utf8_lossy(&page).trim_end());
    };
    let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|error| format!("{}: {error}", folder.display()).into())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use clap::{Arg, Command, error::ErrorKind};

    use super::*;

    const PAGE: &str = include_str!("../../../docs/command-line.md");
    /// The options of every command that talks with a server.
    const OF_A_SERVER: [&str; 2] = ["url", "token_env"];
    /// Those of every command that can open a store instead.
    const OF_A_STORE: [&str; 5] = ["config", "store", "subject", "as_role", "as_tenant"];

    /// All commands that do something and are not hidden, with their whole names.
    fn commands(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
        let mut inner =
            command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help").peekable();
        if inner.peek().is_none() {
            found.push((name.to_owned(), command.clone()));
        }
        inner.for_each(|one| commands(one, format!("{name} {}", one.get_name()).trim_start(), found));
    }

    fn row(arg: &Arg) -> String {
        let values: Vec<String> =
            arg.get_value_names().unwrap_or_default().iter().map(|name| name.to_string()).collect();
        let takes = arg.get_action().takes_values();
        let name = match arg.get_long() {
            Some(long) if takes => format!("--{long} {}", values.join(" ")),
            Some(long) => format!("--{long}"),
            None => values.join(" "),
        };
        let choices: Vec<String> = if takes {
            arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect()
        } else {
            Vec::new()
        };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let choices = if choices.is_empty() { String::new() } else { format!(": {}", choices.join(", ")) };
        let defaults: Vec<String> =
            arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
        let default = match defaults.join(" ") {
            text if text.is_empty() && arg.is_required_set() => "required".to_owned(),
            text if takes => text,
            _ => String::new(),
        };
        let others = arg.get_visible_aliases().unwrap_or_default().into_iter().map(|alias| format!("`--{alias}`"));
        let variable = arg.get_env().map(|name| format!("the variable `{}`", name.to_string_lossy()));
        let others: Vec<String> = others.chain(variable).collect();
        let others = if others.is_empty() { String::new() } else { format!("; also {}", others.join(", ")) };
        format!("| `{name}` | {default} | {help}{choices}{others} |\n")
    }

    fn table<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
        let rows: String = args.filter(|arg| !arg.is_hide_set() && arg.get_id() != "help").map(row).collect();
        if rows.is_empty() { String::new() } else { format!("| argument | default | |\n|---|---|---|\n{rows}") }
    }

    /// A page with these options of a command below this mark.
    fn with_options(page: &str, mark: &str, command: &Command, options: &[&str]) -> String {
        let mark = format!("<!-- {mark} -->\n");
        let (head, rest) = page.split_once(&mark).unwrap_or((page, ""));
        let (_, rest) = rest.split_once("<!-- end -->").unwrap_or(("", rest));
        let options = table(command.get_arguments().filter(|arg| options.contains(&arg.get_id().as_str())));
        format!("{head}{mark}{options}<!-- end -->{rest}")
    }

    /// The expected page: the part between the marks is generated from the program.
    fn right() -> String {
        let mut program = Cli::command();
        program.build();
        let mut all = Vec::new();
        commands(&program, "", &mut all);
        let (before, _) = PAGE.split_once("## Commands\n").unwrap_or((PAGE, ""));
        let mut page = before.to_owned();
        for (_, list) in all.iter().filter(|(name, _)| name == "approvals list") {
            page = with_options(&page, "options of a server", list, &OF_A_SERVER);
            page = with_options(&page, "options of a store", list, &OF_A_STORE);
        }
        page += "## Commands\n";
        for (name, command) in all {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
            let (server, store) = (has("token_env"), has("as_role"));
            let is_own = |id: &str| !(server && OF_A_SERVER.contains(&id) || store && OF_A_STORE.contains(&id));
            let own = command.get_arguments().filter(|arg| is_own(arg.get_id().as_str()));
            let shared = match (server, store) {
                (true, true) => " It takes the options of a [server](#servers), or of a [store](#stores).",
                (true, false) => " It takes the options of a [server](#servers).",
                (false, _) => "",
            };
            let _ = write!(page, "\n### `countersign {name}`\n\n{about}.{shared}\n");
            let table = table(own);
            if !table.is_empty() {
                let _ = write!(page, "\n{table}");
            }
        }
        page
    }

    /// The words of each command of this program in the shell blocks of a page; a placeholder is a word like any other.
    fn shown(page: &str) -> Vec<Vec<String>> {
        let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let lines = blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap_or_default());
        let commands = lines.flat_map(|line| line.split(['|', '>', '&', ';'])).map(str::trim);
        let own = commands.filter(|command| ["countersign ", "cs "].iter().any(|name| command.starts_with(name)));
        own.map(|command| {
            // Every second piece is quoted.
            let pieces = command.split('"').enumerate();
            let words = |(i, piece): (usize, &str)| match i % 2 {
                0 => piece.split_whitespace().map(|word| word.replace(['[', ']', '…'], "")).collect(),
                _ => vec![piece.to_owned()],
            };
            pieces.flat_map(words).collect()
        })
        .collect()
    }

    #[test]
    fn u3_every_command_that_a_page_shows_is_one_of_the_program() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let docs = std::fs::read_dir(root.join("docs")).expect("the documents").filter_map(Result::ok);
        let pages = docs.map(|page| page.path()).filter(|page| page.extension().is_some_and(|end| end == "md"));
        let mut found = 0;
        for page in pages.chain([root.join("README.md")]) {
            let text = std::fs::read_to_string(&page).expect("a page");
            for words in shown(&text) {
                found += 1;
                match Cli::command().try_get_matches_from(&words) {
                    // A value may be shortened.
                    Err(error) if error.kind() != ErrorKind::ValueValidation => {
                        panic!("{} shows {words:?}: {error}", page.display());
                    }
                    _ => {}
                }
            }
        }
        assert!(found > 30, "only {found} commands were found");
    }

    #[test]
    fn u3_the_reference_of_the_command_line_has_every_command_and_option() {
        let right = right();
        assert!(PAGE == right, "docs/command-line.md is not what the program says; it ought to be:\n{right}");
    }
}
