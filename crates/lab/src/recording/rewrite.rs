//! What a replay changes in the client's messages: the namespace, and the series of copies.

use std::collections::BTreeMap;
use std::io::BufRead;

use format::FormatError;
use types::SessionId;
use wire::{Begin, Begun, Login, Parents, Wire, reply, request};

use super::file::{Event, Frame, RecordingReader, Side};
use crate::error::LabError;

/// The parents that a server chose for each backup: by connection, and the number of the request.
type Chosen = BTreeMap<(u32, u32), Vec<SessionId>>;

/// Changes of a stream's messages.
#[derive(Debug, Default)]
pub(super) struct Rewrite {
    /// The namespace to log in to; otherwise the recorded one.
    pub(super) namespace: Option<String>,
    /// The first replay of a recording keeps its series. The next ones have series of their own.
    pub(super) copy: usize,
    /// The parents that a copy names. Its own series may have none.
    pub(super) chosen: Chosen,
}

impl Rewrite {
    /// The message to send in place of this one.
    pub(super) fn message(&self, connection: u32, mut frame: Frame) -> Result<Frame, FormatError> {
        match (frame.kind, &self.namespace) {
            (request::LOGIN, Some(namespace)) => {
                let mut login = Login::from_bytes(&frame.body)?;
                login.namespace.clone_from(namespace);
                frame.body = login.to_bytes();
            }
            (request::BEGIN, _) if self.copy > 0 => {
                let mut begin = Begin::from_bytes(&frame.body)?;
                begin.name.host.extend(format!("-{}", self.copy).into_bytes());
                let chosen = self.chosen.get(&(connection, frame.number));
                begin.parents = Parents::Named(chosen.cloned().unwrap_or_default());
                // A server runs one backup with each number.
                begin.attempt = begin.attempt.wrapping_add(self.copy as u64);
                begin.replaces.clear();
                frame.body = begin.to_bytes();
            }
            _ => {}
        }
        Ok(frame)
    }
}

/// Reads the parents of all backups of a recording.
pub(super) fn chosen<R: BufRead>(recording: &mut RecordingReader<R>) -> Result<Chosen, LabError> {
    let (mut asked, mut chosen) = (Vec::new(), Chosen::new());
    while let Some(record) = recording.next_record()? {
        let connection = record.connection;
        match record.event {
            Event::Sent(Side::Client, frame) if frame.kind == request::BEGIN => {
                asked.push((connection, frame.number));
            }
            Event::Sent(Side::Server, frame)
                if frame.kind == reply::ANSWER && asked.contains(&(connection, frame.number)) =>
            {
                let begun = Begun::from_bytes(&frame.body);
                let begun = begun.map_err(|error| recording.wrong(error.to_string()))?;
                let sessions = begun.parents.iter().map(|parent| parent.session);
                chosen.insert((connection, frame.number), sessions.collect());
            }
            _ => {}
        }
    }
    Ok(chosen)
}
