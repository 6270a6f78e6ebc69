//! The connection over which a store is read.
//!
//! If it breaks while pinned backups are read, another one is made, which pins them again. So
//! a restore outlives a server that starts anew, and a network that was cut (B6). Requests of
//! readers change nothing, so each may be asked again.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use env::Clock;
use format::FormatError;
use format::manifest::StreamRoot;
use types::SessionId;
use wire::{ReadBegun, Wire, request};

use crate::connection::Connection;
use crate::dial::Dialer;
use crate::error::ClientError;

/// How often one request is asked again.
const ATTEMPTS_MAX: u32 = 100;

/// The connection of a reader, for any number of threads.
pub(crate) struct Link {
    state: Mutex<State>,
    /// One thread makes the connection again, and the others wait for it.
    renewing: Mutex<()>,
    renewal: Option<Renewal>,
}

struct State {
    connection: Arc<Connection>,
    /// What the user should know.
    notes: Vec<String>,
}

/// How to make the connection again.
pub(crate) struct Renewal {
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Set when the user asks to stop.
    pub(crate) cancel: Arc<AtomicBool>,
    /// The pinned backups, and where their streams are.
    pub(crate) backups: Vec<(SessionId, Vec<StreamRoot>)>,
}

impl Renewal {
    /// A backup that is gone, or whose streams are elsewhere now.
    fn moved(&self, begun: &ReadBegun) -> Option<SessionId> {
        let is_same = |(id, streams): &&(SessionId, Vec<StreamRoot>)| {
            let found = begun.backups.iter().find(|one| one.session == *id);
            found.is_some_and(|one| one.backup.streams == *streams)
        };
        let moved = self.backups.iter().find(|backup| !is_same(backup));
        moved.map(|(id, _)| *id)
    }
}

impl Link {
    /// A connection that is not made again.
    pub(crate) fn of(connection: Connection) -> Self {
        Self {
            state: Mutex::new(State {
                connection: Arc::new(connection),
                notes: Vec::new(),
            }),
            renewing: Mutex::default(),
            renewal: None,
        }
    }

    /// A connection that is made again in this way.
    pub(crate) fn renewed(connection: Connection, renewal: Renewal) -> Self {
        Self {
            renewal: Some(renewal),
            ..Self::of(connection)
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection now.
    pub(crate) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.state().connection)
    }

    pub(crate) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notes)
    }

    /// Asks, and asks again over another connection if this one breaks.
    pub(crate) fn ask<T>(
        &self,
        kind: u8,
        body: &impl Wire,
        decode: impl Fn(&[u8]) -> Result<T, FormatError>,
    ) -> Result<T, ClientError> {
        let mut attempt = 0;
        loop {
            let connection = self.connection();
            let error = match connection.ask(kind, body, &decode) {
                Err(error) if error.is_of_connection() && attempt < ATTEMPTS_MAX => error,
                answer => return answer,
            };
            let Some(renewal) = &self.renewal else {
                return Err(error);
            };
            self.renew(renewal, &connection, error, attempt)?;
            attempt += 1;
        }
    }

    fn renew(
        &self,
        renewal: &Renewal,
        broken: &Arc<Connection>,
        error: ClientError,
        attempt: u32,
    ) -> Result<(), ClientError> {
        let _renewing = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(broken, &self.connection()) {
            return Ok(());
        }
        let clock = &*renewal.clock;
        let Some(connection) = renewal.dialer.log_in_again(clock, attempt, &renewal.cancel) else {
            return Err(error);
        };
        let ids: Vec<SessionId> = renewal.backups.iter().map(|(id, _)| *id).collect();
        match connection.ask(request::READ, &ids, ReadBegun::from_bytes) {
            Ok(begun) => {
                if let Some(moved) = renewal.moved(&begun) {
                    return Err(ClientError::Protocol(format!(
                        "the store moved backup {moved} while it was read; run the command again"
                    )));
                }
            }
            // It broke again: the next attempt makes another one.
            Err(again) if again.is_of_connection() => return Ok(()),
            Err(refused) => return Err(refused),
        }
        let mut state = self.state();
        state.connection = Arc::new(connection);
        state
            .notes
            .push(format!("{error}; went on over another connection"));
        Ok(())
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}
