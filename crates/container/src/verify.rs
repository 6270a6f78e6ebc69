//! Deep checks of every copy and every region of a container, with a finding for each damage; or
//! checks of digests only, which need no key.
//!
//! A check reads whole objects in windows of some MiB, so memory is limited whatever the object's
//! size (INV-7). Damage and unreadable sectors are findings. Only a storage that refuses or is gone
//! is an error.

use std::cell::RefCell;
use std::ops::Range;

use env::{AlignedBuffer, Storage, StorageError};
use format::container::{HEADER_BYTES, RegionRow};
use format::wire;
use types::{ByteRange, ContainerId, Generation, RegionIndex, SlotRange, StoreId};

use crate::buffer::PlainBuffer;
use crate::chunks::compare;
use crate::containers::Containers;
use crate::error::{ContainerError, Part};
use crate::generations::is_absent;
use crate::identity::{CopyOf, Identity};
use crate::load::{TAIL_GUESS_BYTES, TailBytes, Trailer};
use crate::regions::check_digest;
use crate::view::CatalogView;

mod generations;
mod keyless;
mod lost;
mod object;

pub use keyless::verify_digests;
use object::{Object, entries_of, region_index};

/// Stored bytes read at a time.
const WINDOW_BYTES: u64 = 4 << 20;

/// A thread's buffers for reading and opening. Fresh memory for every container would cost as much
/// as reading it.
struct Scratch {
    stored: AlignedBuffer,
    plain: PlainBuffer,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> =
        RefCell::new(Scratch { stored: AlignedBuffer::with_capacity(0), plain: PlainBuffer::default() });
}

/// The depth of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Digests of all stored bytes: finds rot.
    Digests,
    /// Seals, decompression and every chunk's fingerprint as well: finds malice and defects of the
    /// program.
    Full,
}

/// One damaged part of one copy of a container.
#[derive(Debug)]
pub struct Damage {
    /// The container.
    pub container: ContainerId,
    /// The generation.
    pub generation: Generation,
    /// Which copy.
    pub copy: CopyOf,
    /// The part.
    pub part: Part,
    /// The catalog positions in the part; empty if the whole object is meant.
    pub entries: Range<u32>,
    /// The slots in the part, if the catalog could be opened.
    pub slots: Vec<SlotRange>,
    /// The error.
    pub error: ContainerError,
}

/// The outcome of checking one container.
#[derive(Debug, Default)]
pub struct Verified {
    /// The generation that was checked; `None` if the storage lists no copy of the container.
    pub generation: Option<Generation>,
    /// Regions checked, in all copies.
    pub regions: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// All damage, in the order of the bytes, the main copy first.
    pub damages: Vec<Damage>,
}

impl Verified {
    /// Whether no damage was found.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }
}

struct Scan<'a> {
    storage: &'a dyn Storage,
    /// The copy under check.
    at: Identity,
    /// The object with its regions.
    place: Identity,
    out: &'a mut Verified,
}

