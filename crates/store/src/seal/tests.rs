//! Spec X: a sealed value opens where it was sealed, and nowhere else.

use proptest::prelude::*;

use super::*;

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const BASE64_TEXT: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn sealer(id: &str, text: &str) -> Sealer {
    Sealer::new(Keys::new(Key::parse(id, text).expect("key"), Vec::new()).expect("keys"), [7; 16])
}

fn places() -> Vec<Place<'static>> {
    let mut places = vec![Place::Proof, Place::Mixed];
    for (session, born) in [("s", 1), ("s", 2), ("s2", 1), ("", 1)] {
        places.extend([1, 2, u64::MAX].map(|pos| Place::Entry { session, born, pos }));
        places.extend([Place::Snapshot { session, born }, Place::Head { session, born }]);
    }
    places.extend([1, 2].map(|n| Place::Audit { n }));
    places.extend([1, 2].map(|n| Place::AuditHash { n }));
    places
}

#[test]
fn x_a_sealed_value_opens_in_its_place_and_in_no_other() {
    let sealer = sealer("k", HEX);
    for place in places() {
        let sealed = sealer.seal(place, b"content").expect("seal");
        assert!(!sealed.windows(7).any(|part| part == b"content"));
        for other in places() {
            let opened = sealer.open(other, &sealed);
            assert_eq!(opened.is_ok(), other == place, "{place:?} in {other:?}");
        }
        let elsewhere = Sealer::new(sealer.keys().clone(), [8; 16]);
        assert!(elsewhere.open(place, &sealed).is_err(), "{place:?} in another store");
    }
}

#[test]
fn x_every_bit_of_a_sealed_value_counts() {
    let sealer = sealer("key-1", HEX);
    let place = Place::Entry { session: "s", born: 1, pos: 3 };
    let sealed = sealer.seal(place, b"some content").expect("seal");
    for bit in 0..sealed.len() * 8 {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let error = sealer.open(place, &changed).expect_err("changed");
        assert!(error.to_string().starts_with("session s, position 3: is "), "{error}");
    }
    for end in 0..sealed.len() {
        assert!(sealer.open(place, &sealed[..end]).is_err(), "cut to {end}");
    }
    assert_eq!(sealer.open(place, &sealed).expect("as it was"), b"some content");
}

#[test]
fn x_no_two_seals_of_a_value_are_the_same() {
    let sealer = sealer("k", HEX);
    let sealed: std::collections::HashSet<_> =
        (0..1000).map(|_| sealer.seal(Place::Audit { n: 1 }, b"").expect("seal")).collect();
    assert_eq!(sealed.len(), 1000);
}

#[test]
fn x_a_key_is_read_in_both_spellings_and_never_printed() {
    let sealed = sealer("k", HEX).seal(Place::Proof, b"x").expect("seal");
    for text in [BASE64_TEXT, &BASE64_TEXT[..43], &HEX.to_uppercase(), &format!(" {HEX}\n")] {
        assert_eq!(sealer("k", text).open(Place::Proof, &sealed).as_deref(), Ok(&b"x"[..]), "{text}");
    }
    let all = format!("{:?} {:?}", Key::parse("k", HEX).expect("key"), sealer("k", HEX));
    assert!(!all.contains("0102") && !all.contains("1, 2"), "{all}");
    for wrong in ["", "x", &HEX[1..], &HEX.replace('f', "g"), &BASE64_TEXT[4..], &format!("{BASE64_TEXT}AAAA"), "ключ"]
    {
        let error = Key::parse("k", wrong).expect_err("no key").to_string();
        assert_eq!(
            error,
            "the store key \"k\" is not a key; it must be 32 random bytes as base64, or as 64 hexadecimal digits"
        );
    }
    for id in ["", "a b", "é", &"x".repeat(65)] {
        assert!(matches!(Key::parse(id, HEX), Err(SealError::BadKey { .. })), "{id:?}");
    }
    let twice = Keys::new(Key::parse("k", HEX).expect("key"), vec![Key::parse("k", BASE64_TEXT).expect("key")]);
    assert!(twice.is_err());
}

#[test]
fn x_the_key_of_a_value_is_found_by_its_id_and_a_missing_one_is_named() {
    let other = "ff".repeat(32);
    let new = Key::parse("new", &other).expect("key");
    let both = Keys::new(new, vec![Key::parse("old", HEX).expect("key")]).expect("keys");
    let both = Sealer::new(both, [7; 16]);
    let sealed = sealer("old", HEX).seal(Place::Audit { n: 4 }, b"x").expect("seal");
    assert_eq!(both.open(Place::Audit { n: 4 }, &sealed).as_deref(), Ok(&b"x"[..]));
    assert_eq!(key_of(&both.seal(Place::Proof, b"").expect("seal")), Some(&b"new"[..]));
    let missing = sealer("new", &other).open(Place::Audit { n: 4 }, &sealed).expect_err("no key");
    assert_eq!(missing.to_string(), "audit record 4: is encrypted with the key \"old\", which is not given");
    let wrong = sealer("old", &other).open(Place::Audit { n: 4 }, &sealed).expect_err("wrong key");
    assert!(wrong.to_string().contains("with the key \"old\""), "{wrong}");
}

/// Made by OpenSSL from the description above.
#[test]
fn x_the_format_is_stable() {
    let hex = "01016b000102030405060708090a0b246db86fa08bb625c68f2a85fe24cf886f3ccfd2471766";
    let sealed: Vec<u8> =
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex")).collect();
    let place = Place::Entry { session: "s", born: 5, pos: 9 };
    assert_eq!(sealer("k", HEX).open(place, &sealed).as_deref(), Ok(&b"content"[..]));
}

proptest! {
    #[test]
    fn x_any_text_comes_back_and_no_bytes_open_by_chance(plain in proptest::collection::vec(any::<u8>(), 0..300)) {
        let sealer = sealer("k", HEX);
        let place = Place::Entry { session: "s", born: 1, pos: 1 };
        prop_assert_eq!(sealer.open(place, &sealer.seal(place, &plain).expect("seal")).expect("open"), plain.clone());
        prop_assert!(sealer.open(place, &plain).is_err());
        let mut sealed = vec![1, 1, b'k'];
        sealed.extend(plain);
        prop_assert!(sealer.open(place, &sealed).is_err());
    }
}
