//! How many of the process's open files its connections may take.

use countersign_server::ConnectionLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept for what the server itself opens: its store, tools, models, webhooks.
const KEPT: usize = 512;

/// The limits of connections that leave files for everything else. The process's own limit is first raised as far as
/// allowed: otherwise clients who never authenticate could keep an approved call from opening files.
pub(crate) fn within(limits: ConnectionLimits) -> ConnectionLimits {
    let has = raised(limits.all + KEPT);
    let within = of(limits, has);
    if within != limits {
        tracing::warn!(
            "this process may have {has} files open, enough for {} connections and not for {} (server.max_connections): raise its \
             limit (LimitNOFILE, ulimit -n)",
            within.all,
            limits.all
        );
    }
    within
}

/// Asks for a limit of `needed` open files, and returns the limit that then applies.
fn raised(needed: usize) -> usize {
    let count = |limit: Option<u64>| limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let now = getrlimit(Resource::Nofile);
    if count(now.current) < needed {
        let current = Some(count(now.maximum).min(needed) as u64);
        // Where it is refused, the limit is what it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum: now.maximum });
    }
    count(getrlimit(Resource::Nofile).current)
}

fn of(limits: ConnectionLimits, has: usize) -> ConnectionLimits {
    let all = limits.all.min(has.saturating_sub(KEPT).max(has / 2)).max(1);
    if all == limits.all { limits } else { limits.within(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_connections_leave_files_for_everything_else() {
        let limits = ConnectionLimits::default();
        assert_eq!(of(limits, limits.all + KEPT), limits);
        let few = of(limits, 4096);
        assert_eq!((few.all, few.unknown, few.of_address), (3584, 1792, 3584));
        assert_eq!((of(limits, 256).all, of(limits, 1).all), (128, 1));
    }
}
