//! Where a database is, without ever showing its password.

use std::{
    fmt::{self, Write as _},
    net::IpAddr,
    str::FromStr,
    time::Duration,
};

use tokio_postgres::config::{Config, Host, SslMode, TargetSessionAttrs};

/// How long connecting to one address may take, unless the URL says otherwise.
const CONNECT: Duration = Duration::from_secs(10);
/// How soon a connection whose other end has silently disappeared is noticed.
const SILENCE: Duration = Duration::from_secs(30);

/// The URL of a database, `postgres://USER:PASSWORD@HOST:PORT/DATABASE?…`, as PostgreSQL's own programs take it. Neither
/// `Debug` nor `Display` shows its password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    config: Box<Config>,
    way: Way,
}

/// The path between a process and its database.
#[derive(Clone, PartialEq, Eq)]
enum Way {
    /// Direct: a connection is a session of the database.
    Direct,
    /// A transaction pooler, and the database past it, if that can be reached.
    Pooled(Option<Box<PostgresUrl>>),
}

/// Why a URL cannot be used through a pooler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "sets \"options\", which a transaction pooler refuses or forgets; set them for the user, as in ALTER ROLE countersign IN \
     DATABASE countersign SET search_path = 'countersign'"
)]
pub struct BadPoolerUrl;

/// Why a text is not the URL of a database. The message repeats none of it, since it may have a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPostgresUrl {
    /// It is not such a URL.
    #[error(
        "is not a URL of a PostgreSQL database, such as \"postgres://USER@HOST/DATABASE\"; in a name or password, \
         characters other than a-z, A-Z, 0-9, -, ., _ and ~ are percent-encoded, such as %20"
    )]
    None,
    /// It has a parameter that PostgreSQL's own programs know, and this one does not.
    #[error("has {0}, which is not supported; {1}")]
    Parameter(&'static str, &'static str),
    /// A parameter has an unsupported value.
    #[error("has a value of {0} that is not supported; it takes {1}")]
    Value(&'static str, &'static str),
}

/// What to write instead of parameters that are not supported.
const CERTIFICATES: &str =
    "a server's certificate is checked by what the system trusts, or by SSL_CERT_FILE, with sslmode=require";
const NO_MORE: &str = "supported are: application_name, channel_binding, connect_timeout, hostaddr, keepalives, \
     keepalives_idle, keepalives_interval, keepalives_retries, load_balance_hosts, options, sslmode, sslnegotiation, \
     target_session_attrs, tcp_user_timeout";
const UNSUPPORTED: [(&str, &str); 15] = [
    ("sslmode=verify-ca", CERTIFICATES),
    ("sslmode=allow", "write sslmode=prefer or sslmode=require"),
    ("sslrootcert", CERTIFICATES),
    ("sslcrl", CERTIFICATES),
    ("sslcrldir", CERTIFICATES),
    ("sslcert", NO_MORE),
    ("sslkey", NO_MORE),
    ("sslpassword", NO_MORE),
    ("sslsni", NO_MORE),
    ("gssencmode", NO_MORE),
    ("passfile", "name the variable of the password in `password_env`"),
    ("service", NO_MORE),
    ("require_auth", NO_MORE),
    ("keepalives_count", "write keepalives_retries"),
    ("client_encoding", NO_MORE),
];

/// The supported values of parameters.
const VALUES: [(&str, &str); 11] = [
    ("target_session_attrs", ATTRS),
    ("connect_timeout", SECONDS),
    ("tcp_user_timeout", SECONDS),
    ("keepalives_idle", SECONDS),
    ("keepalives_interval", SECONDS),
    ("keepalives_retries", "a whole number"),
    ("keepalives", "0 or 1"),
    ("sslmode", "disable, prefer, require or verify-full"),
    ("sslnegotiation", "postgres or direct"),
    ("channel_binding", "disable, prefer or require"),
    ("load_balance_hosts", "disable or random"),
];
const SECONDS: &str = "a whole number of seconds";
const ATTRS: &str = "primary, read-write or any: whatever it is, a server is used that can be written to";

