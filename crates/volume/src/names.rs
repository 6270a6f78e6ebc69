//! Rules for the names and lengths of volumes.

use format::pool::header::{VOLUME_BLOCKS_MAX, VOLUME_NAME_BYTES_MAX};

use crate::error::{Result, VolumeError};

/// Fails if no volume may have the name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > VOLUME_NAME_BYTES_MAX {
        "it has more than 255 bytes"
    } else if name.chars().any(|c| c.is_control() || c == '/') {
        "it has a slash or a control character"
    } else {
        return Ok(());
    };
    Err(VolumeError::Invalid {
        what: "name of a volume",
        why: why.to_owned(),
    })
}

/// The blocks of so many bytes. Fails if no volume may have so many.
pub(crate) fn check_len(len_bytes: u64) -> Result<u64> {
    let blocks = len_bytes.div_ceil(env::BLOCK_BYTES);
    if blocks == 0 || blocks > VOLUME_BLOCKS_MAX {
        return Err(VolumeError::Invalid {
            what: "size of a volume",
            why: "a volume has between 4 KiB and 64 TiB".to_owned(),
        });
    }
    Ok(blocks)
}
