//! A client's connection, from its greeting to its end.

use format::wire::Reader;
use onefold::repository::Repository;
use onefold::{Monitor, PROGRAM};
use transport::{Channel, TransportError};
use types::SessionId;
use wire::{
    Head, Hello, Joined, Joining, LoggedIn, Login, ReadBegun, Refusal, RefusalKind, Welcome, Wire, request,
};

use crate::backup;
use crate::calls;
use crate::error::ServerError;
use crate::manifests::Namespace;
use crate::peer::{Body, Deadline, Ending, Message, Peer, Token, User, failed, not_allowed};
use crate::reading::{self, For};
use crate::rights::{Right, Rights};
use crate::shares::{Answer, Shares};
use crate::state::State;
use crate::vault_serving::VaultUser;

/// Bytes of a message before a client has shown its token.
const STRANGER_BYTES_MAX: usize = 16 << 10;
/// Backups that a client may read at once. A restore names one, a copy two, and `find` all that it
/// searches, each once: those of 29 machines that have backed up each hour for a year. Their
/// numbers take 2 MiB.
pub(crate) const READ_BACKUPS_MAX: u64 = 1 << 18;

/// A client whose token was accepted.
struct LoginAccess {
    /// The token's id, if it has one.
    token: Option<Token>,
    rights: Rights,
    namespace: String,
}

/// What a client uses.
enum Use<'a> {
    Store(User),
    Vault(VaultUser<'a>),
}

/// A connection of a client.
pub(crate) struct Connection<'a> {
    state: &'a State,
    peer: Peer,
    /// The client's address.
    from: &'a str,
    /// What the client may do without a token.
    granted: Option<Granted>,
}

/// What clients of a tunnel may do: the system has authenticated them.
#[derive(Debug, Clone)]
pub struct Granted {
    /// The only namespace. `None`: any.
    pub namespace: Option<String>,
    /// Their rights.
    pub rights: Rights,
}