impl BadPostgresUrl {
    /// Why the driver does not take a URL. Only texts of this file are repeated.
    fn of(url: &str) -> BadPostgresUrl {
        let parameters = || url.split_once('?').map_or("", |(_, rest)| rest).split('&');
        let has = |name: &str| {
            parameters().any(|one| one == name || one.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
        };
        let unsupported = UNSUPPORTED.into_iter().find(|(name, _)| has(name));
        if let Some((name, instead)) = unsupported {
            return BadPostgresUrl::Parameter(name, instead);
        }
        let is_bad = |name: &str, one: &str| {
            let is_its = one.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
            is_its && format!("postgres://host?{one}").parse::<Config>().is_err()
        };
        let bad = VALUES.into_iter().find(|(name, _)| parameters().any(|one| is_bad(name, one)));
        bad.map_or(BadPostgresUrl::None, |(name, takes)| BadPostgresUrl::Value(name, takes))
    }
}

impl FromStr for PostgresUrl {
    type Err = BadPostgresUrl;

    fn from_str(url: &str) -> Result<PostgresUrl, BadPostgresUrl> {
        if !PostgresUrl::is_scheme(url) {
            return Err(BadPostgresUrl::None);
        }
        // The driver has no such values. `require` checks the same here: the certificate and the host.
        let known = |options: &str| {
            let options = options.replace("sslmode=verify-full", "sslmode=require");
            options.replace("target_session_attrs=primary", "target_session_attrs=read-write")
        };
        let url = match url.split_once('?') {
            Some((place, options)) => format!("{place}?{}", known(options)),
            None => url.to_owned(),
        };
        let mut config: Config = url.parse().map_err(|_| BadPostgresUrl::of(&url))?;
        // Without a host there is no name to check a certificate for, and the text after a raw `@` in a password would
        // be taken for the host and shown.
        let is_odd = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
        if config.get_hosts().is_empty() || config.get_hosts().iter().any(is_odd) {
            return Err(BadPostgresUrl::None);
        }
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(BadPostgresUrl::Value("target_session_attrs", ATTRS));
        }
        // The lock and the tables must be on one server, and that must be writable.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("countersign");
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        // The driver has a time where the URL has none.
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(SILENCE / 2);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(SILENCE / 6);
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(3);
        }
        Ok(PostgresUrl { config: Box::new(config), way: Way::Direct })
    }
}

impl PostgresUrl {
    /// Whether a text begins like a URL of a PostgreSQL database.
    #[must_use]
    pub fn is_scheme(url: &str) -> bool {
        url.starts_with("postgres://") || url.starts_with("postgresql://")
    }

