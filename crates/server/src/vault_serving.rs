//! Serves a client of a vault.
//!
//! The server answers the operations of [`env::Storage`], and enforces rights by the names of
//! objects ([`crate::vault_rights`]). A connection's requests are answered one after another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::{ObjectMeta, Storage, StorageError};
use format::names::{self, SessionObject};
use format::session::READ_SERIES;
use transport::TransportError;
use types::{ObjectName, Revision, SessionId};
use wire::{LISTED_MAX, OBJECT_BYTES_MAX, PutPart, Refusal, RefusalKind, StorageRequest, Wire, request};

use crate::error::ServerError;
use crate::gate::Permit;
use crate::peer::{Message, Peer, Token, failed, not_allowed};
use crate::rights::{Right, Rights};
use crate::shares::{Answer, Shares};
use crate::state::State;
use crate::vault::{Upload, Vault, refusal};
use crate::vault_reading::Bytes;
use crate::vault_rights::{Needs, creating, deleting};

/// A connection sends so many objects at once, at most.
const UPLOADS_MAX: usize = 64;
/// How far above the highest number a session may claim one: others may claim some meanwhile.
const CLAIMED_AHEAD_MAX: u64 = 1000;

/// The owner of a session that clients without a token have begun.
const TUNNEL: &str = "tunnel";

/// A client of a vault.
pub(crate) struct VaultUser<'a> {
    state: &'a State,
    vault: Arc<Vault>,
    namespace: String,
    /// Its token. A client of a tunnel has none.
    token: Option<Token>,
    rights: Rights,
    shares: Shares,
    uploads: BTreeMap<u32, Upload>,
}

/// What a client wants, once its message is decoded.
enum Wanted {
    /// To put a part of an object. It is done.
    Put,
    /// Another operation.
    Other(StorageRequest),
}

impl<'a> VaultUser<'a> {
    pub(crate) fn new(
        state: &'a State,
        vault: Arc<Vault>,
        namespace: String,
        (token, rights): (Option<Token>, Rights),
        shares: Shares,
    ) -> Self {
        Self {
            state,
            vault,
            namespace,
            token,
            rights,
            shares,
            uploads: BTreeMap::new(),
        }
    }

    /// The name of the handle that the client uses.
    pub(crate) fn handle(&self) -> [u8; 16] {
        self.vault.handle
    }

    /// Answers requests until the client leaves.
    pub(crate) fn serve(mut self, peer: &mut Peer) -> Result<(), TransportError> {
        while let Some(message) = peer.incoming.next(self.state, &self.shares)? {
            let Message {
                head,
                body,
                processing,
                ..
            } = message;
            let token = self.token.as_ref();
            if let Err(refusal) = token.map_or(Ok(()), |token| token.ensure_valid(Duration::ZERO)) {
                return peer.refuse(head.number, &refusal);
            }
            let Some(_running) = self.state.begin() else {
                let busy = Refusal::new(RefusalKind::Busy, "the server is ending; try again later");
                return peer.refuse(head.number, &busy);
            };
            // The only limit of a vault.
            match self.state.home.limits(&self.namespace) {
                Ok(limits) => self.shares.rate_bytes = limits.rate_bytes,
                Err(error) => return peer.refuse(head.number, &failed(error)),
            }
            let wanted = match head.kind {
                request::PUT => self.put(&body).map(|()| Wanted::Put),
                request::STORAGE => StorageRequest::from_bytes(&body)
                    .map(Wanted::Other)
                    .map_err(Refusal::from),
                kind => {
                    let why = format!(
                        "{} is a vault, and has no request of kind {kind}: update the client",
                        self.namespace
                    );
                    Err(Refusal::new(RefusalKind::Malformed, why))
                }
            };
            // The decoded names are as large, for as long as they are looked up.
            let looks_up = matches!(wanted, Ok(Wanted::Other(StorageRequest::ListIn(..))));
            let memory = body.into_memory().filter(|_| looks_up);
            let shared = (self.state, &self.shares);
            let answer = Answer::to(head.number, processing, &peer.writer, shared);
            match wanted {
                Ok(Wanted::Put) => answer.whole(Ok(Vec::new()))?,
                Ok(Wanted::Other(request)) => self.answer(answer, request, memory)?,
                Err(refusal) => answer.refuse(&refusal)?,
            }
        }
        Ok(())
    }

    fn owner(&self) -> &str {
        self.token.as_ref().map_or(TUNNEL, Token::id)
    }

