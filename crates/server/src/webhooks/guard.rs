//! Which addresses messages may go to: those of the public internet only, unless the file says otherwise.
//!
//! An address is the operator's choice, but its host name is resolved by others: the result is checked when a
//! connection is made, in the resolver itself, so that nothing is looked up twice. Redirects are not followed. With a
//! proxy in the environment, the proxy resolves names and has to guard them; its own name is the operator's choice, and
//! may lead anywhere.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use countersign_engine::outgoing;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};
use tokio::sync::Semaphore;

/// Most names that are looked up at the same time, over all endpoints. Each takes a thread, which no time limit frees.
static AT_ONCE: Semaphore = Semaphore::const_new(64);

/// The addresses of a name, or why there are none.
type Found = Result<Vec<SocketAddr>, String>;
/// Each lookup under way, by its name and port.
type UnderWay = HashMap<(String, u16), Shared<BoxFuture<'static, Found>>>;

/// The lookups of an endpoint. Each name has one at a time, which all attempts wait for: so a name server that hangs
/// costs one thread, and other endpoints nothing.
#[derive(Clone, Default)]
pub(super) struct Lookups(Arc<Mutex<UnderWay>>);

impl Lookups {
    /// The addresses of a name.
    pub(super) async fn of(&self, name: &str, port: u16) -> Found {
        let host = name.to_owned();
        self.share(name, port, async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }).await
    }

    /// Waits for the lookup that is under way, or for this one.
    pub(super) async fn share(
        &self,
        name: &str,
        port: u16,
        look: impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    ) -> Found {
        let key = (name.to_owned(), port);
        let looking = {
            let mut under_way = self.under_way();
            let begin = || {
                let (all, key) = (self.clone(), key.clone());
                // It runs to its end even if nobody waits for it any more: its thread cannot be cancelled.
                let task = tokio::spawn(async move {
                    let _one_of_them = AT_ONCE.acquire().await;
                    let found = look.await.map_err(|error| format!("its name is not found: {error}"));
                    all.under_way().remove(&key);
                    found
                });
                task.map(|found| found.unwrap_or_else(|_| Err("its name was not looked up".to_owned())))
                    .boxed()
                    .shared()
            };
            under_way.entry(key.clone()).or_insert_with(begin).clone()
        };
        looking.await
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to say in the file about an address that is no public one.
const MEANT_PRIVATE: &str = "if that is meant, say allow_private_networks = true";

/// Parses an address, if messages may go there: into private networks and to this machine, and over `http`, only if that is
/// allowed.
///
/// # Errors
/// Why not, as a text that can follow `"url"`. It does not repeat the address, which may hold a secret.
pub(crate) fn check(text: &str, allow_private_networks: bool, allow_http: bool) -> Result<Url, String> {
    let url = outgoing::address(text)?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_private = outgoing::is_loopback(&url) || host.parse().is_ok_and(|address: IpAddr| !is_public(address));
    if is_private && !allow_private_networks {
        return Err(format!("leads into a private network or to this machine; {MEANT_PRIVATE}"));
    }
    if url.scheme() != "https" && !allow_http {
        return Err("must begin with https://; if http is meant, say allow_http = true".to_owned());
    }
    Ok(url)
}

/// Whether an address is of the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        // This network, shared addresses, protocol assignments, benchmarks, reserved.
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240;
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b) {
        // IPv4 addresses: mapped, translated, in 6to4.
        (0, 0) if [c, d, e, f] == [0, 0, 0, 0xffff] => embedded(g, h),
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => embedded(g, h),
        (0x2002, _) => embedded(b, c),
        // Teredo, protocol assignments, documentation.
        (0x2001, 0..0x200 | 0xdb8) => false,
        // All globally routed addresses begin so.
        _ => a & 0xe000 == 0x2000 && a != 0x3fff,
    }
}

/// The variables that name a proxy.
const PROXIES: [&str; 6] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Resolves names to public addresses only, except those of proxies, or all if the file says that it may.
pub(super) struct PublicOnly {
    private: bool,
    proxies: Vec<String>,
    lookups: Lookups,
}

impl PublicOnly {
    /// For an address that messages go to. Its own name is guarded even if a proxy has the same one: the address can be
    /// reached without the proxy.
    fn except_proxies(url: &Url) -> PublicOnly {
        let named = PROXIES.iter().filter_map(|name| std::env::var(name).ok());
        PublicOnly::except(url, named.collect::<Vec<String>>())
    }

    pub(super) fn except(url: &Url, proxies: impl IntoIterator<Item = String>) -> PublicOnly {
        let mut proxies: Vec<String> = proxies.into_iter().filter_map(|proxy| proxy_host(&proxy)).collect();
        proxies.retain(|host| Some(host.as_str()) != url.host_str());
        PublicOnly { private: false, proxies, lookups: Lookups::default() }
    }

    /// `private`: any address.
    pub(super) fn unless(private: bool, url: &Url) -> PublicOnly {
        PublicOnly { private, ..PublicOnly::except_proxies(url) }
    }

    /// Whether a name may lead anywhere.
    pub(super) fn may_be_private(&self, name: &str) -> bool {
        self.private || self.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(name))
    }
}

/// The host of a proxy, which may be named without `http://`.
fn proxy_host(proxy: &str) -> Option<String> {
    let proxy = proxy.trim();
    let url = if proxy.contains("://") { Url::parse(proxy) } else { Url::parse(&format!("http://{proxy}")) };
    url.ok()?.host_str().map(str::to_owned)
}

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let (any, lookups) = (self.may_be_private(name.as_str()), self.lookups.clone());
        Box::pin(async move {
            let found = lookups.of(name.as_str(), 0).await?;
            let public: Vec<SocketAddr> = found.into_iter().filter(|address| any || is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(format!("its name leads into a private network; {MEANT_PRIVATE}").into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}
