//! Where a database is, without ever showing its password.

use std::{fmt, str::FromStr, time::Duration};

use tokio_postgres::config::{Config, Host, SslMode, TargetSessionAttrs};

/// How long connecting to one address may take, unless the URL says otherwise.
const CONNECT: Duration = Duration::from_secs(10);
/// How soon a connection is noticed whose other end has gone without a word.
const SILENCE: Duration = Duration::from_secs(30);

/// The URL of a database, `postgres://USER:PASSWORD@HOST:PORT/DATABASE?…`, as PostgreSQL's own programs take it. Neither
/// `Debug` nor `Display` shows its password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(Box<Config>);

/// Why a text is no URL of a database. It repeats nothing of it, since it may have a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is no URL of a PostgreSQL database, such as \"postgres://USER@HOST/DATABASE\"; what is none of a-z, A-Z, 0-9, -, ., _ \
     and ~ in a name or password is written as in %20"
)]
pub struct BadPostgresUrl;

impl FromStr for PostgresUrl {
    type Err = BadPostgresUrl;

    fn from_str(url: &str) -> Result<PostgresUrl, BadPostgresUrl> {
        if !PostgresUrl::is_scheme(url) {
            return Err(BadPostgresUrl);
        }
        // The driver has no word for it, and `require` checks the same here: the certificate and the host.
        let url = match url.split_once('?') {
            Some((place, options)) => format!("{place}?{}", options.replace("sslmode=verify-full", "sslmode=require")),
            None => url.to_owned(),
        };
        let mut config: Config = url.parse().map_err(|_| BadPostgresUrl)?;
        // Without a host there is no name to check a certificate for, and what comes after a raw `@` of a password would
        // be taken for the host and shown.
        let is_odd = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
        if config.get_hosts().is_empty() || config.get_hosts().iter().any(is_odd) {
            return Err(BadPostgresUrl);
        }
        // The lock and the rest may be on no two servers, and on none that only reads.
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
        config.keepalives_idle(SILENCE / 2).keepalives_interval(SILENCE / 6).keepalives_retries(3);
        Ok(PostgresUrl(Box::new(config)))
    }
}

impl PostgresUrl {
    /// Whether a text begins like a URL of a PostgreSQL database.
    #[must_use]
    pub fn is_scheme(url: &str) -> bool {
        url.starts_with("postgres://") || url.starts_with("postgresql://")
    }

    /// The same with this password.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> PostgresUrl {
        self.0.password(password);
        self
    }

    /// Whether it has a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.0.get_password().is_some()
    }

    /// Whether a connection may leave the machine, and is not told to be plain.
    pub(super) fn wants_tls(&self) -> bool {
        let local = |host: &Host| !matches!(host, Host::Tcp(_));
        self.0.get_ssl_mode() != SslMode::Disable && !self.0.get_hosts().iter().all(local)
    }

    pub(super) fn config(&self) -> &Config {
        &self.0
    }
}

impl fmt::Display for PostgresUrl {
    /// Its hosts and its database.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        for (i, host) in self.0.get_hosts().iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match host {
                Host::Tcp(host) => write!(f, "{comma}{host}")?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            let ports = self.0.get_ports();
            if let Some(port) = ports.get(i).or_else(|| ports.first()).filter(|port| **port != 5432) {
                write!(f, ":{port}")?;
            }
        }
        if self.0.get_hosts().is_empty() {
            for (i, host) in self.0.get_hostaddrs().iter().enumerate() {
                write!(f, "{}{host}", if i > 0 { "," } else { "" })?;
            }
        }
        write!(f, "/{}", self.0.get_dbname().or_else(|| self.0.get_user()).unwrap_or_default())
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
