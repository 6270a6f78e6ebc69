//! The size of the images in these experiments.

use crate::generate::Images;

/// The approximate bytes of all backups of such images, without zeros.
pub(in crate::reproduce) fn data_bytes(images: &Images) -> u64 {
    let backups = u64::from(images.weeks);
    let grown = 5 * images.new_bytes * backups.saturating_sub(1) / 2;
    u64::from(images.series) * backups * (images.files_bytes + grown).min(images.image_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::stores::content;

    #[test]
    fn bytes_are_declared_before_they_are_generated() {
        let images = Images {
            weeks: 2,
            ..Images::sg(1).unwrap().scaled(40 << 20)
        };
        let mut bytes = 0;
        content::each(&images, |content| {
            bytes += content.data_bytes();
            Ok(())
        })
        .unwrap();
        assert!(bytes.abs_diff(data_bytes(&images)) < bytes / 20, "{bytes}");
    }
}
