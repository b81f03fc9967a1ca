//! Stored data that may have been changed since.

use countersign_core::audit::{Anchor, AuditRecord, Verifier};
use countersign_runtime::run_state::RunState;
use countersign_store::seal::{Key, Keys, Place, Sealer, key_of};

/// Lines of an audit log (spec R8): each is a record or invalid; a log that verifies has an anchor that can be read
/// again, and still verifies when it is written again, but not without its first record.
///
/// # Panics
/// The promise is broken.
pub fn audit(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let records: Vec<AuditRecord> = text.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
    let verify = |records: &[AuditRecord]| {
        let mut verifier = Verifier::new(None);
        records.iter().try_for_each(|record| verifier.take(record))?;
        verifier.end()
    };
    let written: Option<Vec<AuditRecord>> =
        records.iter().map(|record| serde_json::from_str(&serde_json::to_string(record).ok()?).ok()).collect();
    let outcome = verify(&records);
    assert_eq!(written.map(|written| verify(&written)), Some(outcome.clone()));
    match outcome {
        Ok(end) => {
            assert_eq!(end.to_string().parse::<Anchor>().as_ref(), Ok(&end));
            assert!(records.len() < 2 || verify(&records[1..]).is_err());
        }
        Err(fault) => assert!(!fault.what.is_empty()),
    }
}

/// A saved state (spec S17, S21): if accepted, writing and reading it again gives the same state.
///
/// # Panics
/// The promise is broken.
pub fn run_state(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match RunState::from_json(text) {
        Ok(state) => {
            let written = state.to_json();
            let again = RunState::from_json(&written);
            assert!(again.is_ok(), "{again:?}");
            assert_eq!(
                again.map(|again| (again.to_json(), again.interruptions().len())).ok(),
                Some((written, state.interruptions().len()))
            );
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A sealed value (spec X): bytes that were not sealed there with the key never open; the first byte says which bit of
/// a valid value is changed.
///
/// # Panics
/// The promise is broken.
pub fn sealed(bytes: &[u8]) {
    let key = Key::parse("2026-11", &"5e".repeat(32)).ok();
    let Some(keys) = key.and_then(|key| Keys::new(key, Vec::new()).ok()) else { return };
    let sealer = Sealer::new(keys, [7; 16]);
    let place = Place::Entry { session: "s", born: 1, pos: 2 };
    assert!(sealer.open(place, bytes).is_err(), "nobody without the key can have made it");
    assert!(key_of(bytes).is_none_or(|id| id.len() <= bytes.len()));
    let sealed = sealer.seal(place, bytes);
    let Ok(mut sealed) = sealed else { return };
    assert_eq!(sealer.open(place, &sealed).as_deref(), Ok(bytes));
    for other in [Place::Entry { session: "s", born: 1, pos: 3 }, Place::Snapshot { session: "s", born: 1 }] {
        assert!(sealer.open(other, &sealed).is_err());
    }
    let bit = bytes.first().map_or(0, |byte| usize::from(*byte) * 31) % (sealed.len() * 8);
    sealed[bit / 8] ^= 1 << (bit % 8);
    assert!(sealer.open(place, &sealed).is_err());
    // Any text may be given as a key.
    let _ = Key::parse("k", &String::from_utf8_lossy(bytes));
}
