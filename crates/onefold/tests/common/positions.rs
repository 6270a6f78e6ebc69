//! The positions of streams in the checkpoints of a store.

use crypto::Credential;
use format::frame::ObjectKind;
use format::session::Checkpoint;
use object::config;
use types::ObjectName;

use super::Process;

/// Whether a checkpoint has a position of at least this many bytes.
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
