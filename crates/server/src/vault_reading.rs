//! Sends bytes of a vault's objects, in parts as long as there is memory for ([`crate::memory`]).
//!
//! A token without the right to read gets no region that may hold content. Where the regions of a
//! container end is plain, in its footer. A backup needs what follows them: the catalog.

use std::ops::Range;

use env::{ObjectMeta, Storage, StorageError};
use format::container::{ContainerFooter, FOOTER_BYTES};
use format::names;
use transport::TransportError;
use types::{ByteRange, ContainerKind, ObjectName};
use wire::{GOT_BYTES_MAX, Refusal, WantedBytes};

use crate::peer::{failed, not_allowed};
use crate::rights::Rights;
use crate::shares::Answer;
use crate::vault::refusal;
use crate::vault_rights::{Readable, readable};

/// Bytes of a part for which there is no memory, and of a range that needs none.
const FEW_BYTES: u64 = 128 << 10;

/// Reads objects for a client with these rights.
pub(crate) struct Bytes<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) rights: Rights,
}

/// The bytes to send.
struct Plan {
    meta: ObjectMeta,
    range: Range<u64>,
    /// The bytes before this one are sent as zeros.
    open_from: u64,
    /// The answer begins with the object's length.
    tells_len: bool,
}

impl Bytes<'_> {
    /// Answers with the wanted bytes of an object.
    pub(crate) fn send(
        &self,
        mut answer: Answer<'_>,
        name: &ObjectName,
        wanted: WantedBytes,
    ) -> Result<(), TransportError> {
        let plan = match self.plan(name, wanted) {
            Ok(plan) => plan,
            Err(refusal) => return answer.refuse(&refusal),
        };
        let len = plan.range.end.saturating_sub(plan.range.start);
        // The bytes as they were read, the part, and its frame.
        let memory = (len > FEW_BYTES).then(|| answer.memory(3 * len.min(GOT_BYTES_MAX as u64)));
        let part_bytes = match memory {
            Some(None) => FEW_BYTES,
            _ => GOT_BYTES_MAX as u64,
        };
        let mut at = plan.range.start;
        let mut part = Vec::new();
        if plan.tells_len {
            part.extend_from_slice(&plan.meta.len.to_le_bytes());
        }
        loop {
            let until = plan.range.end.min(at + part_bytes);
            if let Err(refusal) = self.append(&plan, at..until, &mut part) {
                return answer.refuse(&refusal);
            }
            at = until;
            if at == plan.range.end {
                break;
            }
            answer.part(&part)?;
            part.clear();
        }
        // Another object of the same name may have come between two parts.
        match self.storage.head(name) {
            Ok(meta) if meta.len == plan.meta.len && meta.put_at == plan.meta.put_at => answer.end(&part),
            Ok(_) => answer.refuse(&failed(format!("{name}: was changed while it was read"))),
            Err(error) => answer.refuse(&refusal(&error)),
        }
    }

    fn plan(&self, name: &ObjectName, wanted: WantedBytes) -> Result<Plan, Refusal> {
        let meta = self.storage.head(name).map_err(|error| refusal(&error))?;
        let open_from = self.open_from(name, &meta)?;
        let range = match wanted {
            WantedBytes::All => 0..meta.len,
            WantedBytes::Range(range) => {
                let end = range.offset.checked_add(range.len);
                let past_end = || {
                    refusal(&StorageError::PastEnd {
                        name: name.clone(),
                        len: meta.len,
                        end: range.end(),
                    })
                };
                range.offset..end.filter(|end| *end <= meta.len).ok_or_else(past_end)?
            }
            WantedBytes::Tail(len) => meta.len.saturating_sub(len)..meta.len,
        };
        let tells_len = matches!(wanted, WantedBytes::Tail(_));
        // The end of a container is asked for before its length is known.
        if range.start < open_from && !tells_len {
            return Err(self.no_right(name));
        }
        Ok(Plan {
            meta,
            range,
            open_from,
            tells_len,
        })
    }

    fn no_right(&self, name: &ObjectName) -> Refusal {
        not_allowed(format!(
            "this machine's token may not read the content of {name}: this needs the right to read; it has: {}",
            self.rights
        ))
    }

    /// The first byte of the object that the client may read.
    fn open_from(&self, name: &ObjectName, meta: &ObjectMeta) -> Result<u64, Refusal> {
        match readable(name, self.rights) {
            Readable::All => return Ok(0),
            Readable::Nothing => return Err(self.no_right(name)),
            Readable::Trailer => {}
        }
        let (footer, _) = self
            .storage
            .get_tail(name, FOOTER_BYTES as u64)
            .map_err(|error| refusal(&error))?;
        // What is no container has no part that a backup needs.
        let Ok((footer, header)) = ContainerFooter::read_alone(&footer, meta.len) else {
            return Ok(meta.len);
        };
        let named = names::parse_container(name).map(|(id, _)| id.kind);
        Ok(match named.unwrap_or(header.id.kind) {
            ContainerKind::Recipe | ContainerKind::Catalog => 0,
            _ => footer.catalog_offset,
        })
    }

    /// Appends bytes of the object.
    fn append(&self, plan: &Plan, wanted: Range<u64>, into: &mut Vec<u8>) -> Result<(), Refusal> {
        let open = wanted.start.max(plan.open_from).min(wanted.end)..wanted.end;
        let hidden = usize::try_from(open.start - wanted.start).map_err(failed)?;
        into.resize(into.len() + hidden, 0);
        let range = ByteRange {
            offset: open.start,
            len: open.end - open.start,
        };
        let bytes = self.storage.get_range(&plan.meta.name, range);
        into.extend_from_slice(&bytes.map_err(|error| refusal(&error))?);
        Ok(())
    }
}
