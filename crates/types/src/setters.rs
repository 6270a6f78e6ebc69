//! Setters of option structs.

/// Gives a struct a setter for each of these fields. A setter takes the struct and returns it. So
/// one expression makes the options, even if the struct is `#[non_exhaustive]`:
/// `OpenOptions::default().pin_reads(false)`.
#[macro_export]
macro_rules! setters {
    // Of a type without a destructor, for constants.
    (const $owner:ty { $($field:ident: $kind:ty),+ $(,)? }) => {
        impl $owner {
            $(
                #[doc = concat!("With `", stringify!($field), "`.")]
                #[must_use]
                pub const fn $field(mut self, $field: $kind) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
    ($owner:ty { $($field:ident: $kind:ty),+ $(,)? }) => {
        impl $owner {
            $(
                #[doc = concat!("With `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, $field: $kind) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}
