//! The writers' stage: seals containers and puts them into the storage, several at a time.

use container::Containers;

use crate::builders::Submitted;
use crate::close::{SealedNotice, ToClose};
use crate::error::{Halt, IngestError};
use crate::queue::{Receiver, Sender};

/// Runs one writer until no more containers come.
pub(crate) fn run(
    containers: &Containers,
    input: &Receiver<Submitted>,
    closer: &Sender<ToClose>,
) -> Result<(), Halt> {
    while let Ok(Submitted { number, builder }) = input.recv() {
        let sealed = builder.seal(containers).map_err(IngestError::from)?;
        containers.put(&sealed).map_err(IngestError::from)?;
        let notice = SealedNotice {
            number,
            catalog: sealed.catalog(),
            stored_bytes: sealed.stored_bytes_total(),
        };
        closer.send(ToClose::Sealed(notice))?;
    }
    Ok(())
}
