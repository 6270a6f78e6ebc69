//! TLS 1.3 around a channel.
//!
//! Reading and writing go on at once. A writer encrypts and sends under the lock of the output; a
//! reader waits for bytes without a lock. The state of TLS itself is locked only while bytes are
//! encrypted or decrypted. Lock order: output, then state.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use env::Clock;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, RootCertStore,
    ServerConfig, ServerConnection, SignatureScheme,
};

use crate::authority::{Authority, NAME, Pin};
use crate::channel::{Channel, Closer, Input, Output};
use crate::error::TransportError;

/// The protocol's name in TLS.
const PROTOCOL: &[u8] = b"onefold/1";
/// Bytes that are read or encrypted at once.
const STEP_BYTES: usize = 256 << 10;
/// A server makes a new certificate when the last one is so old.
const LEAF_RENEWED: Duration = Duration::from_hours(30 * 24);

/// Connects to servers of one authority.
#[derive(Debug, Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
}

/// Accepts clients.
#[derive(Debug, Clone)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
}

impl Connector {
    /// Connects to servers whose authority has this key.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn new(pin: Pin, clock: &Arc<dyn Clock>) -> Result<Self, TransportError> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(Pinned {
            pin,
            provider: Arc::clone(&provider),
        });
        let mut config = ClientConfig::builder_with_details(provider, Arc::new(Now(Arc::clone(clock))))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TransportError::Untrusted)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// Puts TLS around the client's end of a channel.
    ///
    /// # Errors
    /// `Untrusted` if the server is not of the authority; `Broken`.
    pub fn connect(&self, channel: Channel) -> Result<Channel, TransportError> {
        let name = ServerName::try_from(NAME).expect("a valid name");
        let connection = ClientConnection::new(Arc::clone(&self.config), name);
        secured(channel, connection.map_err(TransportError::Untrusted)?.into())
    }
}

impl Acceptor {
    /// Accepts clients that know this authority.
    ///
    /// # Errors
    /// If its first certificate cannot be made.
    pub fn new(authority: Authority, clock: &Arc<dyn Clock>) -> Result<Self, TransportError> {
        let provider = Arc::new(ring::default_provider());
        let leaves = Leaves {
            authority,
            clock: Arc::clone(clock),
            provider: Arc::clone(&provider),
            newest: Mutex::new(None),
        };
        leaves.current()?;
        let mut config = ServerConfig::builder_with_details(provider, Arc::new(Now(Arc::clone(clock))))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TransportError::Untrusted)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(leaves));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// Puts TLS around the server's end of a channel.
    ///
    /// # Errors
    /// `Untrusted` if the client speaks no TLS 1.3; `Broken`.
    pub fn accept(&self, channel: Channel) -> Result<Channel, TransportError> {
        let connection = ServerConnection::new(Arc::clone(&self.config));
        secured(channel, connection.map_err(TransportError::Untrusted)?.into())
    }
}

/// The wall clock, for the validity of certificates.
#[derive(Debug)]
struct Now(Arc<dyn Clock>);

fn since_1970(clock: &dyn Clock) -> Duration {
    Duration::from_nanos(u64::try_from(clock.wall().get()).unwrap_or(0))
}

impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(since_1970(&*self.0)))
    }
}

/// The server's certificate, made anew when it ages.
struct Leaves {
    authority: Authority,
    clock: Arc<dyn Clock>,
    provider: Arc<CryptoProvider>,
    /// When it was made, and the certificate.
    newest: Mutex<Option<(Duration, Arc<CertifiedKey>)>>,
}

impl Leaves {
    fn current(&self) -> Result<Arc<CertifiedKey>, TransportError> {
        let now = since_1970(&*self.clock);
        let mut newest = lock(&self.newest);
        let is_fresh = |made: Duration| made <= now && now - made < LEAF_RENEWED;
        if let Some((_, key)) = newest.as_ref().filter(|(made, _)| is_fresh(*made)) {
            return Ok(Arc::clone(key));
        }
        let leaf = self.authority.leaf(now)?;
        let key = CertifiedKey::from_der(leaf.chain, leaf.key, &self.provider);
        let key = Arc::new(key.map_err(TransportError::Untrusted)?);
        *newest = Some((now, Arc::clone(&key)));
        Ok(key)
    }
}

impl fmt::Debug for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leaves")
    }
}

impl ResolvesServerCert for Leaves {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current().ok()
    }
}

/// Trusts the certificate in the chain whose key has the pin, as an authority.
#[derive(Debug)]
struct Pinned {
    pin: Pin,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_pinned = |one: &&CertificateDer<'_>| Pin::of(one).is_ok_and(|pin| pin == self.pin);
        let authority = intermediates.iter().find(is_pinned);
        let authority = authority.ok_or(CertificateError::UnknownIssuer)?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider)).build();
        let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Both halves as one, for the handshake.