impl<'a> Connection<'a> {
    pub(crate) fn new(
        state: &'a State,
        (channel, from): (Channel, &'a str),
        granted: Option<Granted>,
        deadline: &Deadline,
    ) -> Self {
        Self {
            state,
            peer: Peer::new(channel, deadline),
            from,
            granted,
        }
    }

    /// Serves the client until it leaves.
    pub(crate) fn serve(&mut self) -> Result<(), TransportError> {
        let Some((head, body)) = self.peer.incoming.of_stranger(STRANGER_BYTES_MAX)? else {
            return Ok(());
        };
        match self.greet(head, &body) {
            Ok(welcome) => self.peer.answer(head.number, &welcome.to_bytes())?,
            Err(refusal) => return self.peer.refuse(head.number, &refusal),
        }
        let Some((head, body)) = self.peer.incoming.of_stranger(STRANGER_BYTES_MAX)? else {
            return Ok(());
        };
        if head.kind == request::JOIN {
            let joined = self.join(&body);
            return self
                .peer
                .reply(head.number, joined.map(|joined| joined.to_bytes()));
        }
        let access = match self.log_in(head, &body) {
            Ok(access) => access,
            Err(refusal) => return self.peer.refuse(head.number, &refusal),
        };
        self.peer.incoming.trust();
        let token = access.token.as_ref();
        let _watching = token.map(|token| self.state.token_watch.enter(token.id(), &self.peer.closer));
        let rights = access.rights.to_string();
        match self.use_place(access) {
            Ok(Use::Store(user)) => {
                let told = LoggedIn { vault: None, rights };
                self.peer.answer(head.number, &told.to_bytes())?;
                self.requests(user)
            }
            Ok(Use::Vault(user)) => {
                let vault = Some(user.handle());
                self.peer
                    .answer(head.number, &LoggedIn { vault, rights }.to_bytes())?;
                user.serve(&mut self.peer)
            }
            Err(refusal) => self.peer.refuse(head.number, &refusal),
        }
    }

    fn greet(&self, head: Head, body: &[u8]) -> Result<Welcome, Refusal> {
        if head.kind != request::HELLO {
            return Err(Refusal::new(
                RefusalKind::Malformed,
                "the first message is no greeting",
            ));
        }
        let hello = Hello::from_bytes(body)?;
        let version = hello.common_version().ok_or_else(|| {
            let (oldest, newest) = hello.versions;
            failed(format!(
                "the client speaks versions {oldest} to {newest} of the protocol, and the server {} to {}; update the older one",
                wire::VERSION_MIN,
                wire::VERSION
            ))
        })?;
        Ok(Welcome {
            version,
            program: PROGRAM.to_owned(),
        })
    }

    fn join(&self, body: &[u8]) -> Result<Joined, Refusal> {
        let joining = Joining::from_bytes(body)?;
        let joined = self.state.home.join(&joining.code, &joining.label, self.from);
        let joined = joined.map_err(|error| not_allowed(error.to_string()))?;
        Ok(Joined {
            token: joined.token,
            namespace: joined.namespace,
            rights: joined.rights,
        })
    }

    fn log_in(&self, head: Head, body: &[u8]) -> Result<LoginAccess, Refusal> {
        if head.kind != request::LOGIN {
            return Err(Refusal::new(RefusalKind::Malformed, "a request before the login"));
        }
        let login = Login::from_bytes(body)?;
        let known = match &self.granted {
            Some(granted) => {
                let own = granted.namespace.as_ref();
                if let Some(own) = own.filter(|own| **own != login.namespace) {
                    return Err(not_allowed(format!(
                        "the server lets you use the namespace {own} alone"
                    )));
                }
                Some((None, granted.rights))
            }
            None => {
                let known = self.state.home.login(&login.token, &login.namespace);
                let known = known.map_err(failed)?;
                known.map(|(id, rights)| (Some(Token::new(id, &self.state.home)), rights))
            }
        };
        let Some((token, rights)) = known else {
            self.state
                .home
                .record_refusal("refused token", &login.namespace, self.from)
                .map_err(failed)?;
            return Err(not_allowed(format!(
                "the server does not accept this machine's token for {}: it is unknown, revoked or too old; join again",
                login.namespace
            )));
        };
        Ok(LoginAccess {
            token,
            rights,
            namespace: login.namespace,
        })
    }

    fn use_place(&self, access: LoginAccess) -> Result<Use<'a>, Refusal> {
        let LoginAccess {
            token,
            rights,
            namespace,
        } = access;
        let owner = token.as_ref().map_or(&*namespace, Token::id).to_owned();
        let mut shares = Shares::new(owner, self.state.rates.of(&namespace));
        let limits = self.state.home.limits(&namespace).map_err(failed)?;
        shares.rate_bytes = limits.rate_bytes;
        if let Some(vault) = self.state.vault_of(&namespace).map_err(failed)? {
            let user = VaultUser::new(self.state, vault, namespace, (token, rights), shares);
            return Ok(Use::Vault(user));
        }
        Ok(Use::Store(User {
            token,
            rights,
            limits,
            shares,
            running_bytes: self.state.running_bytes.of(&namespace),
            store: self.state.store_of(&namespace).map_err(no_store)?,
            namespace: Namespace::new(&namespace),
        }))
    }

