//! A storage that reports each operation to `tracing`: the action, the object, the number of bytes,
//! the duration, and the error if there was one.
//!
//! Operations that change or lock something are debug events, and those that only read are trace
//! events, all with the target [`TARGET`]. An event has names and lengths, but never an object's
//! bytes. Without a subscriber that wants the event, an operation costs one more atomic load, and
//! no clock is read.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tracing::{Level, debug, enabled, trace};
use types::{ByteRange, ObjectName};

use crate::{
    AlignedBuffer, Clock, ListingOf, LockState, Moment, ObjectBytes, ObjectMeta, ProcessLock, Storage,
    StorageError,
};

/// The target of all events of the storage.
const TARGET: &str = "onefold::storage";

/// Returns the number of bytes to log for an operation, from its result.
type BytesOf<T> = fn(&T) -> Option<u64>;

/// A storage whose operations are logged.
#[derive(Debug)]
pub struct LoggedStorage {
    inner: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
}

impl LoggedStorage {
    /// Logs the operations of `inner`. `clock` measures the durations.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, clock }
    }

    /// Runs an operation that changes, locks or waits.
    fn change<T>(
        &self,
        what: &'static str,
        object: &dyn Display,
        bytes: Option<u64>,
        run: impl FnOnce(&dyn Storage) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        if !enabled!(target: TARGET, Level::DEBUG) {
            return run(&*self.inner);
        }
        let (done, took) = self.timed(run);
        let error = done.as_ref().err().map(tracing::field::display);
        debug!(target: TARGET, %object, bytes, ?took, error, "{what}");
        done
    }

    /// Runs an operation that only reads.
    fn read<T>(
        &self,
        what: &'static str,
        object: &dyn Display,
        bytes_of: BytesOf<T>,
        run: impl FnOnce(&dyn Storage) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        if !enabled!(target: TARGET, Level::TRACE) {
            return run(&*self.inner);
        }
        let (done, took) = self.timed(run);
        let bytes = done.as_ref().ok().and_then(bytes_of);
        let error = done.as_ref().err().map(tracing::field::display);
        trace!(target: TARGET, %object, bytes, ?took, error, "{what}");
        done
    }

    /// Like [`Self::read`], for a range of the object.
    fn read_range<T>(
        &self,
        name: &ObjectName,
        range: ByteRange,
        run: impl FnOnce(&dyn Storage) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        if !enabled!(target: TARGET, Level::TRACE) {
            return run(&*self.inner);
        }
        let (done, took) = self.timed(run);
        let error = done.as_ref().err().map(tracing::field::display);
        let ByteRange { offset, len } = range;
        trace!(target: TARGET, object = %name, offset, bytes = len, ?took, error, "get range");
        done
    }

    fn timed<T>(&self, run: impl FnOnce(&dyn Storage) -> T) -> (T, Duration) {
        let began = self.clock.monotonic();
        let done = run(&*self.inner);
        (done, self.clock.monotonic().saturating_sub(began))
    }
}

/// The length as a count of bytes.
fn len(bytes: &[u8]) -> Option<u64> {
    Some(bytes.len() as u64)
}

/// The store's own folder has no name.
fn shown(folder: &str) -> &str {
    if folder.is_empty() { "/" } else { folder }
}

/// Names with spaces in between.
struct Names<'a>(&'a [ObjectName]);

impl Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            let space = if at > 0 { " " } else { "" };
            write!(f, "{space}{name}")?;
        }
        Ok(())
    }
}

