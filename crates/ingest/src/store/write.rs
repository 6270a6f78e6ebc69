//! The writers' stage: seals containers and puts them into the storage, several at a time.

use container::Containers;

use crate::error::{Failure, Halt, IngestError};
use crate::queue::{Receiver, Sender};
use crate::store::builders::Submitted;
use crate::store::close::{SealedNotice, ToClose};

/// Runs one writer until no more containers come, or a stage has failed: what is on its way then
/// would be put for nobody, and its receiver must go, so that the packer ends.
pub(crate) fn run(
    containers: &Containers,
    input: &Receiver<Submitted>,
    closer: &Sender<ToClose>,
    failure: &Failure,
) -> Result<(), Halt> {
    while let Ok(Submitted { number, builder }) = input.recv() {
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
    }
    Ok(())
}
