//! TLS 1.3 on a byte stream: what its handshake makes the applications wait for (RFC 8446 §2). No processor time.
//!
//! The client's first application data follow a round trip after TCP's, with a ticket as without: early data (0-RTT) is
//! off unless an application asks for it, in OpenSSL and rustls alike. The server's first follow when it has the
//! client's Finished: data right behind its first flight (§4.4.4) are off in rustls (`send_half_rtt_data`), and
//! OpenSSL's `SSL_accept` waits. With them the server would be a round trip earlier.

/// One end of the handshake.
#[derive(Debug)]
pub struct Tls {
    sizes: Sizes,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    ClientStart,
    ClientAwaitsServer,
    ServerAwaitsHello,
    ServerAwaitsFinished,
    Done,
}

/// Bytes of the flights, records included.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    hello: u64,
    server: u64,
    tickets: u64,
}

/// What a record adds to a message: header 5, content type 1, tag 16 (RFC 8446 §5.2).
pub const RECORD: u64 = 5 + 1 + 16;
/// Finished with SHA-384 (4 + 48), as `TLS_AES_256_GCM_SHA384` has it.
const FINISHED: u64 = RECORD + 52;
/// In the clear, for old middle boxes (appendix D.4).
const CHANGE_CIPHER_SPEC: u64 = 6;

// Messages as `openssl s_client -tls1_3 -groups X25519 -msg` (3.0) shows them, with a chain of two small P-256
// certificates. A chain of the public web has 2 to 3 kB, and a hybrid post-quantum key share adds 1.2 kB in each
// direction.
/// ServerHello 122, EncryptedExtensions 6, Certificate 684, CertificateVerify 79; ClientHello 229, two tickets of 233.
const FULL: Sizes = Sizes {
    hello: 5 + 229,
    server: 5 + 122 + CHANGE_CIPHER_SPEC + (RECORD + 6) + (RECORD + 684) + (RECORD + 79) + FINISHED,
    tickets: 2 * (RECORD + 233),
};
/// ServerHello 128 and no certificate; ClientHello 500 with the ticket, one new ticket.
const RESUMED: Sizes =
    Sizes { hello: 5 + 500, server: 5 + 128 + CHANGE_CIPHER_SPEC + (RECORD + 6) + FINISHED, tickets: RECORD + 233 };
const CLIENT_FINISHED: u64 = CHANGE_CIPHER_SPEC + FINISHED;

impl Tls {
    /// The client's end, or the server's.
    pub fn new(is_client: bool, is_resumed: bool) -> Self {
        let step = if is_client { Step::ClientStart } else { Step::ServerAwaitsHello };
        Self { sizes: if is_resumed { RESUMED } else { FULL }, step }
    }

    /// The connection is established and the peer has sent so many bytes in all: what to write now.
    pub fn on_progress(&mut self, read: u64) -> u64 {
        let Sizes { hello, server, tickets } = self.sizes;
        let (step, bytes) = match self.step {
            Step::ClientStart => (Step::ClientAwaitsServer, hello),
            Step::ClientAwaitsServer if read >= server => (Step::Done, CLIENT_FINISHED),
            Step::ServerAwaitsHello if read >= hello => (Step::ServerAwaitsFinished, server),
            Step::ServerAwaitsFinished if read >= hello + CLIENT_FINISHED => (Step::Done, tickets),
            unchanged => (unchanged, 0),
        };
        self.step = step;
        bytes
    }

    /// Whether application data can be written.
    pub fn is_ready(&self) -> bool {
        self.step == Step::Done
    }
}
