//! The objects of a vault: a storage whose operations a server carries out.
//!
//! Many threads may call all methods. Requests have numbers, so many are open at once over one
//! connection. If the connection breaks, [`VaultLink`] makes another one and the request is sent
//! again: every operation may run twice. A put that finds its name taken then asks the server
//! whether the object has exactly these bytes; a delete that finds nothing has deleted. The server
//! may still carry out what the broken connection had brought, after the request that was sent
//! again. So an object that was put and deleted at once may come back: no heartbeat, claim or
//! checkpoint does harm by that, and other objects are not deleted so soon.
//!
//! There are no locks: a process that dies leaves none behind, and heartbeats show which sessions
//! live.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use env::{Clock, LockState, ObjectMeta, ProcessLock, Storage, StorageError};
use format::FormatError;
use format::wire::Reader;
use transport::Traffic;
use types::{ByteRange, ObjectName};
use wire::{PUT_BYTES_MAX, PutPart, RefusalKind, StorageRequest, WantedBytes, Wire, request};

use crate::connection::Connection;
use crate::dial::Dialer;
use crate::error::ClientError;
use crate::vault_link::VaultLink;

/// A vault of a server.
#[derive(Debug)]
pub struct RemoteStorage {
    link: VaultLink,
    rights: String,
    uploads: AtomicU32,
}

impl RemoteStorage {
    pub(crate) fn new(
        dialer: Dialer,
        first: Connection,
        handle: [u8; 16],
        rights: &str,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self {
            link: VaultLink::new(dialer, first, handle, clock),
            rights: rights.to_owned(),
            uploads: AtomicU32::new(0),
        }
    }

    /// Whether the token has this right. The server decides; this is for a client that would
    /// rather not ask.
    #[must_use]
    pub fn has_right(&self, word: &str) -> bool {
        self.rights.split(',').any(|right| right == word)
    }

    /// Bytes that all connections have carried, without what TLS and the network add.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        &self.link.dialer.traffic
    }

    /// Asks, and returns the answer.
    fn ask(&self, action: &'static str, name: &str, asked: &StorageRequest) -> Result<Vec<u8>, StorageError> {
        let answer = self.link.request(|connection, _| answer_to(connection, asked));
        answer.map_err(|error| storage_error(action, name, error))
    }

    /// Asks for an answer that is one value.
    fn ask_one<T: Wire>(
        &self,
        action: &'static str,
        name: &str,
        asked: &StorageRequest,
    ) -> Result<T, StorageError> {
        T::from_bytes(&self.ask(action, name, asked)?)
            .map_err(|error| storage_error(action, name, ClientError::protocol(&error)))
    }

    /// Asks for a listing.
    fn ask_list<T: Wire>(&self, folder: &str, asked: &StorageRequest) -> Result<Vec<T>, StorageError> {
        let answer = self.ask("list", folder, asked)?;
        lists_of(&answer).map_err(|error| storage_error("list", folder, ClientError::protocol(&error)))
    }

    /// Asks for bytes. If the range ends behind the object, the error says where the object ends.
    fn ask_bytes(&self, name: &ObjectName, wanted: WantedBytes) -> Result<Vec<u8>, StorageError> {
        let asked = StorageRequest::Get(name.clone(), wanted);
        let bytes = self.link.request(|connection, _| answer_to(connection, &asked));
        let past_end = |error: &ClientError| matches!(error, ClientError::Refused(refusal) if refusal.kind == RefusalKind::PastEnd);
        match (bytes, wanted) {
            (Err(error), WantedBytes::Range(range)) if past_end(&error) => Err(StorageError::PastEnd {
                name: name.clone(),
                len: self.head(name)?.len,
                end: range.end(),
            }),
            (bytes, _) => bytes.map_err(|error| storage_error("read", name.as_str(), error)),
        }
    }

    /// The parts in which an object is put.
    fn put_parts<'a>(&self, name: &ObjectName, parts: &[&'a [u8]], is_again: bool) -> Vec<PutPart<'a>> {
        let bytes: Cow<'a, [u8]> = match parts {
            [one] => Cow::Borrowed(*one),
            many => Cow::Owned(many.concat()),
        };
        let chunks: Vec<Cow<'a, [u8]>> = match bytes {
            short if short.len() <= PUT_BYTES_MAX => vec![short],
            Cow::Borrowed(long) => long.chunks(PUT_BYTES_MAX).map(Cow::Borrowed).collect(),
            Cow::Owned(long) => long
                .chunks(PUT_BYTES_MAX)
                .map(|part| Cow::Owned(part.to_vec()))
                .collect(),
        };
        let upload = self.uploads.fetch_add(1, Ordering::Relaxed);
        let last = chunks.len() - 1;
        let part = |(at, bytes)| PutPart {
            name: name.clone(),
            upload,
            offset: (at * PUT_BYTES_MAX) as u64,
            is_again,
            is_last: at == last,
            bytes,
        };
        chunks.into_iter().enumerate().map(part).collect()
    }
}

