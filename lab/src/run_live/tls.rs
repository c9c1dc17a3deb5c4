//! TLS 1.3 by rustls, with a certificate made for the run.

use std::io;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

const NAME: &str = "ground.lab";

/// What the connections of an end have in common.
#[derive(Debug)]
pub enum TlsEnd {
    /// Remembers tickets, if it is to resume.
    Client(Arc<ClientConfig>),
    /// Has the certificate.
    Server(Arc<ServerConfig>),
}

impl TlsEnd {
    /// The first node's end, a client that resumes sessions or does not, and the second one's. Without early data, as
    /// the libraries have it unless they are asked.
    ///
    /// # Errors
    /// If no key or certificate can be made.
    pub fn pair(resumes: bool) -> io::Result<[Self; 2]> {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        let certificate = cert.der().clone();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(io::Error::other)?;
        let provider = Arc::new(default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .map_err(io::Error::other)?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate).map_err(io::Error::other)?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        if !resumes {
            client.resumption = Resumption::disabled();
        }
        Ok([Self::Client(Arc::new(client)), Self::Server(Arc::new(server))])
    }

    /// A new connection.
    ///
    /// # Errors
    /// If rustls refuses the configuration.
    pub fn connection(&self) -> io::Result<Connection> {
        let made = match self {
            Self::Client(config) => {
                let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
                ClientConnection::new(config.clone(), name).map(Connection::Client)
            }
            Self::Server(config) => ServerConnection::new(config.clone()).map(Connection::Server),
        };
        let mut connection = made.map_err(io::Error::other)?;
        // What waits is bounded before it comes here.
        connection.set_buffer_limit(None);
        Ok(connection)
    }
}
