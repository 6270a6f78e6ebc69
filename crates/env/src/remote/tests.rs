//! Object stores that are less permissive than the one in memory.

mod cloud;
mod scripted;
mod server;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Mutex;

use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::memory::InMemory;
use object_store::{
    CopyOptions, ListResult, MultipartUpload, PutMultipartOptions, PutOptions, PutResult,
    Result as RemoteResult,
};

use super::*;

type Answer<'a, T> = Pin<Box<dyn Future<Output = RemoteResult<T>> + Send + 'a>>;

/// Refuses what some stores refuse, counts requests, and fails on request.
#[derive(Debug, Default)]
struct Strict {
    inner: InMemory,
    refuses_suffixes: bool,
    /// Overwrites whatever a put asks for.
    ignores_conditions: bool,
    fails: Mutex<Option<fn() -> Error>>,
    /// Puts fail so, after they were carried out.
    loses_answers: Mutex<Vec<fn() -> Error>>,
    gets: Mutex<u32>,
}

impl fmt::Display for Strict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("strict")
    }
}

fn refused() -> Error {
    Error::Generic {
        store: "strict",
        source: "416 Range Not Satisfiable".into(),
    }
}

impl Strict {
    fn failure(&self) -> RemoteResult<()> {
        self.fails
            .lock()
            .unwrap()
            .map_or(Ok(()), |failure| Err(failure()))
    }

    async fn answer_get(&self, path: &Path, options: GetOptions) -> RemoteResult<GetResult> {
        *self.gets.lock().unwrap() += 1;
        self.failure()?;
        if let Some(GetRange::Suffix(_)) = options.range {
            let size = self.inner.head(path).await?.size;
            if self.refuses_suffixes || size == 0 {
                return Err(refused());
            }
        }
        self.inner.get_opts(path, options).await
    }
}

