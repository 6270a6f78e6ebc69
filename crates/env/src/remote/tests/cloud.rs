//! The services of Google and Azure, over HTTP.

use std::num::NonZeroU64;
use std::time::Duration;

use testfs::{Cloud, CloudServer};
use types::ObjectName;

use super::{ObjectStoreLocation, ObjectStoreOptions, ObjectStoreStorage, StorageClass, StorageError};
use crate::{Clock, Storage, SystemClock};

fn open_as(
    server: &CloudServer,
    location: &str,
    options: &ObjectStoreOptions,
) -> Result<ObjectStoreStorage, StorageError> {
    let location: ObjectStoreLocation = location.parse().unwrap();
    let (name, value) = server.variable();
    let set = |asked: &str| (asked == name).then(|| value.clone());
    ObjectStoreStorage::open_with(&location, options, &set)
}

fn open(server: &CloudServer, prefix: &str) -> ObjectStoreStorage {
    open_as(server, &server.location(prefix), &ObjectStoreOptions::default()).unwrap()
}

fn passes_the_suite(cloud: Cloud) {
    let Some(server) = CloudServer::start(cloud, false) else {
        return;
    };
    let storage = open(&server, "a/prefix");
    storage.probe_creates().unwrap();
    assert_eq!(storage.list("").unwrap(), []);
    crate::conformance::check(&storage);
    assert_eq!(open(&server, "").list_folders("").unwrap(), ["a"]);
}

#[test]
fn google_passes_the_suite() {
    passes_the_suite(Cloud::Google);
}

#[test]
fn azure_passes_the_suite() {
    passes_the_suite(Cloud::Azure);
}

#[test]
fn a_service_that_overwrites_is_refused() {
    for cloud in [Cloud::Google, Cloud::Azure] {
        let Some(server) = CloudServer::start(cloud, true) else {
            return;
        };
        let told = open(&server, "").probe_creates().unwrap_err().to_string();
        assert!(told.contains("overwrites an object"), "{told}");
    }
}

#[test]
fn what_is_wrong_is_told_in_the_words_of_the_service() {
    for (cloud, no_bucket) in [(Cloud::Google, "gs:none"), (Cloud::Azure, "azure:none")] {
        let Some(server) = CloudServer::start(cloud, false) else {
            return;
        };
        let error = open_as(&server, no_bucket, &ObjectStoreOptions::default()).unwrap_err();
        assert!(matches!(error, StorageError::NoBucket { .. }), "{error}");
    }
    let Some(server) = CloudServer::start(Cloud::Azure, false) else {
        return;
    };
    let location: ObjectStoreLocation = server.location("").parse().unwrap();
    let of_another = server
        .variable()
        .1
        .replace("AccountName=account", "AccountName=other");
    let wrong = |name: &str| (name == "AZURE_STORAGE_CONNECTION_STRING").then(|| of_another.clone());
    let options = ObjectStoreOptions::default();
    let told = ObjectStoreStorage::open_with(&location, &options, &wrong)
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("AZURE_ACCOUNT_KEY") && !told.contains("a2V5"),
        "{told}"
    );
    let told = ObjectStoreStorage::open_with(&location, &options, &|_| None)
        .unwrap_err()
        .to_string();
    assert!(told.contains("AZURE_ACCOUNT_NAME"), "{told}");
}

#[test]
fn content_alone_gets_the_storage_class() {
    for cloud in [Cloud::Google, Cloud::Azure] {
        let Some(server) = CloudServer::start(cloud, false) else {
            return;
        };
        let location = server.location("p");
        let class = StorageClass::new("Cool", vec!["data"], &location.parse().unwrap()).unwrap();
        let options = ObjectStoreOptions {
            storage_class: Some(class),
            ..ObjectStoreOptions::default()
        };
        let storage = open_as(&server, &location, &options).unwrap();
        for (name, class) in [("data/a", "Cool"), ("recipe/a", "")] {
            storage.put(&ObjectName::new(name).unwrap(), &[b"1"]).unwrap();
            assert_eq!(server.class_of(&format!("p/{name}")), class);
        }
    }
}

#[test]
fn bytes_pass_no_faster_than_they_may() {
    let Some(server) = CloudServer::start(Cloud::Google, false) else {
        return;
    };
    let rate = NonZeroU64::new(400_000);
    let options = ObjectStoreOptions {
        upload_bytes_per_second: rate,
        download_bytes_per_second: rate,
        storage_class: None,
    };
    let storage = open_as(&server, &server.location("p"), &options).unwrap();
    let name = ObjectName::new("a").unwrap();
    let bytes = vec![7; 200_000];
    // The least time is certain: half a second, but for what may pass at once. A slow machine takes
    // longer.
    let took = |work: &dyn Fn()| {
        let began = SystemClock.monotonic();
        work();
        assert!(SystemClock.monotonic() - began >= Duration::from_millis(350));
    };
    took(&|| storage.put(&name, &[&bytes]).unwrap());
    took(&|| assert_eq!(storage.get(&name).unwrap(), bytes));
    took(&|| {
        assert_eq!(
            storage.get_tail(&name, 200_000).unwrap(),
            (bytes.clone(), 200_000)
        )
    });
    let options = ObjectStoreOptions {
        upload_bytes_per_second: NonZeroU64::new(1 << 40),
        download_bytes_per_second: NonZeroU64::new(1 << 40),
        storage_class: None,
    };
    crate::conformance::check(&open_as(&server, &server.location("q"), &options).unwrap());
}