impl Scan<'_> {
    fn damage(&mut self, part: Part, entries: Range<u32>, slots: Vec<SlotRange>, error: ContainerError) {
        let Identity { id, generation, copy } = self.at;
        self.out.damages.push(Damage {
            container: id,
            generation,
            copy,
            part,
            entries,
            slots,
            error,
        });
    }

    /// The trailer; `None` if it is damaged or absent, which is recorded.
    fn trailer(&mut self, store: Option<StoreId>) -> Result<Option<Trailer>, ContainerError> {
        let at = self.at;
        let bytes_read = &mut self.out.bytes_read;
        let tail = TailBytes::read(self.storage, at, TAIL_GUESS_BYTES, &mut |bytes| {
            *bytes_read += bytes
        });
        match tail.and_then(|tail| tail.check(at, store)) {
            Ok(trailer) => Ok(Some(trailer)),
            Err(error) if is_absent(&error) => {
                self.damage(
                    Part::Trailer,
                    0..0,
                    Vec::new(),
                    ContainerError::Missing { container: at.id },
                );
                Ok(None)
            }
            Err(error @ ContainerError::Storage(_)) if !error.is_damage() => Err(error),
            Err(error) => {
                self.damage(Part::Trailer, 0..0, Vec::new(), error);
                Ok(None)
            }
        }
    }

    fn digests(&mut self, store: Option<StoreId>) -> Result<(), ContainerError> {
        let Some(trailer) = self.trailer(store)? else {
            return Ok(());
        };
        let object = Object::of(&trailer, self.at);
        if let Some(error) = trailer.take_catalog_error() {
            self.damage(Part::Catalog, 0..0, Vec::new(), error);
        }
        self.regions(&object, None)
    }

    fn full(&mut self, containers: &Containers) -> Result<(), ContainerError> {
        let Some(trailer) = self.trailer(Some(containers.store()))? else {
            return Ok(());
        };
        let object = Object::of(&trailer, self.at);
        match trailer.open(self.at, containers.store(), containers.encryption()) {
            Ok(contents) => {
                let view = CatalogView::of(contents);
                self.regions(&object, Some((containers, &view)))
            }
            Err(error) => {
                self.damage(Part::Catalog, 0..0, Vec::new(), error);
                self.regions(&object, None)
            }
        }
    }

    fn regions(
        &mut self,
        object: &Object,
        open: Option<(&Containers, &CatalogView)>,
    ) -> Result<(), ContainerError> {
        self.place = object.at;
        if self.header(&object.header, object.len)? {
            self.windows(&object.rows, object.len, open)?;
        }
        Ok(())
    }

    /// Checks the header. Returns whether there is an object at all.
    fn header(&mut self, header: &[u8; HEADER_BYTES], object_len: u64) -> Result<bool, ContainerError> {
        let range = ByteRange {
            offset: 0,
            len: HEADER_BYTES as u64,
        };
        let mut bytes = AlignedBuffer::with_capacity(HEADER_BYTES);
        let head = match self.read(range, object_len, &mut bytes)? {
            Read::Bytes(place) => Ok(&bytes[place]),
            Read::Gone => return Ok(false),
            Read::Unreadable(error) => Err(error),
        };
        let damage = match head {
            Ok(head) if head == header.as_slice() => None,
            Ok(head) => Some(ContainerError::DigestMismatch {
                container: self.place.id,
                generation: self.place.generation,
                part: Part::Header,
                offset: 0,
                expected: wire::digest(header),
                found: wire::digest(head),
            }),
            Err(error) => Some(error),
        };
        if let Some(error) = damage {
            self.damage(Part::Header, 0..0, Vec::new(), error);
        }
        Ok(true)
    }

    fn windows(
        &mut self,
        rows: &[RegionRow],
        object_len: u64,
        open: Option<(&Containers, &CatalogView)>,
    ) -> Result<(), ContainerError> {
        let mut next = 0;
        while let Some(first) = rows.get(next) {
            // The region was given back: there is nothing to check.
            if first.entry_count == 0 {
                next += 1;
                continue;
            }
            let far = |row: &RegionRow| {
                row.entry_count == 0 || row.offset + u64::from(row.stored_len) - first.offset > WINDOW_BYTES
            };
            let more = rows[next + 1..]
                .iter()
                .position(far)
                .unwrap_or(rows.len() - next - 1);
            let window = &rows[next..=next + more];
            self.window(window, next, object_len, open)?;
            next += window.len();
        }
        Ok(())
    }

    /// Checks some consecutive regions. If they cannot be read at once, each is read by itself, so
    /// that good ones count as good.
    fn window(
        &mut self,
        rows: &[RegionRow],
        first: usize,
        object_len: u64,
        open: Option<(&Containers, &CatalogView)>,
    ) -> Result<(), ContainerError> {
        let (Some(begin), Some(end)) = (rows.first(), rows.last()) else {
            return Ok(());
        };
        let len = end.offset + u64::from(end.stored_len) - begin.offset;
        let unreadable = SCRATCH.with_borrow_mut(|Scratch { stored, plain }| {
            let range = ByteRange {
                offset: begin.offset,
                len,
            };
            Ok::<_, ContainerError>(match self.read(range, object_len, stored)? {
                Read::Bytes(place) => {
                    self.check_rows(rows, first, &mut stored[place], plain, open);
                    None
                }
                Read::Gone => None,
                Read::Unreadable(error) => Some(error),
            })
        })?;
        match (unreadable, rows) {
            (None, _) => {}
            (Some(error), [row]) => {
                self.out.regions += 1;
                let index = region_index(first);
                let slots = open.map_or_else(Vec::new, |(_, view)| view.slots_in(index));
                self.damage(Part::Region(index), entries_of(row), slots, error);
            }
            (Some(_), rows) => {
                for (number, row) in rows.iter().enumerate() {
                    self.window(std::slice::from_ref(row), first + number, object_len, open)?;
                }
            }
        }
        Ok(())
    }

    fn check_rows(
        &mut self,
        rows: &[RegionRow],
        first: usize,
        bytes: &mut [u8],
        plain: &mut PlainBuffer,
        open: Option<(&Containers, &CatalogView)>,
    ) {
        let mut rest = bytes;
        for (row, number) in rows.iter().zip(first..) {
            let (stored, after) = rest.split_at_mut(row.stored_len as usize);
            rest = after;
            let index = region_index(number);
            self.out.regions += 1;
            match open {
                None => self.check_digest(index, row, stored),
                Some(keys) => self.check_full(keys, index, row, stored, plain),
            }
        }
    }

    fn check_digest(&mut self, index: RegionIndex, row: &RegionRow, stored: &[u8]) {
        if let Err(error) = check_digest(self.place, index, row, stored) {
            self.damage(Part::Region(index), entries_of(row), Vec::new(), error);
        }
    }

    fn check_full(
        &mut self,
        (containers, view): (&Containers, &CatalogView),
        index: RegionIndex,
        row: &RegionRow,
        stored: &mut [u8],
        plain: &mut PlainBuffer,
    ) {
        let part = Part::Region(index);
        plain.clear();
        let whole = check_digest(self.place, index, row, stored);
        let opened = match whole.and_then(|()| containers.open_region(view, index, row, stored, plain)) {
            Ok(opened) => opened,
            Err(error) => return self.damage(part, entries_of(row), view.slots_in(index), error),
        };
        let mut rest = opened.bytes(stored, plain);
        let entries = &view.entries()[view.positions_in(index)];
        let mut chunks = Vec::with_capacity(entries.len());
        for entry in entries {
            let (bytes, after) = rest.split_at(rest.len().min(entry.len as usize));
            rest = after;
            // Fingerprints of nodes cover their children's (INV-5).
            if entry.level.get() == 0 {
                chunks.push(bytes);
            }
        }
        let mut prints = Vec::new();
        containers.fingerprinter().chunks(&chunks, &mut prints);
        let of_chunks = view
            .positions_in(index)
            .zip(entries)
            .filter(|(_, entry)| entry.level.get() == 0);
        for ((position, entry), found) in of_chunks.zip(prints) {
            if let Err(error) = compare(view, entry, index, found) {
                let position = u32::try_from(position).expect("no more entries than slots");
                let slots = vec![SlotRange::one(entry.slot)];
                self.damage(part, position..position + 1, slots, error);
            }
        }
    }

    /// Reads a range of the object. Records if the object has become shorter or is gone.
    fn read(
        &mut self,
        range: ByteRange,
        object_len: u64,
        into: &mut AlignedBuffer,
    ) -> Result<Read, ContainerError> {
        let (container, generation) = (self.at.id, self.at.generation);
        let error = match self.place.read(self.storage, range, into) {
            Ok(place) => {
                self.out.bytes_read += range.len;
                return Ok(Read::Bytes(place));
            }
            Err(StorageError::NotFound { .. }) if self.place.copy == CopyOf::Body => {
                ContainerError::BodyMissing {
                    container,
                    generation,
                    body: self.place.name(),
                }
            }
            Err(StorageError::NotFound { .. }) => ContainerError::Vanished {
                container,
                generation,
            },
            Err(StorageError::PastEnd { .. }) => {
                let why = "the object became shorter while it was read".to_owned();
                ContainerError::Torn {
                    container,
                    generation,
                    offset: range.offset,
                    object_len,
                    why,
                }
            }
            Err(other) => {
                let other = ContainerError::from(other);
                return if other.is_damage() {
                    Ok(Read::Unreadable(other))
                } else {
                    Err(other)
                };
            }
        };
        self.damage(Part::Trailer, 0..0, Vec::new(), error);
        Ok(Read::Gone)
    }
}

/// The result of reading a part of an object.
enum Read {
    /// The place of the bytes.
    Bytes(Range<usize>),
    /// The object is gone or shorter, which is recorded.
    Gone,
    /// The disk cannot read them.
    Unreadable(ContainerError),
}
