//! Operations on backups that the server runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onefold::calls::{Call, Report};
use onefold::errors::RestoreError;
use onefold::{Clock, Error, Monitor, Warning, WorkUnit};
use wire::{Wire, request};

use crate::connection::Connection;
use crate::error::ClientError;

/// How often the client looks whether its user has asked to stop.
const LOOK: Duration = Duration::from_millis(100);
/// How long a client rests before it asks for a place again, at most, in seconds.
const REST_MAX_S: u32 = 15;

/// What a server did with a call.
#[derive(Debug)]
pub(crate) enum Called {
    /// It ran the operation.
    Done(Box<Report>),
    /// It has no place for the operation now, and did nothing. The reason.
    Busy(ClientError),
}

/// Runs the operation on the server, and shows how far it is. After an error the caller must close
/// the connection, and then the server stops the operation.
pub(crate) fn call(connection: &Connection, call: &Call, monitor: &Monitor) -> onefold::Result<Called> {
    let protocol = |error: serde_json::Error| ClientError::Protocol(error.to_string());
    let body = serde_json::to_vec(call).map_err(protocol)?;
    let number = connection.begin_with(request::CALL, &body)?;
    let answer = loop {
        let (answer, progress) = connection.inbox.answer_within(number, LOOK);
        if let Some(progress) = progress {
            let unit = WorkUnit::from_number(progress.unit).unwrap_or_default();
            monitor.follow(unit, progress.done, progress.total);
        }
        match answer {
            Some(Err(busy)) if busy.is_busy() => return Ok(Called::Busy(busy)),
            Some(answer) => break answer?,
            None => {}
        }
        if monitor.cancel().load(Ordering::Relaxed) {
            return Err(Error::Restore(RestoreError::Interrupted));
        }
    };
    let (report, notes) =
        <(Vec<u8>, Vec<String>)>::from_bytes(&answer).map_err(|error| ClientError::protocol(&error))?;
    for why in notes {
        monitor.add_note(Warning::Server { why });
    }
    let report: Report = serde_json::from_slice(&report).map_err(protocol)?;
    Ok(Called::Done(Box::new(report)))
}

/// Rests before the next attempt, longer each time: the server has no place for the operation, and
/// those before it may take hours.
pub(crate) fn rest(clock: &dyn Clock, attempt: u32, cancel: &AtomicBool) {
    let until = clock.monotonic() + Duration::from_secs(attempt.min(REST_MAX_S).into());
    while clock.monotonic() < until && !cancel.load(Ordering::Relaxed) {
        clock.sleep(LOOK);
    }
}