/// Asks over this connection, and returns the answer.
fn answer_to(connection: &Connection, asked: &StorageRequest) -> Result<Vec<u8>, ClientError> {
    let number = connection.begin(request::STORAGE, asked)?;
    connection.wait(number)
}

/// The elements of a listing: each part of the answer is a list.
fn lists_of<T: Wire>(answer: &[u8]) -> Result<Vec<T>, FormatError> {
    let mut r = Reader::new("listing", answer);
    let mut all = Vec::<T>::read(&mut r)?;
    while r.remaining() > 0 {
        all.append(&mut Vec::<T>::read(&mut r)?);
    }
    Ok(all)
}

fn storage_error(action: &'static str, name: &str, error: ClientError) -> StorageError {
    let text = || name.to_owned();
    if let ClientError::Refused(refusal) = &error {
        match (refusal.kind, ObjectName::new(name)) {
            (RefusalKind::NotFound, Ok(name)) => return StorageError::NotFound { name },
            (RefusalKind::AlreadyExists, Ok(name)) => return StorageError::AlreadyExists { name },
            (RefusalKind::NoSpace, _) => return StorageError::NoSpace { name: text() },
            (RefusalKind::NotAllowed, _) => {
                return StorageError::NoRight {
                    name: text(),
                    why: error.to_string(),
                };
            }
            _ => {}
        }
    }
    StorageError::Io {
        action,
        name: text(),
        source: io::Error::other(error),
    }
}

impl Storage for RemoteStorage {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        let put = self.link.request(|connection, is_again| {
            // The server takes the parts one after another, and answers each.
            let sent = self.put_parts(name, parts, is_again).into_iter();
            let numbers: Result<Vec<u32>, ClientError> =
                sent.map(|part| connection.begin(request::PUT, &part)).collect();
            numbers?
                .into_iter()
                .try_for_each(|number| connection.wait(number).map(drop))
        });
        put.map_err(|error| storage_error("put", name.as_str(), error))
    }

    fn barrier(&self) -> Result<(), StorageError> {
        let asked = StorageRequest::Barrier;
        let barrier = self
            .link
            .barrier(|connection| answer_to(connection, &asked).map(drop));
        let vault = self.link.dialer.to_string();
        match barrier {
            Ok(true) => Ok(()),
            Ok(false) => Err(StorageError::Io {
                action: "barrier",
                name: vault,
                source: io::Error::other(
                    "the server was started again, and may have lost what was sent before; run the command again",
                ),
            }),
            Err(error) => Err(storage_error("barrier", &vault, error)),
        }
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.ask_bytes(name, WantedBytes::All)
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.ask_bytes(name, WantedBytes::Range(range))
    }

    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        let mut bytes = self.ask_bytes(name, WantedBytes::Tail(len))?;
        let Some(head) = bytes.first_chunk::<8>() else {
            let error = ClientError::Protocol("the end of an object without its length".to_owned());
            return Err(storage_error("read", name.as_str(), error));
        };
        let whole = u64::from_le_bytes(*head);
        bytes.drain(..8);
        Ok((bytes, whole))
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.ask_one("look up", name.as_str(), &StorageRequest::Head(name.clone()))
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.ask_list(folder, &StorageRequest::List(folder.to_owned()))
    }

    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        let sub_folders = sub_folders.iter().cloned().collect();
        self.ask_list(folder, &StorageRequest::ListIn(folder.to_owned(), sub_folders))
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.ask_list(folder, &StorageRequest::ListFolders(folder.to_owned()))
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        let asked = StorageRequest::Delete(name.clone());
        let deleted = self
            .link
            .request(|connection, is_again| match answer_to(connection, &asked) {
                Err(ClientError::Refused(refusal)) if is_again && refusal.kind == RefusalKind::NotFound => {
                    Ok(())
                }
                deleted => deleted.map(drop),
            });
        deleted.map_err(|error| storage_error("delete", name.as_str(), error))
    }

    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        self.ask_one("look up", name.as_str(), &StorageRequest::CanTrim(name.clone()))
    }

    fn trim(&self, from: &ObjectName, to: &ObjectName, ranges: &[ByteRange]) -> Result<bool, StorageError> {
        let asked = StorageRequest::Trim(from.clone(), to.clone(), ranges.to_vec());
        self.ask_one("trim", from.as_str(), &asked)
    }

    fn drop_folder(&self, folder: &str) -> Result<(), StorageError> {
        self.ask(
            "drop the folder",
            folder,
            &StorageRequest::DropFolder(folder.to_owned()),
        )
        .map(drop)
    }

    fn lock(&self, _: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        Ok(None)
    }

    fn lock_state(&self, _: &ObjectName) -> Result<LockState, StorageError> {
        Ok(LockState::Unknown)
    }

    fn drop_lock(&self, _: &ObjectName) -> Result<(), StorageError> {
        Ok(())
    }
}
