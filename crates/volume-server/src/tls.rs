//! TLS 1.3 and 1.2 of a server, and the bytes within it.
//!
//! One thread receives while another sends. The state of TLS is locked only while bytes are
//! encrypted or decrypted, never while a thread waits for the socket. Lock order: output, state.

use std::io::{self, IoSlice, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::Clock;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use crate::deadline::Deadline;
use crate::error::{Broken, ServeError};
use crate::socket::Socket;

/// Bytes that are received or encrypted at once.
const STEP_BYTES: usize = 256 << 10;

/// A server's certificate and key. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
}

impl TlsIdentity {
    /// Reads a chain of certificates, the server's first, and its key, in PEM. With the
    /// certificates of an authority, clients need a certificate of that authority.
    ///
    /// # Errors
    /// [`ServeError::Certificate`]
    pub fn from_pem(
        chain: &[u8],
        key: &[u8],
        client_authority: Option<&[u8]>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, ServeError> {
        let provider = Arc::new(ring::default_provider());
        let time = Arc::new(Now(Arc::clone(clock)));
        let builder = ServerConfig::builder_with_details(Arc::clone(&provider), time)
            .with_safe_default_protocol_versions()
            .map_err(|error| unreadable("the configuration of TLS", &error))?;
        let builder = match client_authority {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                const WHAT: &str = "the authority of the clients";
                let mut roots = RootCertStore::empty();
                for certificate in certificates(WHAT, authority)? {
                    roots.add(certificate).map_err(|error| unreadable(WHAT, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(|error| unreadable(WHAT, &error))?)
            }
        };
        let chain = certificates("the server's certificate", chain)?;
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|error| unreadable("the server's key", &error))?;
        let config = builder.with_single_cert(chain, key);
        Ok(Self {
            config: Arc::new(config.map_err(|error| unreadable("the server's certificate", &error))?),
        })
    }

    /// Greets a client that has been told to start TLS.
    pub(crate) fn accept(&self, socket: &Arc<Socket>, deadline: &Deadline) -> Result<Arc<Secured>, Broken> {
        let mut state = ServerConnection::new(Arc::clone(&self.config))?;
        state.set_buffer_limit(Some(2 * STEP_BYTES));
        let mut both = Both(socket, deadline);
        while state.is_handshaking() {
            state.complete_io(&mut both)?;
        }
        while state.wants_write() {
            state.write_tls(&mut both)?;
        }
        Ok(Arc::new(Secured {
            socket: Arc::clone(socket),
            state: Mutex::new(state),
            encrypted: Mutex::default(),
        }))
    }
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| unreadable(what, &error))?;
    if read.is_empty() {
        return Err(unreadable(what, &"there is no certificate"));
    }
    Ok(read)
}

fn unreadable(what: &'static str, why: &dyn std::fmt::Display) -> ServeError {
    ServeError::Certificate {
        what,
        why: why.to_string(),
    }
}

/// The wall clock, for the validity of certificates.
#[derive(Debug)]
struct Now(Arc<dyn Clock>);

impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        let since_1970 = Duration::from_nanos(u64::try_from(self.0.wall().get()).unwrap_or(0));
        Some(UnixTime::since_unix_epoch(since_1970))
    }
}

/// Both directions, for the handshake.
struct Both<'a>(&'a Socket, &'a Deadline);

impl Read for Both<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1.limit(self.0)?;
        self.0.receive(into, &mut [])
    }
}

impl Write for Both<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.limit(self.0)?;
        self.0.send(&mut [IoSlice::new(bytes)])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection within TLS.
#[derive(Debug)]
pub(crate) struct Secured {
    socket: Arc<Socket>,
    state: Mutex<ServerConnection>,
    encrypted: Mutex<Vec<u8>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Secured {
    /// Encrypts these bytes and sends them, after all that waits.
    pub(crate) fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let mut encrypted = lock(&self.encrypted);
        for part in parts {
            let mut bytes: &[u8] = part;
            while !bytes.is_empty() {
                let mut state = lock(&self.state);
                let taken = state.writer().write(&bytes[..bytes.len().min(STEP_BYTES)])?;
                bytes = &bytes[taken..];
                while state.wants_write() {
                    state.write_tls(&mut *encrypted)?;
                }
                drop(state);
                if encrypted.len() >= STEP_BYTES {
                    self.socket.send(&mut [IoSlice::new(&encrypted)])?;
                    encrypted.clear();
                }
            }
        }
        self.finish(encrypted)
    }

    fn finish(&self, mut encrypted: MutexGuard<'_, Vec<u8>>) -> io::Result<()> {
        let mut state = lock(&self.state);
        while state.wants_write() {
            state.write_tls(&mut *encrypted)?;
        }
        drop(state);
        if !encrypted.is_empty() {
            self.socket.send(&mut [IoSlice::new(&encrypted)])?;
            encrypted.clear();
        }
        Ok(())
    }

    /// Tells the other end that nothing follows.
    pub(crate) fn close(&self) {
        lock(&self.state).send_close_notify();
        // The other end may be gone.
        self.finish(lock(&self.encrypted)).ok();
    }
}

/// The receiving half of a connection within TLS.
#[derive(Debug)]
pub(crate) struct SecuredInput {
    secured: Arc<Secured>,
    raw: Vec<u8>,
    /// The part of `raw` that TLS has not taken.
    waiting: std::ops::Range<usize>,
    /// While the client negotiates: a record may come byte by byte.
    pub(crate) deadline: Option<Deadline>,
}

impl SecuredInput {
    pub(crate) fn new(secured: Arc<Secured>, deadline: Deadline) -> Self {
        Self {
            deadline: Some(deadline),
            secured,
            raw: vec![0; STEP_BYTES],
            waiting: 0..0,
        }
    }

    /// As [`Socket::receive`].
    pub(crate) fn receive(&mut self, first: &mut [u8], second: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut state = lock(&self.secured.state);
            let mut received = 0;
            let mut is_over = false;
            loop {
                let room = first.len() + second.len() - received;
                let taken = if received < first.len() {
                    take(&mut state, &mut first[received..])?
                } else {
                    take(&mut state, &mut second[received - first.len()..])?
                };
                is_over |= taken.is_none();
                received += taken.unwrap_or(0);
                if room == taken.unwrap_or(0) || is_over {
                    break;
                }
                if taken.unwrap_or(0) > 0 {
                    continue;
                }
                if self.waiting.is_empty() {
                    break;
                }
                let mut raw = &self.raw[self.waiting.clone()];
                let read = state.read_tls(&mut raw)?;
                self.waiting.start += read;
                let processed = state.process_new_packets();
                processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
            let answers = state.wants_write();
            drop(state);
            if answers && let Ok(encrypted) = self.secured.encrypted.try_lock() {
                // A thread that is sending sends the answers, too.
                self.secured.finish(encrypted)?;
            }
            if received > 0 || is_over {
                return Ok(received);
            }
            if let Some(deadline) = &self.deadline {
                deadline.limit(&self.secured.socket)?;
            }
            let raw = self.secured.socket.receive(&mut self.raw, &mut [])?;
            if raw == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.waiting = 0..raw;
        }
    }
}

/// Takes decrypted bytes; `None` if the other end has said that nothing follows.
fn take(state: &mut ServerConnection, into: &mut [u8]) -> io::Result<Option<usize>> {
    match state.reader().read(into) {
        Ok(0) if !into.is_empty() => Ok(None),
        Ok(taken) => Ok(Some(taken)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(0)),
        Err(error) => Err(error),
    }
}
