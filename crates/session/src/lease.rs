//! Leases: one process at a time does a certain kind of work.
//!
//! The highest claim `lease/<role>.<n>` counts and is never deleted. A holder that finds a higher
//! claim has lost the lease. A lease saves work, never data: two processes may do the work at once
//! without harm. So claiming and releasing wait for no barrier. Lower claims are deleted when a
//! barrier that the holder needed anyway has covered its own claim: a power cut may restore an
//! earlier lease, but never leaves no claim. A holder that has ended or is dead can be replaced.
//! May be called from many threads.

use std::collections::BTreeMap;

use format::names::{self, LeaseRole};
use format::session::Lease;
use types::{ObjectName, Revision, SessionId};

use crate::error::{Result, SessionError};
use crate::objects::{Put, Read};
use crate::session::Session;
use crate::session_table::SessionTable;
use crate::watch::Life;

/// How often to try again if other sessions take the claim.
const CLAIMS_MAX: usize = 16;

/// A lease, held until another session puts a higher claim. Dropping it releases nothing:
/// [`HeldLease::release`] does, or the end of the session.
#[derive(Debug)]
pub struct HeldLease {
    session: Session,
    role: LeaseRole,
    number: Revision,
}

impl Session {
    /// Claims a lease.
    ///
    /// # Errors
    /// `LeaseTaken` if a session that may be alive holds it (call again later, because it may take
    /// time to show whether that session is alive); those of [`Session::ensure_running`];
    /// `Contended`; of the storage.
    pub fn acquire_lease(&self, role: LeaseRole) -> Result<HeldLease> {
        self.ensure_running()?;
        for _ in 0..CLAIMS_MAX {
            let highest = highest(self, role)?;
            if let Some((number, lease)) = &highest
                && let Some(holder) = self.holds(lease.as_ref())?
            {
                let taken = SessionError::LeaseTaken { role, holder };
                return if highest_number(self, role)? == Some(*number) {
                    Err(taken)
                } else {
                    continue;
                };
            }
            let number = match highest {
                None => Revision::FIRST,
                Some((Revision::MAX, _)) => {
                    return Err(SessionError::Contended {
                        name: names::lease(role, Revision::MAX).to_string(),
                    });
                }
                Some((number, _)) => number.next(),
            };
            let lease = Lease {
                holder: self.id(),
                released: false,
            };
            if self.inner.objects.put(&names::lease(role, number), &lease)? == Put::Created {
                let held = HeldLease {
                    session: self.clone(),
                    role,
                    number,
                };
                if held.is_held()? {
                    return Ok(held);
                }
            }
        }
        Err(SessionError::Contended {
            name: format!("{}/{}", names::LEASE_FOLDER, role.word()),
        })
    }

    /// The holder of this lease, if it may be alive. An unreadable claim has no holder: a crash of
    /// its writer tore it.
    fn holds(&self, lease: Option<&Lease>) -> Result<Option<SessionId>> {
        let Some(lease) = lease.filter(|lease| !lease.released) else {
            return Ok(None);
        };
        if lease.holder == self.id() {
            return Ok(Some(lease.holder));
        }
        let Some(info) = SessionTable::one(self.inner.objects.sealer(), lease.holder)? else {
            return Ok(None);
        };
        let dead = matches!(self.inner.watch.observe(&info), Life::Dead(_));
        Ok((!dead).then_some(lease.holder))
    }
}

impl HeldLease {
    /// Whether no session has put a higher claim. Call it before each step that others should not
    /// repeat.
    ///
    /// # Errors
    /// Those of [`Session::ensure_running`]; of the storage.
    pub fn is_held(&self) -> Result<bool> {
        self.session.ensure_running()?;
        Ok(highest_number(&self.session, self.role)? == Some(self.number))
    }

    /// Releases the lease. If another session has taken it meanwhile, it does nothing. A power cut
    /// may undo the release. The holder has then ended, or is found dead.
    ///
    /// # Errors
    /// Of the storage. The end of the session then releases it.
    pub fn release(self) -> Result<()> {
        if self.number == Revision::MAX || highest_number(&self.session, self.role)? != Some(self.number) {
            return Ok(());
        }
        let released = Lease {
            holder: self.session.id(),
            released: true,
        };
        let name = names::lease(self.role, self.number.next());
        self.session.inner.objects.put(&name, &released)?;
        Ok(())
    }

    /// The role of the lease.
    #[must_use]
    pub fn role(&self) -> LeaseRole {
        self.role
    }

    /// Deletes claims below this one. Call it after a barrier since the acquisition: the highest
    /// durable claim is never deleted.
    ///
    /// # Errors
    /// Of the storage. Remaining claims do no harm, and the next holder deletes them.
    pub fn drop_lower(&self) -> Result<()> {
        for (number, name) in claims(&self.session, self.role)? {
            if number < self.number {
                self.session.inner.objects.delete(&name)?;
            }
        }
        Ok(())
    }
}

fn claims(session: &Session, role: LeaseRole) -> Result<BTreeMap<Revision, ObjectName>> {
    let listed = session.inner.objects.storage().list(names::LEASE_FOLDER)?;
    let parsed = listed
        .into_iter()
        .filter_map(|meta| Some((names::parse_lease(&meta.name)?, meta.name)));
    Ok(parsed
        .filter(|((of, _), _)| *of == role)
        .map(|((_, number), name)| (number, name))
        .collect())
}

fn highest_number(session: &Session, role: LeaseRole) -> Result<Option<Revision>> {
    Ok(claims(session, role)?.into_keys().next_back())
}

/// The highest claim, and its content if it can be read.
fn highest(session: &Session, role: LeaseRole) -> Result<Option<(Revision, Option<Lease>)>> {
    for _ in 0..CLAIMS_MAX {
        let Some((number, name)) = claims(session, role)?.into_iter().next_back() else {
            return Ok(None);
        };
        match session.inner.objects.read::<Lease>(&name)? {
            Read::Whole(lease) => return Ok(Some((number, Some(lease)))),
            Read::Damaged(_) => return Ok(Some((number, None))),
            // It was superseded and deleted since it was listed.
            Read::Missing => {}
        }
    }
    Err(SessionError::Contended {
        name: names::LEASE_FOLDER.to_owned(),
    })
}