    fn requests(&mut self, mut user: User) -> Result<(), TransportError> {
        while let Some(message) = self.peer.incoming.next(self.state, &user.shares)? {
            let Message {
                head,
                body,
                processing,
                ..
            } = message;
            // These take messages of their own while they run.
            let is_long = matches!(head.kind, request::BEGIN | request::READ | request::CALL);
            let processing = processing.filter(|_| !is_long);
            if let Err(refusal) = user.ensure_valid() {
                return self.peer.refuse(head.number, &refusal);
            }
            match self.state.home.limits(user.namespace.name()) {
                Ok(limits) => {
                    user.shares.rate_bytes = limits.rate_bytes;
                    user.limits = limits;
                }
                Err(error) => return self.peer.refuse(head.number, &failed(error)),
            }
            let user = &user;
            let number = head.number;
            let Some(_running) = self.state.begin() else {
                let busy = Refusal::new(RefusalKind::Busy, "the server is ending; try again later");
                return self.peer.refuse(head.number, &busy);
            };
            let shared = (self.state, &user.shares);
            let ending = match head.kind {
                request::BEGIN => backup::run(&mut self.peer, self.state, user, (number, body))?,
                request::COMMITTED => {
                    let found = backup::committed(self.state, user, body);
                    Answer::to(number, processing, &self.peer.writer, shared)
                        .whole(found.map(|found| found.to_bytes()))?;
                    Ending::GoOn
                }
                request::READ => self.read(user, number, body)?,
                request::CALL => calls::run(&self.peer, self.state, user, (number, body))?,
                request::LIST => {
                    drop(body);
                    let list = user.ensure(Right::List).and_then(|()| {
                        let list = user.store.snapshots().map_err(failed)?;
                        Ok(user.namespace.all(&list).to_bytes())
                    });
                    Answer::to(number, processing, &self.peer.writer, shared).whole(list)?;
                    Ending::GoOn
                }
                kind => {
                    drop(body);
                    let unknown = format!("no request of kind {kind}");
                    self.peer
                        .refuse(number, &Refusal::new(RefusalKind::Malformed, unknown))?;
                    Ending::GoOn
                }
            };
            if ending == Ending::Over {
                self.peer.closer.close();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Pins backups, and answers reads until the client ends or leaves.
    fn read(&mut self, user: &User, number: u32, body: Body) -> Result<Ending, TransportError> {
        let store: &dyn Repository = &*user.store;
        let named = user.ensure(Right::Read).and_then(|()| named_backups(&body));
        drop(body);
        let begun = named.and_then(|named| {
            let wanted = user.some(&named)?;
            drop(named);
            let pinned = store.pin_all(&wanted, &Monitor::default()).map_err(failed)?;
            match (&wanted[..], pinned.snapshots()) {
                ([forgotten], []) => Err(failed(onefold::Error::Forgotten {
                    id: forgotten.id,
                    why: None,
                })),
                _ => Ok(pinned),
            }
        });
        let pinned = match begun {
            Ok(pinned) => pinned,
            Err(refusal) => return self.peer.refuse(number, &refusal).map(|()| Ending::GoOn),
        };
        let reader = match pinned.reader() {
            Ok(reader) => reader,
            Err(error) => return self.peer.refuse(number, &failed(error)).map(|()| Ending::GoOn),
        };
        let answer = ReadBegun {
            backups: { pinned.snapshots().iter() }
                .filter_map(|snapshot| user.namespace.sent(snapshot))
                .collect(),
            keys: *reader.fingerprinter().derived_keys(),
        };
        self.peer.answer(number, &answer.to_bytes())?;
        loop {
            let Some(message) = self.peer.incoming.next(self.state, &user.shares)? else {
                return Ok(Ending::Over);
            };
            let Message {
                head,
                body,
                processing,
                ..
            } = message;
            if head.kind == request::END {
                drop(body);
                let monitor = Monitor::default();
                pinned.end(&monitor);
                let notes: Vec<String> = monitor.notes().iter().map(ToString::to_string).collect();
                self.peer.answer(head.number, &notes.to_bytes())?;
                return Ok(Ending::GoOn);
            }
            if let Err(refusal) = user.ensure_still_valid() {
                drop(body);
                return self.peer.refuse(head.number, &refusal).map(|()| Ending::Over);
            }
            let shared = (self.state, &user.shares);
            let answer = Answer::to(head.number, processing, &self.peer.writer, shared);
            reading::serve(answer, reader, For::Restore, (head.kind, body))?;
        }
    }
}

/// The backups that a client wants to read.
fn named_backups(body: &[u8]) -> Result<Vec<SessionId>, Refusal> {
    let count = Reader::new("message", body).varint()?;
    if count > READ_BACKUPS_MAX {
        return Err(failed(format!(
            "a client reads at most {READ_BACKUPS_MAX} backups at once, and this one names {count}; choose fewer"
        )));
    }
    Ok(Wire::from_bytes(body)?)
}

fn no_store(error: ServerError) -> Refusal {
    match error {
        ServerError::Away { .. } => Refusal::new(
            RefusalKind::Busy,
            "the server cannot reach the object store of this namespace now; it tries again by itself: try again later",
        ),
        error => failed(error),
    }
}
