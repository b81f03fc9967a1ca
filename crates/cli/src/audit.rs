//! `countersign audit export` and `countersign audit verify` (spec R8).

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use countersign_core::audit::{Anchor, AuditRecord, Fault, Verifier};
use countersign_server::config::ConfigStore;
#[cfg(feature = "postgres")]
use countersign_store::postgres::{self, PostgresUrl};
use countersign_store::{seal::Keys, sqlite::read_audit};
use serde_json::{Value, json};

use crate::{
    Outcome,
    failure::{CHECKED, Exit, Failure},
    loaded, say,
    terminal::visible_json,
    traces,
};

/// Records read from the store at a time.
const AT_ONCE: usize = 1000;

/// Arguments of `audit`.
#[derive(Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Prints the log as JSON lines, oldest first; the server may be running
    Export(Export),
    /// Says whether a log is unchanged, or which record is the first that is not
    #[command(after_help = CHECKED)]
    Verify(Verify),
}

/// Where the log is.
#[derive(Args)]
struct Place {
    /// The configuration file that names the store
    #[arg(long, value_name = "FILE", default_value = "countersign.toml")]
    config: PathBuf,
    /// The store's file itself: needs no configuration, and none of its secrets; not for an encrypted store
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    store: Option<PathBuf>,
}

#[derive(Args)]
struct Export {
    #[command(flatten)]
    place: Place,
    /// Only records after this one
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
}

#[derive(Args)]
struct Verify {
    /// An exported file; `-` is standard input; the store if absent
    #[arg(conflicts_with_all = ["config", "store"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// A record that the log must contain, as an earlier `verify` printed it: reveals a log that was cut
    #[arg(long, value_name = "NUMBER:HASH")]
    anchor: Option<Anchor>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(audit: &Audit) -> Outcome {
    match &audit.command {
        Command::Export(export) => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            each(&export.place.store()?, export.after, |record| {
                let line = serde_json::to_string(&record).map_err(|e| e.to_string())?;
                // The same JSON: a verifier makes the hashed form of it.
                written(writeln!(out, "{}", visible_json(&line)))
            })?;
            written(out.flush())?;
            Ok(())
        }
        Command::Verify(verify) => {
            let checked = match &verify.file {
                Some(file) => of_file(file, verify.anchor.as_ref())?,
                None => of_store(&verify.place.store()?, verify.anchor.clone())?,
            };
            if verify.json {
                say(&visible_json(&checked.as_json().to_string()))?;
            }
            match checked.end {
                Ok(_) if verify.json => Ok(()),
                Ok(end) => {
                    let records = if checked.records == 1 { "record" } else { "records" };
                    say(&format!("ok: {} {records}; anchor {end}", checked.records))
                }
                Err(Fault { what, .. }) => Err(Failure::new(Exit::Found, format!("{}: {what}", checked.about))),
            }
        }
    }
}

/// The result of a verification.
struct Checked {
    /// How many records are intact, from the first.
    records: u64,
    /// The end of the log, or its first fault.
    end: Result<Anchor, Fault>,
    /// What a fault is about, for people.
    about: String,
}

impl Checked {
    fn new(records: u64, end: Result<Anchor, Fault>) -> Checked {
        Checked { records, end, about: "the audit log was changed".to_owned() }
    }

    /// A file that may be a part of a log: it does not tell itself whether it was exported like this, or cut.
    fn of_a_part(file: &Path, what: String) -> Checked {
        Checked { records: 0, end: Err(Fault { n: 1, what }), about: file.display().to_string() }
    }

    /// As `GET /v1/audit/verify` answers. A caller with the whole log may read all of it.
    fn as_json(&self) -> Value {
        let mut found = json!({ "intact": self.end.is_ok(), "checked": self.records, "readable": self.records });
        match &self.end {
            Ok(end) => found["anchor"] = json!(end.to_string()),
            Err(Fault { n, what }) => found["fault"] = json!({ "n": n, "message": what }),
        }
        found
    }
}

/// A store, and how its log is read.
enum Source {
    Sqlite {
        path: PathBuf,
        keys: Option<Keys>,
        /// Whether there was no configuration to name keys.
        bare: bool,
    },
    #[cfg(feature = "postgres")]
    Postgres {
        past: postgres::Past,
        /// Its connection lives there.
        executor: tokio::runtime::Runtime,
    },
}

