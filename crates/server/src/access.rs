//! Invitations and tokens.
//!
//! A secret is 32 random bytes in hexadecimal. The server keeps its SHA-256. That is enough for a
//! secret that nobody can guess.

use env::StorageError;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use transport::{Address, Invitation};
use types::ObjectName;

use crate::error::{ServerError, TARGET};
use crate::home::Home;
use crate::namespaces::Place;
use crate::refusals::Recorded;
use crate::rights::{Right, Rights};

/// What a token begins with.
const TOKEN: &str = "of1";
/// An invitation is valid for so long.
const INVITED_NANOS: i64 = 7 * 24 * 3600 * 1_000_000_000;

/// An invitation, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Invite {
    hash: String,
    namespace: String,
    rights: String,
    /// The last moment, in nanoseconds since 1970.
    until: i64,
    /// The last moment of the token, if it has one.
    token_until: Option<i64>,
}

/// A token, as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TokenInfo {
    hash: String,
    /// The namespace that it is for.
    pub namespace: String,
    /// Its rights, separated by commas.
    pub rights: String,
    /// The machine that joined with it.
    pub label: String,
    /// When it was made, in nanoseconds since 1970.
    pub made: i64,
    /// Its last moment, if it has one.
    pub until: Option<i64>,
}

/// A new invitation.
#[derive(Debug)]
pub struct Invited {
    /// For the machine that is to join.
    pub invitation: Invitation,
    /// Its last moment, in nanoseconds since 1970.
    pub until: i64,
}

/// A machine that has joined: its token, namespace and rights.
pub(crate) struct Joined {
    pub(crate) token: String,
    pub(crate) namespace: String,
    pub(crate) rights: String,
}

#[derive(Default, Serialize)]
struct Event<'a> {
    event: &'a str,
    about: &'a str,
    /// Why the server refused, of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The address of the client, of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    /// Refusals of this address since the last one that has a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    unrecorded: Option<u64>,
}

