//! The suite that every storage passes, ours or not.
//!
//! [`check`] runs all of [`CASES`] on one storage, each in a folder of its own, so that a bucket or a
//! folder will do; the storage should be empty, and is left with what the cases made. [`check_operations`]
//! runs a sequence of operations beside a plain map, and [`random_operations`] makes one from a seed; a
//! property test brings its own.
//!
//! Where the storage does not do what [`Storage`] says, these functions panic, as a test's assertion does:
//! they are for tests alone. Durability is not looked at: nothing here can cut the power.

mod cases;
mod model;
#[cfg(test)]
mod tests;

use types::ObjectName;

use crate::Storage;

pub use model::{Op, check_operations, random_operations};

/// A case: its name, and the function that runs it on names in the given folder.
pub type Case = (&'static str, fn(&dyn Storage, &str));

/// All cases.
pub const CASES: &[Case] = &[
    ("one-winner", cases::one_of_many_creators_wins),
    ("put-get", cases::what_was_put_is_read),
    ("empty-object", cases::an_object_may_be_empty),
    ("large-object", cases::an_object_may_be_large),
    ("many-parts", cases::an_object_may_have_many_parts),
    ("create-only", cases::an_object_is_never_overwritten),
    ("ranges", cases::ranges_are_exact),
    ("tails", cases::tails_are_exact),
    ("head", cases::head_and_list_agree),
    ("list", cases::lists_are_sorted_and_by_folder),
    ("list-folders", cases::folders_are_listed_without_their_objects),
    (
        "no-folder",
        cases::a_missing_folder_is_empty_and_an_impossible_one_an_error,
    ),
    ("names", cases::every_name_is_taken),
    ("delete", cases::what_is_deleted_is_gone),
    ("missing", cases::what_is_missing_is_not_found),
    ("barriers", cases::barriers_and_puts_at_once),
    ("locks", cases::a_lock_has_one_holder),
];

/// Runs every case, and a random sequence of operations beside a map.
///
/// # Panics
/// Where the storage does not do what [`Storage`] says.
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
