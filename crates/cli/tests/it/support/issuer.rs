//! An issuer of JWTs: its keys, the tokens it signs, and an address where its public keys are.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use ring::{
    hmac,
    rand::SystemRandom,
    rsa::PublicKeyComponents,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

/// Only used here.
const RSA: &[u8] = include_bytes!("keys/rsa_of_tests.der");

pub(crate) enum Key {
    Ed(Ed25519KeyPair),
    Ec(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
    /// A shared secret, which no issuer has.
    Shared(Vec<u8>),
    /// No signature at all.
    None,
}

impl Key {
    pub(crate) fn ed() -> Key {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Key::Ed(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    pub(crate) fn ec() -> Key {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Key::Ec(Box::new(EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap()))
    }

    pub(crate) fn rsa() -> Key {
        Key::Rsa(Box::new(RsaKeyPair::from_der(RSA).unwrap()))
    }

    /// The public bytes.
    pub(crate) fn public(&self) -> Vec<u8> {
        match self {
            Key::Ed(key) => key.public_key().as_ref().to_vec(),
            Key::Ec(key) => key.public_key().as_ref().to_vec(),
            Key::Rsa(key) => key.public().as_ref().to_vec(),
            Key::Shared(_) | Key::None => Vec::new(),
        }
    }

    fn jwk(&self, kid: &str) -> Value {
        match self {
            Key::Ed(_) => json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": base64(&self.public()) }),
            Key::Ec(_) => {
                let point = self.public();
                json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": base64(&point[1..33]), "y": base64(&point[33..]) })
            }
            Key::Rsa(key) => {
                let public: PublicKeyComponents<Vec<u8>> = key.public().into();
                json!({ "kty": "RSA", "kid": kid, "use": "sig", "n": base64(&public.n), "e": base64(&public.e) })
            }
            Key::Shared(secret) => json!({ "kty": "oct", "kid": kid, "k": base64(secret) }),
            Key::None => Value::Null,
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Key::Ed(key) => key.sign(message).as_ref().to_vec(),
            Key::Ec(key) => key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
            Key::Shared(secret) => hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref().to_vec(),
            Key::None => Vec::new(),
        }
    }

    /// A token with this header and these claims, whatever they are.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()));
        format!("{message}.{}", base64(&self.sign(message.as_bytes())))
    }
}

/// Base64 for addresses, without padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let whole =
            part.iter().chain([0, 0].iter()).take(3).fold(0_usize, |whole, byte| whole << 8 | usize::from(*byte));
        for i in 0..=part.len() {
            text.push(DIGITS[whole >> (18 - 6 * i) & 63].into());
        }
    }
    text
}

/// The Unix time in seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Serves a JWK Set.
pub(crate) struct Issuer {
    pub(crate) url: String,
    keys: Arc<Mutex<Value>>,
    fetched: Arc<AtomicUsize>,
}

impl Issuer {
    pub(crate) async fn start(keys: &[(&str, &Key)]) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let issuer = Issuer {
            url: format!("http://{address}/jwks"),
            keys: Arc::new(Mutex::new(set(keys))),
            fetched: Arc::default(),
        };
        let (keys, fetched) = (issuer.keys.clone(), issuer.fetched.clone());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                fetched.fetch_add(1, Ordering::SeqCst);
                let body = keys.lock().unwrap().to_string();
                let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                let _ = stream.write_all((head + &body).as_bytes()).await;
            }
        });
        issuer
    }

    pub(crate) fn publish(&self, keys: &[(&str, &Key)]) {
        *self.keys.lock().unwrap() = set(keys);
    }

    /// How often the keys were fetched.
    pub(crate) fn fetched(&self) -> usize {
        self.fetched.load(Ordering::SeqCst)
    }
}

/// A JWK Set.
pub(crate) fn set(keys: &[(&str, &Key)]) -> Value {
    json!({ "keys": keys.iter().map(|(kid, key)| key.jwk(kid)).collect::<Vec<_>>() })
}
