//! A real server, over HTTP.

use testfs::{Keys, S3Server};
use types::ObjectName;

use crate::Storage;

use super::{ObjectStoreLocation, ObjectStoreOptions, ObjectStoreStorage, StorageError};

fn open(location: &str, keys: &Keys) -> Result<ObjectStoreStorage, StorageError> {
    let location: ObjectStoreLocation = location.parse().unwrap();
    ObjectStoreStorage::open_with(&location, &ObjectStoreOptions::default(), &|name| match name {
        "AWS_ACCESS_KEY_ID" => Some(keys.id.clone()),
        "AWS_SECRET_ACCESS_KEY" => Some(keys.secret.clone()),
        _ => None,
    })
}

#[test]
fn a_server_passes_the_suite() {
    let Some(server) = S3Server::start() else { return };
    let storage = open(&server.location("a/prefix"), &server.all).unwrap();
    storage.probe_creates().unwrap();
    assert_eq!(storage.list("").unwrap(), []);
    crate::conformance::check(&storage);
    let whole = open(&server.location(""), &server.all).unwrap();
    assert_eq!(whole.list_folders("").unwrap(), ["a"]);
    let name = ObjectName::new("b/c").unwrap();
    whole.put(&name, &[b"1"]).unwrap();
    assert_eq!(whole.list("b").unwrap().len(), 1);
}

#[test]
fn what_is_wrong_is_told_at_once() {
    let Some(server) = S3Server::start() else { return };
    let place = server.location("p");
    let told = |location: &str, keys: &Keys| open(location, keys).unwrap_err().to_string();
    let wrong = |id: &str| Keys {
        id: id.to_owned(),
        secret: "SESAME".to_owned(),
    };
    for (keys, code) in [
        (wrong(&server.all.id), "SignatureDoesNotMatch"),
        (wrong("nobody"), "InvalidAccessKeyId"),
    ] {
        let told = told(&place, &keys);
        assert!(told.starts_with(&place) && told.contains(code), "{told}");
        assert!(
            told.contains("check AWS_ACCESS_KEY_ID") && !told.contains("SESAME"),
            "{told}"
        );
    }
    let told_denied = told(&place, &server.none);
    assert!(told_denied.contains("s3:ListBucket"), "{told_denied}");
    assert!(matches!(
        open(&server.no_bucket(), &server.all),
        Err(StorageError::NoBucket { .. })
    ));
    let none = |_: &str| None;
    let location: ObjectStoreLocation = place.parse().unwrap();
    let without =
        ObjectStoreStorage::open_with(&location, &ObjectStoreOptions::default(), &none).unwrap_err();
    assert!(without.to_string().contains("no credentials"), "{without}");
    let all = server.all.clone();
    drop(server);
    let gone = told(&place, &all);
    assert!(
        gone.contains("cannot be reached") && gone.contains("refused"),
        "{gone}"
    );
}