    /// Refuses what the token may not do.
    fn ensure(&self, needs: Needs, what: &str, name: &dyn std::fmt::Display) -> Result<(), Refusal> {
        let home = &self.state.home;
        let is_own = |session| home.owns(&self.namespace, session, self.owner());
        if needs.are_met(self.rights, is_own).map_err(failed)? {
            return Ok(());
        }
        let why = match needs {
            Needs::Own(session, _) if self.has_one_of(needs) => {
                format!("session {session} was begun with another token")
            }
            Needs::One([]) => "this needs the right to maintain".to_owned(),
            Needs::One(of) | Needs::Own(_, of) => {
                let words: Vec<&str> = of.iter().map(|right| right.word()).collect();
                format!("this needs the right to {}", words.join(" or to "))
            }
        };
        Err(not_allowed(format!(
            "this machine's token may not {what} {name}: {why}; it has: {}",
            self.rights
        )))
    }

    /// Whether the token has a right that would do for a session of its own.
    fn has_one_of(&self, needs: Needs) -> bool {
        needs
            .are_met(self.rights, |_| Ok::<_, ServerError>(true))
            .unwrap_or(false)
    }

    /// Takes a part of an object, and puts the object with its last one.
    pub(crate) fn put(&mut self, body: &[u8]) -> Result<(), Refusal> {
        let PutPart {
            name,
            upload: number,
            offset,
            is_again,
            is_last,
            bytes,
        } = PutPart::from_bytes(body)?;
        self.ensure(creating(&name), "create", &name)?;
        let upload = self.uploads.remove(&number);
        let mut upload = upload.unwrap_or_else(|| Upload::new(&self.vault, &name));
        // A part may have been refused before.
        let before = upload.bytes.len() as u64;
        if upload.name != name || before != offset {
            let why = "a part of an object is missing";
            return Err(Refusal::new(RefusalKind::Malformed, why));
        }
        if before + bytes.len() as u64 > OBJECT_BYTES_MAX {
            let why = format!("{name}: an object of a vault has at most {OBJECT_BYTES_MAX} bytes");
            return Err(failed(why));
        }
        if !is_last {
            if bytes.is_empty() || self.uploads.len() >= UPLOADS_MAX {
                let why = "an empty part of an object, or too many objects at once";
                return Err(Refusal::new(RefusalKind::Malformed, why));
            }
            upload.push(&bytes)?;
            self.uploads.insert(number, upload);
            return Ok(());
        }
        if let Some((session, SessionObject::Claim)) = names::parse_session_object(&name) {
            self.ensure_near(session)?;
        }
        let parts = [upload.bytes.as_slice(), &*bytes];
        let is_new = match self.vault.storage.put(&name, &parts) {
            Err(StorageError::AlreadyExists { .. }) if is_again && self.is_equal(&name, &parts)? => false,
            put => put.map(|()| true).map_err(|error| refusal(&error))?,
        };
        if let Some((session, SessionObject::Claim)) = names::parse_session_object(&name) {
            // Everybody can read a claim, and so can send its bytes again.
            let owned = self
                .state
                .home
                .set_owner(&self.namespace, session, self.owner(), is_new);
            if !owned.map_err(failed)? {
                return Err(refusal(&StorageError::AlreadyExists { name }));
            }
        }
        Ok(())
    }

    /// Refuses a claim of a number far above all others. The highest number is never given back,
    /// and behind the last one no session begins any more.
    fn ensure_near(&self, session: SessionId) -> Result<(), Refusal> {
        let storage = &self.vault.storage;
        let is_near = |highest: Option<SessionId>| {
            let highest = highest.map_or(0, SessionId::get);
            session.get() <= highest.saturating_add(CLAIMED_AHEAD_MAX)
        };
        let folders = storage.list_folders(names::SESSIONS_FOLDER);
        let folders = folders.map_err(|error| refusal(&error))?;
        if is_near(folders.iter().filter_map(|one| names::parse_session(one)).max()) {
            return Ok(());
        }
        // Claims may be lost, and manifests count too.
        let manifests = storage.list(names::BACKUPS_FOLDER);
        let manifests = manifests.map_err(|error| refusal(&error))?;
        let sessions = manifests
            .iter()
            .filter_map(|object| names::parse_manifest(&object.name));
        if is_near(sessions.map(|(_, session, _)| session).max()) {
            return Ok(());
        }
        Err(not_allowed(format!(
            "session {session} cannot begin: its number is far above all others in the vault"
        )))
    }

