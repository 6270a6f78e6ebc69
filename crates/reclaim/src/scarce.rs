//! What a run does on a disk that is full.

use env::StorageError;
use object::ObjectError;
use session::{Session, SessionError};

use crate::error::Result;

/// Fails where there is no room for a heartbeat: then others find none for their answers, and
/// waiting for those is in vain. Who has a reserve gives it up, and goes on.
pub(crate) fn ensure_room_to_answer(session: &Session) -> Result<()> {
    match session.tick() {
        Err(
            error @ (SessionError::Storage(StorageError::NoSpace { .. })
            | SessionError::Object(ObjectError::Storage(StorageError::NoSpace { .. }))),
        ) => Err(error.into()),
        // The next tick may do; whether the session is over is asked elsewhere.
        Ok(_) | Err(_) => Ok(()),
    }
}