    /// The same with this password.
    ///
    /// The database past a pooler gets it too, unless its URL has one.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> PostgresUrl {
        self.config.password(password);
        if let Way::Pooled(Some(direct)) = &mut self.way
            && !direct.has_password()
        {
            direct.config.password(password);
        }
        self
    }

    /// The same as the URL of a transaction pooler, such as PgBouncer, which gives each transaction any session of the
    /// database. Then no statement is prepared by name, and every setting is one of a transaction.
    ///
    /// `direct` is the same database past the pooler: work that needs its own session uses one connection to it.
    /// Without it nodes get no notifications of each other's changes, but poll for them each second, and see each block
    /// that a model writes on another node only when it is complete.
    ///
    /// # Errors
    /// The URL has `options`.
    pub fn through_pooler(mut self, direct: Option<PostgresUrl>) -> Result<PostgresUrl, BadPoolerUrl> {
        if self.config.get_options().is_some() {
            return Err(BadPoolerUrl);
        }
        self.way = Way::Pooled(direct.map(|direct| Box::new(PostgresUrl { way: Way::Direct, ..direct })));
        Ok(self)
    }

    /// Whether it is that of a pooler.
    pub(super) fn is_pooled(&self) -> bool {
        matches!(self.way, Way::Pooled(_))
    }

    /// The database past the pooler.
    #[must_use]
    pub fn past_pooler(&self) -> Option<&PostgresUrl> {
        match &self.way {
            Way::Pooled(direct) => direct.as_deref(),
            Way::Direct => None,
        }
    }

    /// Where a node's own connection leads: past the pooler, if there is such a way.
    pub(super) fn of_own(&self) -> &PostgresUrl {
        self.past_pooler().unwrap_or(self)
    }

    /// The same, but no silent host takes more than its share of a time, so that all are tried within it.
    pub(super) fn within(mut self, time: Duration) -> PostgresUrl {
        let hosts = self.config.get_hosts().len();
        let share = time / u32::try_from(hosts + 1).unwrap_or(u32::MAX);
        let configured = self.config.get_connect_timeout().copied().unwrap_or(CONNECT);
        if hosts > 1 {
            self.config.connect_timeout(configured.min(share));
        }
        if let Way::Pooled(Some(direct)) = self.way {
            self.way = Way::Pooled(Some(Box::new(direct.within(time))));
        }
        self
    }

    /// Whether it has a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// The first host on another machine that may be given a password without TLS: the URL's, or another one
    /// (`has_password`).
    #[must_use]
    pub fn plain_host(&self, has_password: bool) -> Option<&str> {
        if self.config.get_ssl_mode() == SslMode::Require || !(has_password || self.has_password()) {
            return None;
        }
        let addresses = self.config.get_hostaddrs().iter().map(Some).chain(std::iter::repeat(None));
        self.config.get_hosts().iter().zip(addresses).find_map(|(host, address)| match (host, address) {
            (Host::Tcp(name), Some(address)) => Some(&**name).filter(|_| !address.is_loopback()),
            (Host::Tcp(name), None) => Some(&**name).filter(|name| !is_this_machine(name)),
            #[cfg(unix)]
            (Host::Unix(_), _) => None,
        })
    }

    /// Whether a connection may leave the machine, and is not configured to be plain.
    pub(super) fn wants_tls(&self) -> bool {
        let local = |host: &Host| !matches!(host, Host::Tcp(_));
        self.config.get_ssl_mode() != SslMode::Disable && !self.config.get_hosts().iter().all(local)
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for PostgresUrl {
    /// Its hosts and its database, and the schema if its options have one: another schema is another store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        for (i, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match host {
                Host::Tcp(host) => write!(f, "{comma}{host}")?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            let ports = self.config.get_ports();
            if let Some(port) = ports.get(i).or_else(|| ports.first()).filter(|port| **port != 5432) {
                write!(f, ":{port}")?;
            }
        }
        if self.config.get_hosts().is_empty() {
            for (i, host) in self.config.get_hostaddrs().iter().enumerate() {
                write!(f, "{}{host}", if i > 0 { "," } else { "" })?;
            }
        }
        write!(f, "/{}", self.config.get_dbname().or_else(|| self.config.get_user()).unwrap_or_default())?;
        let path =
            self.config.get_options().and_then(|options| options.split_once("search_path=")?.1.split(' ').next());
        let Some(path) = path else { return Ok(()) };
        f.write_str("?options=-c%20search_path%3D")?;
        path.bytes().try_for_each(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() || b"_-.,".contains(&byte) => f.write_char(byte.into()),
            byte => write!(f, "%{byte:02X}"),
        })
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_a_url_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://ann:secret@db.example/store", "postgres://db.example/store"),
            ("postgresql://ann:secret@a:6000,b/store?sslmode=require", "postgres://a:6000,b/store"),
            ("postgres://ann:secret@%2Frun%2Fpg/store", "postgres:///run/pg/store"),
            ("postgres://ann@db/?password=secret", "postgres://db/ann"),
            ("postgres://ann:secret@db/store?sslmode=verify-full", "postgres://db/store"),
        ] {
            let url: PostgresUrl = url.parse().expect(url);
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("secret"), "{url:?}");
        }
    }

    #[test]
    fn c_a_url_is_shown_with_its_schema_for_another_one_is_another_store() {
        for (options, shown) in [
            ("-c%20search_path%3Dtwo", "two"),
            ("-c%20search_path%3Dtwo%2Cb-1", "two,b-1"),
            ("--search_path=%22A%C6%A1%22", "%22A%C6%A1%22"),
            ("-c%20statement_timeout%3D9%20-c%20search_path%3Dtwo%20-c%20a.b%3Dsecret", "two"),
        ] {
            let read = |url: &str| url.parse::<PostgresUrl>().expect("a URL").to_string();
            let shown = format!("postgres://db/store?options=-c%20search_path%3D{shown}");
            assert_eq!(read(&format!("postgres://db/store?options={options}")), shown);
            assert_eq!(read(&shown), shown);
        }
    }

    #[test]
    fn x_a_password_is_that_of_the_pooler_and_of_what_is_past_it() {
        let url = |url: &str| url.parse::<PostgresUrl>().expect("a URL");
        let past = |direct| url("postgres://db/store").through_pooler(Some(url(direct))).expect("no options");
        for (direct, wanted) in [("postgres://other/store", "hunter2"), ("postgres://ann:own@other/store", "own")] {
            let pooled = past(direct).with_password("hunter2");
            assert_eq!(pooled.config.get_password(), Some(&b"hunter2"[..]));
            let direct = pooled.past_pooler().expect("it was given");
            assert_eq!(direct.config.get_password(), Some(wanted.as_bytes()));
            assert!(!format!("{pooled:?} {direct}").contains(wanted), "{pooled:?} {direct}");
        }
    }

    #[test]
    fn c_what_a_pooler_would_forget_is_refused_in_its_url() {
        let url: PostgresUrl = "postgres://db/store?options=-c%20search_path%3Dother".parse().expect("a URL");
        assert!(url.through_pooler(None).expect_err("options").to_string().contains("search_path"));
    }

    #[test]
    fn c_a_parameter_that_is_not_supported_is_named() {
        for (parameter, told) in [
            (
                "sslmode=verify-ca",
                "has sslmode=verify-ca, which is not supported; a server's certificate is checked by",
            ),
            ("sslmode=require&sslrootcert=/etc/ca.pem", "has sslrootcert, which"),
            ("keepalives_count=3", "write keepalives_retries"),
            (
                "target_session_attrs=prefer-standby",
                "has a value of target_session_attrs that is not supported; it takes primary",
            ),
            ("target_session_attrs=read-only", "a server is used that can be written to"),
            (
                "sslmode=require&connect_timeout=abc",
                "has a value of connect_timeout that is not supported; it takes a whole number",
            ),
        ] {
            let refused = format!("postgres://db/store?{parameter}").parse::<PostgresUrl>().expect_err(parameter);
            assert!(refused.to_string().contains(told), "{refused}");
        }
        assert!("postgres://db/store?target_session_attrs=primary".parse::<PostgresUrl>().is_ok());
        let known = NO_MORE.split_once(": ").expect("a list").1;
        for name in known.split(", ") {
            let value = match name {
                "sslmode" => "require",
                "channel_binding" => "prefer",
                "load_balance_hosts" => "disable",
                "sslnegotiation" => "postgres",
                "target_session_attrs" => "any",
                "hostaddr" => "127.0.0.1",
                _ => "1",
            };
            let url = format!("postgres://db/store?{name}={value}");
            assert!(url.parse::<PostgresUrl>().is_ok(), "{name} is said to be supported");
        }
    }

    #[test]
    fn c_what_a_url_says_of_keepalives_is_kept() {
        let kept = |url: &str| {
            let url: PostgresUrl = url.parse().expect("a URL");
            let idle = url.config.get_keepalives_idle().as_secs();
            let interval = url.config.get_keepalives_interval().map(|interval| interval.as_secs());
            (url.config.get_keepalives(), idle, interval, url.config.get_keepalives_retries())
        };
        assert_eq!(kept("postgres://db/store"), (true, 15, Some(5), Some(3)));
        let url = "postgres://db/store?keepalives_idle=60&keepalives_interval=20&keepalives_retries=9";
        assert_eq!(kept(url), (true, 60, Some(20), Some(9)));
        assert!(!kept("postgres://db/store?keepalives=0").0);
    }

    #[test]
    fn c_a_host_that_says_nothing_is_passed_over_in_time_for_the_next() {
        let seconds = |url: &str| {
            let url: PostgresUrl = url.parse().expect("a URL");
            url.within(Duration::from_secs(9)).config.get_connect_timeout().map(Duration::as_secs)
        };
        assert_eq!(seconds("postgres://a,b/store"), Some(3));
        assert_eq!(seconds("postgres://a,b/store?connect_timeout=20"), Some(3));
        assert_eq!(seconds("postgres://a,b/store?connect_timeout=2"), Some(2));
        assert_eq!(seconds("postgres://a/store"), Some(10), "there is no next one");
    }

    #[test]
    fn x_what_is_no_url_is_refused_without_repeating_it() {
        for url in [
            "",
            "sqlite:a.db",
            "postgres:secret",
            "postgres://",
            "postgres:///store",
            "postgres://ann:secret@db:port/store",
            "postgres://db/store?secret=1",
            "postgres://ann:se@cret@db/store",
            "postgres:///store?hostaddr=10.0.0.1",
        ] {
            let refused = url.parse::<PostgresUrl>().expect_err(url);
            assert!(!refused.to_string().contains("cret"), "{url}: {refused}");
        }
    }
}