// The trait's own macro is not a dependency. These are the signatures that it makes.
impl ObjectStore for Strict {
    fn put_opts<'a, 'b, 'c>(
        &'a self,
        path: &'b Path,
        payload: PutPayload,
        mut o: PutOptions,
    ) -> Answer<'c, PutResult>
    where
        'a: 'c,
        'b: 'c,
    {
        Box::pin(async move {
            self.failure()?;
            if self.ignores_conditions {
                o.mode = PutMode::Overwrite;
            }
            let put = self.inner.put_opts(path, payload, o).await;
            match self.loses_answers.lock().unwrap().pop() {
                Some(failure) => Err(failure()),
                None => put,
            }
        })
    }

    fn put_multipart_opts<'a, 'b, 'c>(
        &'a self,
        path: &'b Path,
        options: PutMultipartOptions,
    ) -> Answer<'c, Box<dyn MultipartUpload>>
    where
        'a: 'c,
        'b: 'c,
    {
        Box::pin(self.inner.put_multipart_opts(path, options))
    }

    fn get_opts<'a, 'b, 'c>(&'a self, path: &'b Path, options: GetOptions) -> Answer<'c, GetResult>
    where
        'a: 'c,
        'b: 'c,
    {
        Box::pin(self.answer_get(path, options))
    }

    fn get_ranges<'a, 'b, 'd, 'c>(
        &'a self,
        path: &'b Path,
        ranges: &'d [Range<u64>],
    ) -> Answer<'c, Vec<Bytes>>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
    {
        Box::pin(self.inner.get_ranges(path, ranges))
    }

    /// Does not report missing objects, like S3.
    fn delete_stream(
        &self,
        paths: BoxStream<'static, RemoteResult<Path>>,
    ) -> BoxStream<'static, RemoteResult<Path>> {
        let deleted = self.inner.delete_stream(paths);
        deleted
            .map(|outcome| match outcome {
                Err(Error::NotFound { path, .. }) => Ok(Path::from(path)),
                outcome => outcome,
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, RemoteResult<RemoteMeta>> {
        // In an order on which nobody could rely.
        let mut found: Vec<_> = futures::executor::block_on(self.inner.list(prefix).collect());
        found.reverse();
        futures::stream::iter(found).boxed()
    }

    fn list_with_delimiter<'a, 'b, 'c>(&'a self, prefix: Option<&'b Path>) -> Answer<'c, ListResult>
    where
        'a: 'c,
        'b: 'c,
    {
        Box::pin(self.inner.list_with_delimiter(prefix))
    }

    fn copy_opts<'a, 'b, 'd, 'c>(
        &'a self,
        from: &'b Path,
        to: &'d Path,
        options: CopyOptions,
    ) -> Answer<'c, ()>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
    {
        Box::pin(self.inner.copy_opts(from, to, options))
    }
}

fn strict(refuses_suffixes: bool) -> (Arc<Strict>, ObjectStoreStorage) {
    let store = Arc::new(Strict {
        refuses_suffixes,
        ..Strict::default()
    });
    let storage = ObjectStoreStorage::new(Arc::clone(&store) as Arc<dyn ObjectStore>, "p").unwrap();
    (store, storage)
}

fn name(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

#[test]
fn strict_stores_pass_the_suite() {
    crate::conformance::check(&strict(false).1);
    crate::conformance::check(&strict(true).1);
}

#[test]
fn a_tail_and_a_range_are_one_request() {
    let (store, storage) = strict(false);
    storage.put(&name("a"), &[b"12345"]).unwrap();
    *store.gets.lock().unwrap() = 0;
    assert_eq!(storage.get_tail(&name("a"), 2).unwrap(), (b"45".to_vec(), 5));
    assert_eq!(*store.gets.lock().unwrap(), 1);
    assert_eq!(
        storage
            .get_range(&name("a"), ByteRange { offset: 1, len: 2 })
            .unwrap(),
        b"23"
    );
    assert_eq!(*store.gets.lock().unwrap(), 2);
}

#[test]
fn errors_have_their_kinds() {
    let (store, storage) = strict(false);
    let outcome = |failure: fn() -> Error| {
        *store.fails.lock().unwrap() = Some(failure);
        storage.put(&name("a"), &[]).unwrap_err()
    };
    assert!(matches!(outcome(refused), StorageError::Io { .. }));
    let denied = outcome(|| Error::PermissionDenied {
        path: String::new(),
        source: "so".into(),
    });
    assert!(matches!(denied, StorageError::Denied { .. }));
    let unknown = outcome(|| Error::Unauthenticated {
        path: String::new(),
        source: "so".into(),
    });
    assert!(matches!(unknown, StorageError::Denied { .. }));
    let full = outcome(|| {
        let source = Box::new(io::Error::from_raw_os_error(libc::ENOSPC));
        Error::Generic {
            store: "disk",
            source,
        }
    });
    assert!(matches!(full, StorageError::NoSpace { .. }));
    *store.fails.lock().unwrap() = Some(refused);
    for outcome in [
        storage.get(&name("a")).map(drop),
        storage
            .get_range(&name("a"), ByteRange { offset: 0, len: 1 })
            .map(drop),
        storage.get_tail(&name("a"), 1).map(drop),
        storage.head(&name("a")).map(drop),
        storage.delete(&name("a")),
    ] {
        assert!(
            matches!(outcome, Err(StorageError::Io { .. })),
            "an outage is not absence: {outcome:?}"
        );
    }
}

/// A put of `a` that is carried out, and then fails so.
fn put_then(
    storage: &ObjectStoreStorage,
    store: &Strict,
    failures: &[fn() -> Error],
) -> Result<(), StorageError> {
    *store.loses_answers.lock().unwrap() = failures.to_vec();
    storage.put(&name("a"), &[b"own"])
}

fn late() -> Error {
    let source = HttpError::new(HttpErrorKind::Timeout, io::Error::from(io::ErrorKind::TimedOut));
    Error::Generic {
        store: "strict",
        source: Box::new(source),
    }
}

/// Some stores report a lost race like this.
fn lost() -> Error {
    Error::Precondition {
        path: String::new(),
        source: "so".into(),
    }
}

#[test]
fn a_put_without_an_answer_is_repeated_and_knows_its_own_object() {
    let (store, storage) = strict(false);
    put_then(&storage, &store, &[late]).unwrap();
    assert_eq!(storage.get(&name("a")).unwrap(), b"own");
    // The client repeated the put by itself.
    storage.delete(&name("a")).unwrap();
    put_then(&storage, &store, &[lost]).unwrap();
    // A rival's object with the same bytes is a rival's.
    let none: &[fn() -> Error] = &[];
    for failures in [none, &[lost], &[late]] {
        let taken = put_then(&storage, &store, failures);
        assert!(
            matches!(taken, Err(StorageError::AlreadyExists { .. })),
            "{taken:?}"
        );
    }
    // Another failure is told at once, and the object may be there.
    storage.delete(&name("a")).unwrap();
    let failed = put_then(&storage, &store, &[refused]);
    assert!(matches!(failed, Err(StorageError::Io { .. })), "{failed:?}");
}

#[test]
fn a_store_that_overwrites_is_found_out() {
    let count =
        |store: &Strict| futures::executor::block_on(store.inner.list(None).collect::<Vec<_>>()).len();
    let (store, storage) = strict(false);
    storage.probe_creates().unwrap();
    assert_eq!(count(&store), 0);
    let store = Arc::new(Strict {
        ignores_conditions: true,
        ..Strict::default()
    });
    let storage = ObjectStoreStorage::new(Arc::clone(&store) as Arc<dyn ObjectStore>, "p").unwrap();
    let told = storage.probe_creates().unwrap_err().to_string();
    assert!(
        told.starts_with("p/: ") && told.contains("If-None-Match"),
        "{told}"
    );
    assert_eq!(count(&store), 0, "the probe is removed");
    *store.fails.lock().unwrap() = Some(|| Error::NotImplemented {
        operation: "put".to_owned(),
        implementer: "strict".to_owned(),
    });
    let told = storage.probe_creates().unwrap_err().to_string();
    assert!(told.contains("If-None-Match"), "{told}");
}

/// The probe's object is none of the store, also if a crash left it.
#[test]
fn a_probe_that_was_left_is_no_object_of_the_store() {
    let (store, storage) = strict(false);
    let path = Path::from("p/.probe-00ff");
    futures::executor::block_on(store.put(&path, PutPayload::from_static(b"1"))).unwrap();
    assert_eq!(storage.list("").unwrap(), []);
}

#[test]
fn foreign_objects_beside_the_store_are_ignored() {
    let (store, storage) = strict(false);
    for other in ["other/a", "pp/a", "p/UPPER", "p/.hidden", "a"] {
        let path = Path::from(other);
        futures::executor::block_on(store.put(&path, PutPayload::from_static(b"1"))).unwrap();
    }
    storage.put(&name("b/c"), &[b"1"]).unwrap();
    let listed: Vec<_> = storage
        .list("")
        .unwrap()
        .into_iter()
        .map(|meta| meta.name)
        .collect();
    assert_eq!(listed, [name("b/c")]);
    assert_eq!(storage.list_folders("").unwrap(), ["b"]);
    assert!(matches!(
        storage.get(&name("a")),
        Err(StorageError::NotFound { .. })
    ));
}

#[test]
fn a_prefix_that_cannot_be_one_is_refused() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    assert!(ObjectStoreStorage::new(Arc::clone(&store), "a//b").is_err());
    ObjectStoreStorage::new(store, "/a/b/").unwrap();
}