    /// Whether the object has exactly these bytes.
    fn is_equal(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<bool, Refusal> {
        let stored = match self.vault.storage.get(name) {
            Err(StorageError::NotFound { .. }) => return Ok(false),
            read => read.map_err(|error| refusal(&error))?,
        };
        let mut rest = &*stored;
        let is_prefix = parts.iter().all(|part| match rest.strip_prefix(*part) {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        });
        Ok(is_prefix && rest.is_empty())
    }

    /// Answers a request. `memory`: that of its message, if it is needed until the answer is known.
    fn answer(
        &self,
        answer: Answer<'_>,
        request: StorageRequest,
        memory: Option<Permit>,
    ) -> Result<(), TransportError> {
        let storage = &self.vault.storage;
        match request {
            StorageRequest::Get(name, wanted) => {
                let bytes = Bytes {
                    storage,
                    rights: self.rights,
                };
                return bytes.send(answer, &name, wanted);
            }
            StorageRequest::List(folder) => return send_list(answer, storage.list(&folder)),
            StorageRequest::ListIn(folder, sub_folders) => {
                let listed = storage.list_in(&folder, &sub_folders.into_iter().collect());
                drop(memory);
                return send_list(answer, listed);
            }
            StorageRequest::ListFolders(folder) => {
                return send_list(answer, storage.list_folders(&folder));
            }
            _ => {}
        }
        answer.whole(self.change(request))
    }

    /// The operations with a short answer.
    fn change(&self, request: StorageRequest) -> Result<Vec<u8>, Refusal> {
        let storage = &self.vault.storage;
        let refused = |error: StorageError| refusal(&error);
        let maintain = Needs::One(&[]);
        match request {
            StorageRequest::Head(name) => {
                let meta: ObjectMeta = storage.head(&name).map_err(refused)?;
                Ok(meta.to_bytes())
            }
            StorageRequest::CanTrim(name) => Ok(storage.can_trim(&name).map_err(refused)?.to_bytes()),
            StorageRequest::Delete(name) => {
                self.ensure(deleting(&name), "delete", &name)?;
                self.delete(&name)?;
                Ok(Vec::new())
            }
            StorageRequest::Trim(from, to, ranges) => {
                self.ensure(maintain, "rename", &from)?;
                Ok(storage.trim(&from, &to, &ranges).map_err(refused)?.to_bytes())
            }
            StorageRequest::DropFolder(folder) => {
                // Who deletes the last object of a session also removes its empty folder.
                if !folder.starts_with(names::SESSIONS_FOLDER) {
                    self.ensure(maintain, "remove", &folder)?;
                }
                storage.drop_folder(&folder).map_err(refused)?;
                Ok(Vec::new())
            }
            StorageRequest::Barrier => match storage.barrier() {
                Ok(()) => Ok(Vec::new()),
                Err(error) => {
                    self.state.close_vault(&self.namespace, &self.vault);
                    Err(refused(error))
                }
            },
            StorageRequest::Get(..)
            | StorageRequest::List(_)
            | StorageRequest::ListIn(..)
            | StorageRequest::ListFolders(_) => {
                Err(Refusal::new(RefusalKind::Malformed, "this has a long answer"))
            }
        }
    }

    /// Deletes an object. A session whose number may be used again belongs to nobody.
    fn delete(&self, name: &ObjectName) -> Result<(), Refusal> {
        let (home, storage) = (&self.state.home, &self.vault.storage);
        let disown = |session| home.drop_owner(&self.namespace, session).map_err(failed);
        if let Some((session, SessionObject::Claim)) = names::parse_session_object(name) {
            self.ensure_passed(session)?;
            if !self.is_ended_reader(session)? {
                disown(session)?;
            }
        }
        storage.delete(name).map_err(|error| refusal(&error))?;
        if let Some((_, session, Revision::FIRST)) = names::parse_manifest(name) {
            disown(session)?;
        }
        Ok(())
    }

    /// Refuses to give the highest number back, unless the token maintains the vault: the next
    /// session would get the number, and fail at objects that this one has left.
    fn ensure_passed(&self, session: SessionId) -> Result<(), Refusal> {
        if self.rights.has(Right::Maintain) {
            return Ok(());
        }
        let folders = self.vault.storage.list_folders(names::SESSIONS_FOLDER);
        let folders = folders.map_err(|error| refusal(&error))?;
        let mut numbers = folders.iter().filter_map(|one| names::parse_session(one));
        if numbers.any(|one| one > session) {
            return Ok(());
        }
        Err(not_allowed(format!(
            "this machine's token may not delete the claim of session {session}: its number is the highest"
        )))
    }

    /// Whether the session only read and has ended. Its token still deletes the ending.
    fn is_ended_reader(&self, session: SessionId) -> Result<bool, Refusal> {
        let ending = names::manifest(READ_SERIES, session, Revision::FIRST);
        match self.vault.storage.head(&ending) {
            Err(StorageError::NotFound { .. }) => Ok(false),
            found => found.map(|_| true).map_err(|error| refusal(&error)),
        }
    }
}

/// Sends a listing in as many parts as it needs.
fn send_list<T: Wire>(
    mut answer: Answer<'_>,
    listed: Result<Vec<T>, StorageError>,
) -> Result<(), TransportError> {
    let mut left = match listed {
        Ok(listed) => listed.into_iter(),
        Err(error) => return answer.refuse(&refusal(&error)),
    };
    loop {
        let part: Vec<T> = left.by_ref().take(LISTED_MAX).collect();
        if left.len() == 0 {
            return answer.end(&part.to_bytes());
        }
        answer.part(&part.to_bytes())?;
    }
}