struct Both<'a>(&'a mut Input, &'a mut Output);

impl Read for Both<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Both<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

fn secured(mut channel: Channel, mut state: Connection) -> Result<Channel, TransportError> {
    state.set_buffer_limit(Some(STEP_BYTES * 2));
    let mut both = Both(&mut channel.input, &mut channel.output);
    while state.is_handshaking() {
        if let Err(error) = state.complete_io(&mut both) {
            let refused = error
                .get_ref()
                .and_then(|inner| inner.downcast_ref::<rustls::Error>());
            return Err(match refused {
                Some(refused) => TransportError::Untrusted(refused.clone()),
                None => error.into(),
            });
        }
    }
    while state.wants_write() {
        state.write_tls(&mut both)?;
    }
    both.flush()?;
    // The other end may have sent more with its last message of the handshake.
    let now = state.process_new_packets().map_err(TransportError::Untrusted)?;
    let mut plain = vec![0; now.plaintext_bytes_to_read()];
    state.reader().read_exact(&mut plain)?;
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        output: Mutex::new(Locked {
            output: channel.output,
            encrypted: Vec::new(),
        }),
    });
    let ending = channel.closer.clone();
    Ok(Channel {
        input: Box::new(Reading {
            shared: Arc::clone(&shared),
            input: channel.input,
            raw: vec![0; STEP_BYTES],
            plain,
            taken: 0,
            is_over: now.peer_has_closed(),
        }),
        output: Box::new(Writing(shared)),
        closer: Closer::new(move || ending.close()),
    })
}

/// What both directions need.
struct Shared {
    state: Mutex<Connection>,
    /// And memory for encrypted bytes.
    output: Mutex<Locked>,
}

struct Locked {
    output: Output,
    encrypted: Vec<u8>,
}

impl Shared {
    /// Encrypts these bytes, if there are any, and sends all that waits.
    fn send(&self, locked: &mut Locked, mut bytes: &[u8]) -> io::Result<()> {
        let Locked { output, encrypted } = locked;
        loop {
            encrypted.clear();
            {
                let mut state = lock(&self.state);
                if !bytes.is_empty() {
                    let taken = state.writer().write(bytes)?;
                    bytes = &bytes[taken..];
                }
                while state.wants_write() {
                    state.write_tls(encrypted)?;
                }
            }
            output.write_all(encrypted)?;
            if bytes.is_empty() {
                return output.flush();
            }
        }
    }
}

struct Writing(Arc<Shared>);

impl Write for Writing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let step = &bytes[..bytes.len().min(STEP_BYTES)];
        self.0.send(&mut lock(&self.0.output), step)?;
        Ok(step.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writing {
    /// Says goodbye, so that the other end can tell an end from a cut.
    fn drop(&mut self) {
        lock(&self.0.state).send_close_notify();
        drop(self.0.send(&mut lock(&self.0.output), &[]));
    }
}

struct Reading {
    shared: Arc<Shared>,
    input: Input,
    raw: Vec<u8>,
    /// Decrypted bytes, and how many of them were taken.
    plain: Vec<u8>,
    taken: usize,
    /// The other end has said goodbye.
    is_over: bool,
}

impl Reading {
    /// Waits for bytes and decrypts them. Returns false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        let read = self.input.read(&mut self.raw)?;
        let mut raw = &self.raw[..read];
        let mut state = lock(&self.shared.state);
        loop {
            let taken = state.read_tls(&mut raw)?;
            let now = state
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let (first, len) = (self.plain.len(), now.plaintext_bytes_to_read());
            self.plain.resize(first + len, 0);
            state.reader().read_exact(&mut self.plain[first..])?;
            self.is_over = now.peer_has_closed();
            // RFC 8446, 6.1: what follows a goodbye is ignored. TLS takes none of it.
            if raw.is_empty() || self.is_over {
                break;
            }
            if taken == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "TLS takes no more bytes",
                ));
            }
        }
        let answers = state.wants_write();
        drop(state);
        if answers {
            // A writer that has the output sends the answer with its own bytes.
            match self.shared.output.try_lock() {
                Ok(mut output) => self.shared.send(&mut output, &[])?,
                Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => {}
            }
        }
        if read == 0 && !self.is_over {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(!self.is_over)
    }
}

impl Read for Reading {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut goes_on = true;
        while self.taken == self.plain.len() && goes_on {
            self.plain.clear();
            self.taken = 0;
            goes_on = self.fill()?;
        }
        let bytes = &self.plain[self.taken..];
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        self.taken += len;
        Ok(len)
    }
}
