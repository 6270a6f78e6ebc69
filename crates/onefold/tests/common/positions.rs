//! How far the checkpoints of a store say that streams are.

use crypto::Credential;
use format::frame::ObjectKind;
use format::session::Checkpoint;
use object::config;
use types::ObjectName;

use super::Process;

/// Whether a checkpoint says that some stream is at least that far.
pub fn has_position(process: &Process, least: u64) -> bool {
    let opened = config::open(&process.env, Credential::NoPassword).unwrap();
    let sealer = opened.sealer(&process.env);
    process.names("sessions").into_iter().any(|name| {
        let is_it = name.contains("/checkpoint.");
        let name = ObjectName::new(name).unwrap();
        let plain = is_it
            .then(|| sealer.get(&name, ObjectKind::Checkpoint).ok())
            .flatten();
        let checkpoint = plain.and_then(|plain| Checkpoint::decode(&plain).ok());
        checkpoint.is_some_and(|it| it.streams.iter().any(|stream| stream.len >= least))
    })
}
