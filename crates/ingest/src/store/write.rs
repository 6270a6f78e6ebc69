//! The writers: seal containers and put them into the storage, several at a time.

use std::sync::Arc;

use container::{ContainerBuilder, Containers};

use crate::error::{Failure, Halt, IngestError, caught};
use crate::queue::Sender;
use crate::store::close::{SealedNotice, ToClose};
use crate::store::session::StoreSession;
use crate::workers::Workers;

/// A full container on its way to the writers, who may finish them in any order.
#[derive(Debug)]
pub(crate) struct Submitted {
    /// How many were submitted before it.
    pub(crate) number: u64,
    pub(crate) builder: ContainerBuilder,
}

/// Hands a session's full containers to the store's writers.
pub(crate) struct Writers {
    pub(crate) workers: Workers,
    pub(crate) containers: Containers,
    pub(crate) closer: Sender<ToClose>,
    pub(crate) failure: Arc<Failure>,
    /// The session lives, for other processes too, until its last container is put.
    pub(crate) session: Arc<StoreSession>,
}

impl Writers {
    /// Hands in a container, waiting while the writers are busy and one more container waits.
    ///
    /// # Errors
    /// When the session has failed: its containers would be put for nobody.
    pub(crate) fn submit(&self, submitted: Submitted) -> Result<(), Halt> {
        if self.failure.is_noted() {
            return Err(Halt::Closed);
        }
        let (containers, closer) = (self.containers.clone(), self.closer.clone());
        let (failure, session) = (Arc::clone(&self.failure), Arc::clone(&self.session));
        self.workers.submit(move || {
            failure.note(caught(|| write(&containers, &closer, &failure, submitted)));
            drop(session);
        })?;
        Ok(())
    }
}

fn write(
    containers: &Containers,
    closer: &Sender<ToClose>,
    failure: &Failure,
    Submitted { number, builder }: Submitted,
) -> Result<(), Halt> {
    if failure.is_noted() {
        return Err(Halt::Closed);
    }
    let sealed = builder.seal(containers).map_err(IngestError::from)?;
    containers.put(&sealed).map_err(IngestError::from)?;
    let notice = SealedNotice {
        number,
        catalog: sealed.catalog(),
        stored_bytes: sealed.stored_bytes_total(),
    };
    closer.send(ToClose::Sealed(notice))?;
    Ok(())
}