fn hexed(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash(secret: &str) -> String {
    hexed(digest(&SHA256, secret.as_bytes()).as_ref())
}

/// Whether two hashes are equal. Takes equally long whatever they are.
fn is_equal(one: &str, other: &str) -> bool {
    let differs = one
        .bytes()
        .zip(other.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differs == 0
}

/// Letters of a text from a client that the audit keeps.
const AUDIT_LETTERS_MAX: usize = 64;

/// Ends the name of a record of a refusal, ...
const REFUSED: &str = "-refused";
/// ... of which so many are kept, and some more for a while.
const REFUSALS_MAX: usize = if cfg!(test) { 50 } else { 10_000 };

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
}

impl Home {
    fn random(&self, bytes: usize) -> String {
        let mut random = vec![0; bytes];
        self.env.entropy.fill(&mut random);
        hexed(&random)
    }

    fn now(&self) -> i64 {
        self.env.clock.wall().get()
    }

    /// Records an event of security. `about` may come from a client.
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn record_event(&self, event: &str, about: &str) -> Result<(), ServerError> {
        let event = Event {
            event,
            about,
            ..Event::default()
        };
        self.put_event(event, "")
    }

    /// Records that a client at this address was refused, if its turn has come. `about` may come
    /// from the client.
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn record_refusal(&self, event: &str, about: &str, from: &str) -> Result<(), ServerError> {
        let event = Event {
            event,
            about,
            ..Event::default()
        };
        self.record_refused(event, from)
    }

    fn record_refused(&self, event: Event<'_>, from: &str) -> Result<(), ServerError> {
        let Some(Recorded { from, unrecorded }) = self.refusals.count(from, self.env.clock.monotonic())
        else {
            return Ok(());
        };
        let event = Event {
            from: Some(&from),
            unrecorded: (unrecorded > 0).then_some(unrecorded),
            ..event
        };
        self.put_event(event, REFUSED)?;
        if self.refusals.is_untidy() {
            self.delete_old_refusals()?;
        }
        Ok(())
    }

    /// Anybody can cause refusals, and their records must not fill the disk.
    fn delete_old_refusals(&self) -> Result<(), ServerError> {
        let mut names: Vec<ObjectName> = { self.env.storage.list("audit")?.into_iter() }
            .map(|meta| meta.name)
            .filter(|name| name.as_str().ends_with(REFUSED))
            .collect();
        names.sort_unstable();
        let old = names.len().saturating_sub(REFUSALS_MAX);
        for name in &names[..old] {
            match self.env.storage.delete(name) {
                // Another thread deletes them too.
                Err(StorageError::NotFound { .. }) => {}
                deleted => deleted?,
            }
        }
        Ok(())
    }

    fn put_event(&self, event: Event<'_>, suffix: &str) -> Result<(), ServerError> {
        let kept = event.about.chars().filter(|c| !c.is_control());
        let about: &str = &kept.take(AUDIT_LETTERS_MAX).collect::<String>();
        let Event {
            event: what,
            reason,
            from,
            ..
        } = event;
        tracing::info!(target: TARGET, event = what, about, reason, from, "audit");
        let name = format!("audit/{:020}-{}{suffix}", self.now().max(0), self.random(4));
        self.put_record(&name, &Event { about, ..event })
    }

    /// Invites a machine into the namespace of the address, with these rights. Makes the namespace
    /// if it does not exist, in the first tenant. The token will be valid for so many nanoseconds.
    ///
    /// # Errors
    /// `Refused` for a right that means nothing in the namespace; of the storage.
    pub fn invite(
        &self,
        address: Address,
        rights: Rights,
        token_nanos: Option<i64>,
    ) -> Result<Invited, ServerError> {
        let is_vault = self.place_of(&address.namespace)? == Some(Place::Vault);
        if rights.has(Right::Maintain) && !is_vault {
            return Err(ServerError::Refused(format!(
                "the right to maintain is for vaults, and {} is none (`onefold server namespace add --vault`)",
                address.namespace
            )));
        }
        self.ensure_namespace(&address.namespace, None)?;
        let (id, secret, now) = (self.random(8), self.random(32), self.now());
        let until = now.saturating_add(INVITED_NANOS);
        let invite = Invite {
            hash: hash(&secret),
            namespace: address.namespace.clone(),
            rights: rights.to_string(),
            until,
            token_until: token_nanos.map(|nanos| now.saturating_add(nanos)),
        };
        self.put_record(&format!("invitations/{id}"), &invite)?;
        self.record_event("invite", &format!("{} {rights}", address.namespace))?;
        let pin = self.authority()?.pin()?;
        Ok(Invited {
            invitation: Invitation {
                address,
                pin,
                code: format!("{id}_{secret}"),
            },
            until,
        })
    }

    /// The invitation with this code, which is used from now on. Of many that try at once, one
    /// succeeds. The client learns no more than that the server refuses; the audit has the reason.
    fn spend(&self, code: &str, from: &str) -> Result<Invite, ServerError> {
        let refused = |id: &str, reason| {
            let event = Event {
                event: "refused invitation",
                about: id,
                reason: Some(reason),
                ..Event::default()
            };
            let recorded = self.record_refused(event, from);
            recorded.err().unwrap_or_else(|| {
                ServerError::Refused(
                    "the invitation is unknown, used, or too old; ask for a new one (`onefold server invite`)"
                        .to_owned(),
                )
            })
        };
        // The text may be a secret: none of it is recorded.
        let parts = code.split_once('_').filter(|(id, _)| is_word(id));
        let (id, secret) = parts.ok_or_else(|| refused("", "malformed"))?;
        let invite: Option<Invite> = self.record(&format!("invitations/{id}"))?;
        let invite = invite.ok_or_else(|| refused(id, "unknown"))?;
        if !is_equal(&invite.hash, &hash(secret)) {
            return Err(refused(id, "wrong secret"));
        }
        if self.now() > invite.until {
            return Err(refused(id, "too old"));
        }
        match self.put(&format!("spent/{id}"), &[]) {
            Err(ServerError::Storage(StorageError::AlreadyExists { .. })) => Err(refused(id, "used already")),
            spent => spent.map(|()| invite),
        }
    }

    /// Trades an invitation's code for a token, for a client at this address. Of many that try at
    /// once, one succeeds.
    pub(crate) fn join(&self, code: &str, label: &str, from: &str) -> Result<Joined, ServerError> {
        let invite = self.spend(code, from)?;
        let now = self.now();
        let (token, secret) = (self.random(8), self.random(32));
        let label: String = label.chars().filter(|c| !c.is_control()).take(200).collect();
        let info = TokenInfo {
            hash: hash(&secret),
            namespace: invite.namespace.clone(),
            rights: invite.rights.clone(),
            label,
            made: now,
            until: invite.token_until,
        };
        self.put_record(&format!("tokens/{token}"), &info)?;
        self.record_event("join", &format!("{token} {} {}", info.namespace, info.label))?;
        Ok(Joined {
            token: format!("{TOKEN}_{token}_{secret}"),
            namespace: invite.namespace,
            rights: invite.rights,
        })
    }

    /// The id and the rights of a token for this namespace. `None` if it has no access.
    pub(crate) fn login(
        &self,
        token: &str,
        namespace: &str,
    ) -> Result<Option<(String, Rights)>, ServerError> {
        let mut parts = token.split('_');
        let (Some(TOKEN), Some(id), Some(secret), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Ok(None);
        };
        if !is_word(id) {
            return Ok(None);
        }
        let Some(info) = self.record::<TokenInfo>(&format!("tokens/{id}"))? else {
            return Ok(None);
        };
        let is_valid = is_equal(&info.hash, &hash(secret))
            && info.namespace == namespace
            && info.until.is_none_or(|until| self.now() <= until);
        Ok(is_valid
            .then(|| info.rights.parse().ok())
            .flatten()
            .map(|rights| (id.to_owned(), rights)))
    }

    /// All tokens, by id.
    ///
    /// # Errors
    /// Of the storage; `Damaged`.
    pub fn tokens(&self) -> Result<Vec<(String, TokenInfo)>, ServerError> {
        self.records("tokens")
    }

    /// Ends a token. Connections that it opened end with their next request, and idle ones within
    /// some seconds.
    ///
    /// # Errors
    /// `Refused` if there is none; of the storage.
    pub fn revoke(&self, id: &str) -> Result<(), ServerError> {
        let none = || {
            ServerError::Refused(format!(
                "there is no token {id}; `onefold server token list` shows them"
            ))
        };
        if !is_word(id) {
            return Err(none());
        }
        match self.env.storage.delete(&ObjectName::new(format!("tokens/{id}"))?) {
            Err(StorageError::NotFound { .. }) => return Err(none()),
            deleted => deleted?,
        }
        self.env.storage.barrier()?;
        self.record_event("revoke", id)
    }

    /// Whether a token that has logged in still exists.
    pub(crate) fn is_valid(&self, id: &str) -> Result<bool, ServerError> {
        let info = self.record::<TokenInfo>(&format!("tokens/{id}"))?;
        Ok(info.is_some_and(|info| info.until.is_none_or(|until| self.now() <= until)))
    }
}
