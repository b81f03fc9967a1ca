//! Verifies JWT signatures with ring, which TLS brings into the build anyway. Nothing here can sign, and no shared
//! secret is accepted.

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    errors::{ErrorKind, new_error},
    signature::{Error, Verifier},
};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};

/// Makes ring the crypto provider, unless the application has chosen another.
pub(super) fn install() {
    static RING: CryptoProvider = CryptoProvider {
        signer_factory: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
        verifier_factory: |algorithm, key| Ok(Box::new(Ring::new(*algorithm, key)?)),
        key_utils: KeyUtils {
            rsa_pub_components_from_private_key: |_| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
            rsa_pub_components_from_public_key: |_| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
            ec_pub_components_from_private_key: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
            ed_pub_components_from_private_key: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
            compute_digest: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
        },
    };
    // Fails only if another thread was faster, which is just as good.
    let _ = RING.install_default();
}

struct Ring {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Ring {
    fn new(algorithm: Algorithm, key: &DecodingKey) -> jsonwebtoken::errors::Result<Ring> {
        let family = match algorithm {
            Algorithm::ES256 | Algorithm::ES384 => AlgorithmFamily::Ec,
            Algorithm::EdDSA => AlgorithmFamily::Ed,
            other if rsa(other).is_some() => AlgorithmFamily::Rsa,
            _ => return Err(new_error(ErrorKind::UnsupportedAlgorithm)),
        };
        if key.family() != family {
            return Err(new_error(ErrorKind::InvalidAlgorithm));
        }
        Ok(Ring { algorithm, key: key.clone() })
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

impl Verifier<Vec<u8>> for Ring {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), Error> {
        use jsonwebtoken::DecodingKeyKind::{RsaModulusExponent, SecretOrDer};
        let checked = match (self.algorithm, self.key.kind()) {
            (Algorithm::ES256, SecretOrDer(key)) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, key).verify(message, signature)
            }
            (Algorithm::ES384, SecretOrDer(key)) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, key).verify(message, signature)
            }
            (Algorithm::EdDSA, SecretOrDer(key)) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature)
            }
            (algorithm, RsaModulusExponent { n, e }) => match rsa(algorithm) {
                Some(parameters) => RsaPublicKeyComponents { n, e }.verify(parameters, message, signature),
                None => return Err(Error::new()),
            },
            _ => return Err(Error::new()),
        };
        checked.map_err(|_| Error::new())
    }
}

impl JwtVerifier for Ring {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