impl Storage for LoggedStorage {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        self.change("put", name, Some(bytes), |inner| inner.put(name, parts))
    }

    fn barrier(&self) -> Result<(), StorageError> {
        self.change("barrier", &shown(""), None, |inner| inner.barrier())
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.read("get", name, |bytes| len(bytes), |inner| inner.get(name))
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.read_range(name, range, |inner| inner.get_range(name, range))
    }

    fn get_range_into(
        &self,
        name: &ObjectName,
        range: ByteRange,
        into: &mut AlignedBuffer,
    ) -> Result<Range<usize>, StorageError> {
        self.read_range(name, range, |inner| inner.get_range_into(name, range, into))
    }

    fn get_tail(&self, name: &ObjectName, bytes: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.read(
            "get tail",
            name,
            |(tail, _)| len(tail),
            |inner| inner.get_tail(name, bytes),
        )
    }

    fn map(&self, name: &ObjectName) -> Result<ObjectBytes, StorageError> {
        self.read("map", name, |bytes| len(bytes), |inner| inner.map(name))
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.read("head", name, |meta| Some(meta.len), |inner| inner.head(name))
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.read("list", &shown(folder), |_| None, |inner| inner.list(folder))
    }

    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        self.read(
            "list some",
            &shown(folder),
            |_| None,
            |inner| inner.list_in(folder, sub_folders),
        )
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.read(
            "list folders",
            &shown(folder),
            |_| None,
            |inner| inner.list_folders(folder),
        )
    }

    fn is_far(&self) -> bool {
        self.inner.is_far()
    }

    fn identity(&self) -> Option<String> {
        self.inner.identity()
    }

    fn moment(&self) -> Moment {
        self.inner.moment()
    }

    fn look_ahead(&self, all: &[ListingOf<'_>]) {
        let looked = self.read(
            "look ahead",
            &format_args!("{} listings", all.len()),
            |()| None,
            |inner| {
                inner.look_ahead(all);
                Ok(())
            },
        );
        debug_assert!(looked.is_ok(), "looking ahead reports no errors");
    }

    fn list_since(&self, folder: &str, since: Moment) -> Result<Vec<ObjectMeta>, StorageError> {
        self.read(
            "list",
            &shown(folder),
            |_| None,
            |inner| inner.list_since(folder, since),
        )
    }

    fn list_folders_since(&self, folder: &str, since: Moment) -> Result<Vec<String>, StorageError> {
        self.read(
            "list folders",
            &shown(folder),
            |_| None,
            |inner| inner.list_folders_since(folder, since),
        )
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.change("delete", name, None, |inner| inner.delete(name))
    }

    fn delete_many(&self, names: &[ObjectName]) -> Result<(), StorageError> {
        self.change("delete many", &Names(names), None, |inner| {
            inner.delete_many(names)
        })
    }

    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        self.read("can trim", name, |_| None, |inner| inner.can_trim(name))
    }

    fn trim(&self, from: &ObjectName, to: &ObjectName, ranges: &[ByteRange]) -> Result<bool, StorageError> {
        let bytes = ranges.iter().map(|range| range.len).sum();
        self.change("trim", from, Some(bytes), |inner| inner.trim(from, to, ranges))
    }

    fn drop_folder(&self, folder: &str) -> Result<(), StorageError> {
        self.change("drop folder", &shown(folder), None, |inner| {
            inner.drop_folder(folder)
        })
    }

    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.change("lock", name, None, |inner| inner.lock(name))
    }

    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.read("lock state", name, |_| None, |inner| inner.lock_state(name))
    }

    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.change("drop lock", name, None, |inner| inner.drop_lock(name))
    }

    fn drop_cached(&self, name: &ObjectName) -> bool {
        self.inner.drop_cached(name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};
    use types::UnixNanos;

    use super::*;
    use crate::{MemoryStorage, SystemClock};

    /// A clock that nobody may read.
    #[derive(Debug)]
    struct NoClock;

    impl Clock for NoClock {
        fn wall(&self) -> UnixNanos {
            unreachable!("the wall clock is not read")
        }

        fn monotonic(&self) -> Duration {
            unreachable!("nobody listens: no duration is measured")
        }

        fn monotonic_with_suspend(&self) -> Duration {
            unreachable!("nobody listens: no duration is measured")
        }

        fn sleep(&self, _: Duration) {}
    }

    /// The fields of each event, as text.
    #[derive(Debug, Default, Clone)]
    struct Listener(Arc<Mutex<Vec<String>>>);

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            if field.name() != "took" {
                self.0.push_str(&format!("{}={value:?} ", field.name()));
            }
        }
    }

    impl Subscriber for Listener {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == TARGET
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut text = format!("{} ", event.metadata().level());
            event.record(&mut Fields(&mut text));
            self.0.lock().unwrap().push(text.trim_end().to_owned());
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_logged_storage_is_a_storage_and_reads_no_clock_for_nobody() {
        crate::conformance::check(&LoggedStorage::new(
            Arc::new(MemoryStorage::new()),
            Arc::new(NoClock),
        ));
    }

    #[test]
    fn every_operation_is_one_event_without_bytes_of_objects() {
        let listener = Listener::default();
        let storage = LoggedStorage::new(Arc::new(MemoryStorage::new()), Arc::new(SystemClock));
        let name = ObjectName::new("folder/name").unwrap();
        tracing::subscriber::with_default(listener.clone(), || {
            storage.put(&name, &[b"secret", b"!"]).unwrap();
            assert_eq!(storage.get(&name).unwrap(), b"secret!");
            storage.get_range(&name, ByteRange { offset: 2, len: 3 }).unwrap();
            storage.list("folder").unwrap();
            storage.delete(&name).unwrap();
            storage.head(&name).unwrap_err();
        });
        let told = listener.0.lock().unwrap().clone();
        let error = &told[5];
        assert!(error.starts_with("TRACE") && error.contains("error="), "{error}");
        assert_eq!(
            told[..5],
            [
                "DEBUG message=put object=folder/name bytes=7",
                "TRACE message=get object=folder/name bytes=7",
                "TRACE message=get range object=folder/name offset=2 bytes=3",
                "TRACE message=list object=folder",
                "DEBUG message=delete object=folder/name",
            ]
        );
    }
}
