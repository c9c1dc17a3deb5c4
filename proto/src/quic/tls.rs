//! TLS 1.3 with raw public keys (RFC 7250), pinned on both sides.

use std::sync::Arc;

use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, StoresServerSessions};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};

use super::clock::SharedClock;
use crate::identity::{Identity, PublicKey};

/// Application protocol of this version. A change that an older end cannot follow takes a new name, and both ends tell
/// each other what they offered; smaller ones are negotiated in the session's hello.
pub const ALPN: &[u8] = b"aquila/1";

/// What a client asks for in the server name extension; identities are keys, so any constant name will do.
pub const SERVER_NAME: &str = "aquila.internal";

/// Tickets a server gives after each handshake. A client uses one per connection; those of a full handshake survive its
/// restarts, so this many starts can follow each other with 0-RTT.
pub(super) const TICKETS: usize = 12;

/// The client's side of the handshake: presents `identity`, accepts only `peer`.
pub(super) fn client(
    provider: Arc<CryptoProvider>,
    identity: &Identity,
    peer: PublicKey,
    clock: &SharedClock,
    resumption: Resumption,
) -> Result<ClientConfig, Error> {
    let key = certified_key(&provider, identity)?;
    let verifier = Arc::new(Pinned { peer, algorithms: provider.signature_verification_algorithms });
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(clock.clone()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_early_data = true;
    config.resumption = resumption;
    Ok(config)
}

/// The server's side: presents `identity`, accepts only `peer`, and keeps sessions in `sessions` because rustls accepts
/// early data only with stateful, single-use sessions.
pub(super) fn server(
    provider: Arc<CryptoProvider>,
    identity: &Identity,
    peer: PublicKey,
    clock: &SharedClock,
    sessions: Arc<dyn StoresServerSessions>,
) -> Result<ServerConfig, Error> {
    let key = certified_key(&provider, identity)?;
    let verifier = Arc::new(Pinned { peer, algorithms: provider.signature_verification_algorithms });
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(clock.clone()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.max_early_data_size = u32::MAX;
    config.send_tls13_tickets = TICKETS;
    config.session_storage = sessions;
    Ok(config)
}

/// The QUIC forms of the two configurations.
pub(super) fn quic_client(config: Arc<ClientConfig>) -> QuicClientConfig {
    QuicClientConfig::try_from(config).expect("ring offers the initial cipher suite")
}

pub(super) fn quic_server(config: ServerConfig) -> QuicServerConfig {
    QuicServerConfig::try_from(config).expect("ring offers the initial cipher suite")
}

fn certified_key(provider: &CryptoProvider, identity: &Identity) -> Result<Arc<CertifiedKey>, Error> {
    let private = PrivateKeyDer::Pkcs8(identity.pkcs8().to_vec().into());
    let signer = provider.key_provider.load_private_key(private)?;
    let spki = CertificateDer::from(identity.public().spki_der());
    Ok(Arc::new(CertifiedKey::new(vec![spki], signer)))
}

/// Accepts one key and nothing else.
#[derive(Debug)]
struct Pinned {
    peer: PublicKey,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn check(&self, spki: &CertificateDer<'_>) -> Result<(), Error> {
        match PublicKey::from_spki_der(spki) {
            Some(key) if key == self.peer => Ok(()),
            _ => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        spki: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let spki = SubjectPublicKeyInfoDer::from(spki.as_ref());
        verify_tls13_signature_with_raw_key(message, &spki, signature, &self.algorithms)
    }
}

/// We offer TLS 1.3 only, so a TLS 1.2 signature is never asked for.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("TLS 1.2 is not offered".into()))
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