impl Source {
    #[cfg(feature = "postgres")]
    fn of_database(url: PostgresUrl, password_env: Option<&str>) -> Result<Source, String> {
        let url = loaded::with_password(url, password_env)?;
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|error| error.to_string())?;
        let past = executor.block_on(postgres::Past::open(&url)).map_err(|error| error.to_string())?;
        Ok(Source::Postgres { past, executor })
    }

    /// Some records after `after`.
    fn read(&self, after: u64) -> Result<Vec<AuditRecord>, String> {
        let read = match self {
            Source::Sqlite { path, keys, .. } => read_audit(path, keys.as_ref(), after, AT_ONCE),
            #[cfg(feature = "postgres")]
            Source::Postgres { past, executor } => executor.block_on(past.audit(after, AT_ONCE)),
        };
        read.map_err(|error| match self {
            Source::Sqlite { bare: true, .. } => loaded::unopened(&error),
            _ => error.to_string(),
        })
    }
}

impl Place {
    fn store(&self) -> Result<Source, String> {
        traces::warnings()?;
        if let Some(store) = &self.store {
            loaded::check_there(store)?;
            return Ok(Source::Sqlite { path: store.clone(), keys: None, bare: true });
        }
        // If a part of the configuration is missing, such as a model's key, the log can still be read with `--store`.
        let config = loaded::load(&self.config).map_err(|error| {
            format!("{error}\n--store FILE reads a SQLite store without the configuration and its secrets")
        })?;
        match config.store {
            ConfigStore::Sqlite(path) => {
                loaded::check_there(&path)?;
                Ok(Source::Sqlite { path, keys: loaded::keys(&config.store_keys)?, bare: false })
            }
            #[cfg(feature = "postgres")]
            ConfigStore::Postgres { url, password_env, .. } => Source::of_database(url, password_env.as_deref()),
            ConfigStore::Memory => {
                Err("a store in memory ends with its server, which serves its log at /v1/audit; a lasting one needs \
                     store.url = \"sqlite:PATH\" or a database"
                    .to_owned())
            }
        }
    }
}

/// Whether the output still has a reader.
fn written(result: std::io::Result<()>) -> Result<bool, String> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write: {error}")),
    }
}

/// Passes each record after `after` to `take`, until it has enough.
fn each(
    store: &Source,
    mut after: u64,
    mut take: impl FnMut(AuditRecord) -> Result<bool, String>,
) -> Result<(), String> {
    loop {
        let records = store.read(after)?;
        let Some(last) = records.last() else { return Ok(()) };
        after = last.n;
        for record in records {
            if !take(record)? {
                return Ok(());
            }
        }
    }
}

fn of_store(store: &Source, anchor: Option<Anchor>) -> Result<Checked, String> {
    let mut verifier = Verifier::new(anchor);
    let (mut records, mut fault) = (0, None);
    each(store, 0, |record| {
        fault = verifier.take(&record).err();
        records += u64::from(fault.is_none());
        Ok(fault.is_none())
    })?;
    Ok(Checked::new(records, fault.map_or_else(|| verifier.end(), Err)))
}

/// The anchor of the records before a part of a log that begins with this one.
fn before(first: &AuditRecord, anchor: Option<&Anchor>) -> Result<Anchor, String> {
    let n = first.n - 1;
    anchor.filter(|anchor| anchor.n == n).cloned().ok_or_else(|| {
        format!(
            "it begins with record {}, so it is a part of a log: give the anchor of the part before it, --anchor {n}:HASH, \
             or verify the whole log",
            first.n
        )
    })
}

fn of_file(file: &Path, anchor: Option<&Anchor>) -> Result<Checked, Failure> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut reader: Box<dyn BufRead> = if file.as_os_str() == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(file).map_err(failed)?))
    };
    if reader.fill_buf().map_err(failed)?.starts_with(loaded::SQLITE) {
        let text =
            format!("{} is a SQLite file, not an exported log: name a store with --store or --config", file.display());
        return Err(Failure::new(Exit::Usage, text));
    }
    let mut verifier = Verifier::new(anchor.cloned());
    let mut records = 0;
    for (number, line) in (1_u64..).zip(reader.lines()) {
        let line = match line {
            Ok(line) => line,
            Err(error) if error.kind() == ErrorKind::InvalidData => String::new(),
            Err(error) => return Err(failed(error).into()),
        };
        let taken = match serde_json::from_str::<AuditRecord>(&line) {
            Ok(record) => {
                if number == 1 && record.n > 1 {
                    verifier = match before(&record, anchor) {
                        Ok(before) => Verifier::after(before),
                        Err(what) => return Ok(Checked::of_a_part(file, what)),
                    };
                }
                verifier.take(&record)
            }
            Err(error) => Err(Fault { n: number, what: format!("line {number} is not a record: {error}") }),
        };
        if let Err(fault) = taken {
            return Ok(Checked::new(records, Err(fault)));
        }
        records += 1;
    }
    if let (0, Some(anchor)) = (records, anchor.filter(|anchor| anchor.n > 0)) {
        let what = format!(
            "it has no records: as the part of a log after record {} it adds none, and as a whole log it was cut",
            anchor.n
        );
        return Ok(Checked::of_a_part(file, what));
    }
    Ok(Checked::new(records, verifier.end()))
}
