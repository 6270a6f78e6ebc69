//! How S3 checks that the bytes of an upload are those that were sent.
//!
//! Over plain HTTP the signature of a request covers its bytes, by their SHA-256. TLS protects them
//! itself, and there this digest would only cost time on both sides: AWS's own tools leave it out.
//!
//! AWS refuses an upload without a checksum into a bucket whose objects are locked by default. Its
//! tools send one to every object store. Some stores of others answer with an error, so these get
//! one only on request. `request_checksum_calculation` is what AWS's tools call this setting.

use object_store::aws::{AmazonS3Builder, Checksum};

use super::location::ObjectStoreLocation;

/// Which uploads have a checksum, if the user says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checksums {
    /// `when_supported`: all.
    All,
    /// `when_required`: none, since a client cannot know where one is required.
    None,
}

impl Checksums {
    /// # Errors
    /// What is wrong with the value, for people.
    pub(super) fn parse(value: &str) -> Result<Self, String> {
        match value.to_ascii_lowercase().as_str() {
            "when_supported" => Ok(Self::All),
            "when_required" => Ok(Self::None),
            _ => Err(format!(
                "AWS_REQUEST_CHECKSUM_CALCULATION (request_checksum_calculation of a profile) is when_supported or \
                 when_required, and not {value:?}"
            )),
        }
    }
}

/// What protects uploads to this place.
pub(super) fn protect(
    builder: AmazonS3Builder,
    location: &ObjectStoreLocation,
    asked: Option<Checksums>,
) -> AmazonS3Builder {
    let builder = builder.with_unsigned_payload(location.is_encrypted());
    match checksum(location, asked) {
        Some(checksum) => builder.with_checksum_algorithm(checksum),
        None => builder,
    }
}

fn checksum(location: &ObjectStoreLocation, asked: Option<Checksums>) -> Option<Checksum> {
    match (asked, location.is_aws()) {
        (Some(Checksums::None), _) | (None, false) => None,
        // It takes a tenth of the time of SHA-256. Many stores of others do not know it.
        (_, true) if location.is_encrypted() => Some(Checksum::CRC64NVME),
        // Without TLS the signature has the same digest, so it costs nothing more.
        _ => Some(Checksum::SHA256),
    }
}

#[cfg(test)]
mod tests {
    use object_store::aws::AmazonS3ConfigKey as Key;

    use super::*;

    fn protected(location: &str, asked: Option<Checksums>) -> (bool, Option<String>) {
        let builder = protect(AmazonS3Builder::new(), &location.parse().unwrap(), asked);
        let is_unsigned = builder.get_config_value(&Key::UnsignedPayload).unwrap();
        (is_unsigned == "true", builder.get_config_value(&Key::Checksum))
    }

    #[test]
    fn bytes_are_signed_without_tls_alone() {
        for asked in [None, Some(Checksums::All), Some(Checksums::None)] {
            assert!(protected("s3:https://host/bucket", asked).0);
            assert!(protected("s3:bucket", asked).0);
            assert!(!protected("s3:http://host/bucket", asked).0);
        }
    }

    #[test]
    fn uploads_to_aws_have_a_checksum_and_others_on_request() {
        let sum = |location: &str, asked| protected(location, asked).1;
        let of = |text: &str| Some(text.to_owned());
        let regional = "s3:https://s3.eu-west-1.amazonaws.com/bucket";
        for (location, by_default, all) in [
            ("s3:bucket", of("crc64nvme"), of("crc64nvme")),
            (regional, of("crc64nvme"), of("crc64nvme")),
            (
                "s3:https://s3.dualstack.eu-west-1.amazonaws.com/bucket",
                of("crc64nvme"),
                of("crc64nvme"),
            ),
            (
                "s3:http://s3.eu-west-1.amazonaws.com/bucket",
                of("sha256"),
                of("sha256"),
            ),
            ("s3:https://host/bucket", None, of("sha256")),
            ("s3:http://host/bucket", None, of("sha256")),
        ] {
            assert_eq!(sum(location, None), by_default, "{location}");
            assert_eq!(sum(location, Some(Checksums::All)), all, "{location}");
            assert_eq!(sum(location, Some(Checksums::None)), None, "{location}");
        }
    }

    #[test]
    fn another_value_is_refused_with_those_that_exist() {
        assert_eq!(Checksums::parse("WHEN_SUPPORTED"), Ok(Checksums::All));
        assert_eq!(Checksums::parse("when_required"), Ok(Checksums::None));
        let error = Checksums::parse("always").unwrap_err();
        assert!(
            error.contains("\"always\"") && error.contains("when_required"),
            "{error}"
        );
    }
}
