//! The parts of names: each number has only one spelling.

use types::{ContainerId, Epoch, Generation, ObjectName, Revision, SequenceNumber, SessionId};

use crate::names::{EPOCH_DIGITS, SEQUENCE_DIGITS, SESSION_DIGITS};

pub(super) fn container_tail(id: ContainerId, generation: Generation) -> String {
    format!(
        "{}/{}.{generation}",
        session_part(id.session),
        sequence_part(id.sequence)
    )
}

pub(super) fn parse_container_tail(tail: &str) -> Option<(SessionId, SequenceNumber, Generation)> {
    let (session, rest) = tail.split_once('/')?;
    let (sequence, generation) = rest.split_once('.')?;
    let generation = Generation::new(plain32(generation)?).ok()?;
    Some((
        parse_session_part(session)?,
        parse_sequence(sequence)?,
        generation,
    ))
}

pub(super) fn session_part(session: SessionId) -> String {
    format!("{:0SESSION_DIGITS$}", session.get())
}

pub(super) fn sequence_part(sequence: SequenceNumber) -> String {
    format!("{:0SEQUENCE_DIGITS$}", sequence.get())
}

pub(super) fn epoch_part(epoch: Epoch) -> String {
    format!("{:0EPOCH_DIGITS$}", epoch.get())
}

/// Parses a session's number in a name.
pub(super) fn parse_session_part(text: &str) -> Option<SessionId> {
    SessionId::new(padded(text, SESSION_DIGITS)?).ok()
}

pub(super) fn parse_sequence(text: &str) -> Option<SequenceNumber> {
    SequenceNumber::new(u32::try_from(padded(text, SEQUENCE_DIGITS)?).ok()?).ok()
}

pub(super) fn parse_epoch(text: &str) -> Option<Epoch> {
    Epoch::new(padded(text, EPOCH_DIGITS)?).ok()
}

pub(super) fn parse_revision(text: &str) -> Option<Revision> {
    Revision::new(plain32(text)?).ok()
}

pub(super) fn under<'a>(name: &'a ObjectName, folder: &str) -> Option<&'a str> {
    name.as_str().strip_prefix(folder)?.strip_prefix('/')
}

/// Parses a number of exactly so many digits.
fn padded(text: &str, digits: usize) -> Option<u64> {
    (text.len() == digits).then(|| digits_only(text))?
}

/// Parses a number without leading zeros.
pub(super) fn plain(text: &str) -> Option<u64> {
    (text == "0" || !text.starts_with('0')).then(|| digits_only(text))?
}

pub(super) fn plain32(text: &str) -> Option<u32> {
    u32::try_from(plain(text)?).ok()
}

/// Parses digits only: `str::parse` alone would accept a leading plus sign.
fn digits_only(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

pub(super) fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}
