//! Sets of flags.

use std::ops::BitOr;

macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$one_doc:meta])* $one:ident = $bit:expr,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
        pub struct $name(pub u16);

        impl $name {
            $($(#[$one_doc])* pub const $one: Self = Self(1 << $bit);)*
            /// All flags that this crate knows.
            pub const ALL: Self = Self($((1 << $bit))|*);

            /// Whether all of these flags are set.
            #[must_use]
            pub const fn has(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// These flags without those.
            #[must_use]
            pub const fn without(self, flags: Self) -> Self {
                Self(self.0 & !flags.0)
            }
        }

        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}

flags! {
    /// What an export can do ("Transmission flags").
    TransmissionFlags {
        /// Every export sets it.
        HAS_FLAGS = 0,
        /// Requests that write fail.
        READ_ONLY = 1,
        /// `FLUSH`.
        SEND_FLUSH = 2,
        /// The flag `FUA`.
        SEND_FUA = 3,
        /// `TRIM`.
        SEND_TRIM = 5,
        /// `WRITE_ZEROES`, with the flag `NO_HOLE`.
        SEND_WRITE_ZEROES = 6,
        /// The flag `DF` of `READ`. A server sets it only if structured replies were negotiated.
        SEND_DF = 7,
        /// A flush on one connection covers the writes answered on all.
        CAN_MULTI_CONN = 8,
        /// `CACHE`.
        SEND_CACHE = 10,
        /// The flag `FAST_ZERO` of `WRITE_ZEROES`.
        SEND_FAST_ZERO = 11,
    }
}

flags! {
    /// How a request is to be done ("Command flags").
    CommandFlags {
        /// The answer waits until the written bytes are durable.
        FUA = 0,
        /// `WRITE_ZEROES`: allocate space.
        NO_HOLE = 1,
        /// `READ`: answer with one chunk of data.
        DF = 2,
        /// `BLOCK_STATUS`: answer with one range.
        REQ_ONE = 3,
        /// `WRITE_ZEROES`: fail unless it is faster than a write.
        FAST_ZERO = 4,
    }
}
