//! The suite that every storage must pass.
//!
//! [`check`] runs all of [`CASES`] on one storage, each in a folder of its own, so a bucket or a
//! folder is enough. The storage should be empty. The cases leave their objects in it.
//! [`check_operations`] runs a sequence of operations beside a plain map, and [`random_operations`]
//! makes one from a seed; a property test brings its own.
//!
//! If the storage breaks a promise of [`Storage`], these functions panic, like a test's assertion:
//! they are for tests only. They do not check durability, because nothing here can cut the power.

mod listings;
mod model;
mod objects;
mod rivals;
#[cfg(test)]
mod tests;

use types::ObjectName;

use crate::{Storage, StorageError};

pub use model::{Op, check_operations, random_operations};

/// A case: its name, and the function that runs it on names in the given folder.
pub type Case = (&'static str, fn(&dyn Storage, &str));

/// All cases.
pub const CASES: &[Case] = &[
    ("one-winner", rivals::one_of_many_creators_wins),
    ("put-get", objects::what_was_put_is_read),
    ("empty-object", objects::an_object_may_be_empty),
    ("large-object", objects::an_object_may_be_large),
    ("many-parts", objects::an_object_may_have_many_parts),
    ("create-only", objects::an_object_is_never_overwritten),
    ("ranges", objects::ranges_are_exact),
    ("tails", objects::tails_are_exact),
    ("head", objects::head_and_list_agree),
    ("list", listings::lists_are_sorted_and_by_folder),
    ("list-folders", listings::folders_are_listed_without_their_objects),
    (
        "list-within",
        listings::a_listing_of_some_folders_has_nothing_of_the_others,
    ),
    ("many-folders", listings::many_folders_are_listed_whole),
    ("drop-folder", listings::a_folder_is_dropped_only_when_it_is_empty),
    (
        "no-folder",
        listings::a_missing_folder_is_empty_and_an_impossible_one_an_error,
    ),
    ("names", listings::every_name_is_taken),
    ("delete", objects::what_is_deleted_is_gone),
    (
        "delete-many",
        objects::many_are_deleted_and_missing_ones_passed_over,
    ),
    (
        "moments",
        listings::a_listing_since_a_moment_has_what_was_put_before,
    ),
    ("trim", objects::what_is_trimmed_has_another_name),
    ("missing", objects::what_is_missing_is_not_found),
    ("barriers", rivals::barriers_and_puts_at_once),
    ("locks", rivals::a_lock_has_one_holder),
];

/// Runs every case, and a random sequence of operations beside a map.
///
/// # Panics
/// If the storage differs from the contract of [`Storage`].
pub fn check(storage: &dyn Storage) {
    for (folder, case) in CASES {
        case(storage, folder);
    }
    check_operations(storage, "random", &random_operations(1, 500));
}

/// A name in the folder.
fn name(folder: &str, rest: &str) -> ObjectName {
    ObjectName::new(format!("{folder}/{rest}")).expect("the suite's names are names")
}

/// Bytes that differ at all places of the object, except by chance.
fn bytes(len: u32) -> Vec<u8> {
    let words = (0..len.div_ceil(4)).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes());
    words.take(len as usize).collect()
}

fn put(storage: &dyn Storage, name: &ObjectName, bytes: &[u8]) {
    storage.put(name, &[bytes]).expect("a new object can be put");
}

fn get(storage: &dyn Storage, name: &ObjectName) -> Vec<u8> {
    storage.get(name).expect("an object that was put can be read")
}

#[track_caller]
fn assert_not_found<T: std::fmt::Debug>(outcome: Result<T, StorageError>, wanted: &ObjectName) {
    match outcome {
        Err(StorageError::NotFound { name }) => assert_eq!(&name, wanted),
        other => panic!("{wanted} is not there, but: {other:?}"),
    }
}

#[track_caller]
fn assert_exists(outcome: Result<(), StorageError>, wanted: &ObjectName) {
    match outcome {
        Err(StorageError::AlreadyExists { name }) => assert_eq!(&name, wanted),
        other => panic!("{wanted} is there already, but: {other:?}"),
    }
}

fn names_of(storage: &dyn Storage, folder: &str) -> Vec<ObjectName> {
    storage
        .list(folder)
        .expect("list")
        .into_iter()
        .map(|meta| meta.name)
        .collect()
}
