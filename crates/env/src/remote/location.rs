//! Names of places in object stores.
//!
//! A location never has a secret in it. So a text with a user's name or a query is refused, and no
//! error repeats the text.

use std::fmt;
use std::str::FromStr;

use object_store::path::Path;

/// The beginnings of locations.
const S3: &str = "s3:";
const GOOGLE: &str = "gs:";
const AZURE: &str = "azure:";
/// The host of AWS that stands for all of its regions.
const AWS: &str = "s3.amazonaws.com";

/// A bucket of an object store, and a prefix in it. Its text is
/// `s3:https://HOST[:PORT]/BUCKET[/PREFIX]`, `gs:BUCKET[/PREFIX]` or `azure:CONTAINER[/PREFIX]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectStoreLocation {
    service: Service,
    bucket: String,
    /// Without a slash at either end.
    prefix: String,
}

/// Whose object store it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Service {
    /// One that speaks S3.
    S3 {
        is_encrypted: bool,
        /// With the port, if one is given.
        host: String,
    },
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage. A bucket is called a container there.
    Azure,
}

/// Why a text is no location. It does not repeat the text, which may have a secret in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: an object store is s3:https://HOST[:PORT]/BUCKET[/PREFIX], s3:BUCKET[/PREFIX] at AWS, gs:BUCKET[/PREFIX] or \
     azure:CONTAINER[/PREFIX]"
)]
pub struct LocationError(&'static str);

impl ObjectStoreLocation {
    /// Whether the text is meant as a location of an object store, be it a good one or not.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        [S3, GOOGLE, AZURE].iter().any(|prefix| text.starts_with(prefix))
    }

    pub(super) const fn service(&self) -> &Service {
        &self.service
    }

    /// Where requests are sent.
    pub(super) fn endpoint(&self, region: &str) -> Endpoint {
        let scheme = if self.is_encrypted() { "https" } else { "http" };
        let regional = format!("s3.{region}.amazonaws.com");
        let host = if self.host() == AWS {
            &regional
        } else {
            self.host()
        };
        // The certificates of AWS are good for one part before the host.
        if self.is_aws() && !self.bucket.contains('.') {
            return Endpoint {
                url: format!("{scheme}://{}.{host}", self.bucket),
                has_bucket: true,
            };
        }
        Endpoint {
            url: format!("{scheme}://{host}"),
            has_bucket: false,
        }
    }

    pub(super) fn is_aws(&self) -> bool {
        self.aws_name().is_some()
    }

    /// The part of the host before that of AWS.
    fn aws_name(&self) -> Option<&str> {
        let host = self.host().strip_suffix(".cn").unwrap_or(self.host());
        host.strip_suffix(".amazonaws.com")
    }

    /// The region that the host names.
    pub(super) fn region(&self) -> Option<&str> {
        let name = self.aws_name()?.strip_prefix("s3.")?;
        Some(name.strip_prefix("dualstack.").unwrap_or(name))
    }

    pub(super) fn host(&self) -> &str {
        match &self.service {
            Service::S3 { host, .. } => host,
            Service::Google => "storage.googleapis.com",
            Service::Azure => "blob.core.windows.net",
        }
    }

    pub(super) const fn is_encrypted(&self) -> bool {
        match &self.service {
            Service::S3 { is_encrypted, .. } => *is_encrypted,
            Service::Google | Service::Azure => true,
        }
    }

    pub(super) fn bucket(&self) -> &str {
        &self.bucket
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// Where requests are sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) url: String,
    /// The host names the bucket; otherwise the path does.
    pub(super) has_bucket: bool,
}

impl fmt::Display for ObjectStoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.service {
            Service::S3 { is_encrypted, host } => {
                let scheme = if *is_encrypted { "https" } else { "http" };
                write!(f, "{S3}{scheme}://{host}/{}", self.bucket)?;
            }
            Service::Google => write!(f, "{GOOGLE}{}", self.bucket)?,
            Service::Azure => write!(f, "{AZURE}{}", self.bucket)?,
        }
        if self.prefix.is_empty() {
            return Ok(());
        }
        write!(f, "/{}", self.prefix)
    }
}

impl FromStr for ObjectStoreLocation {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        for (prefix, service) in [(GOOGLE, Service::Google), (AZURE, Service::Azure)] {
            if let Some(place) = text.strip_prefix(prefix) {
                // restic has a colon after the bucket.
                let (bucket, path) = match place.split_once('/') {
                    Some((bucket, path)) => (bucket.strip_suffix(':').unwrap_or(bucket), path),
                    None => (place.strip_suffix(':').unwrap_or(place), ""),
                };
                return Self::of_parts(service, bucket, path);
            }
        }
        let place = text
            .strip_prefix(S3)
            .ok_or(LocationError("it does not begin with `s3:`, `gs:` or `azure:`"))?;
        if place.contains(['?', '#']) {
            return Err(LocationError("a location has no query"));
        }
        let (is_encrypted, place) = match (place.strip_prefix("https://"), place.strip_prefix("http://")) {
            (Some(place), _) => (true, place),
            (None, Some(place)) => (false, place),
            (None, None) => {
                let first = place.split('/').next().unwrap_or_default();
                if !first.contains(['.', ':', '@']) {
                    return Self::of_s3(true, AWS, place);
                }
                (true, place)
            }
        };
        let (host, path) = place
            .split_once('/')
            .ok_or(LocationError("a bucket is missing"))?;
        Self::of_s3(is_encrypted, host, path)
    }
}

impl ObjectStoreLocation {
    fn of_s3(is_encrypted: bool, host: &str, path: &str) -> Result<Self, LocationError> {
        if host.contains('@') {
            return Err(LocationError(
                "a location has no user and no password in it; the environment has them",
            ));
        }
        if !is_host(host) {
            return Err(LocationError("this is no host"));
        }
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        let host = host.to_ascii_lowercase();
        Self::of_parts(Service::S3 { is_encrypted, host }, bucket, prefix)
    }

    fn of_parts(service: Service, bucket: &str, prefix: &str) -> Result<Self, LocationError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if bucket.is_empty() {
            return Err(LocationError("a bucket is missing"));
        }
        if !bucket.bytes().all(is_plain) || bucket.starts_with('.') {
            return Err(LocationError("this is no name of a bucket"));
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let is_path = |prefix| Path::parse(prefix).is_ok_and(|path| path.as_ref() == prefix);
        if !is_path(prefix) {
            return Err(LocationError("this is no prefix of names"));
        }
        // Names are made of it, and listings are compared with it.
        if Path::from(prefix).as_ref() != prefix {
            return Err(LocationError(
                "a prefix has only letters from A to Z, digits, spaces and simple signs such as `-`, `_` and `.`",
            ));
        }
        Ok(Self {
            service,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }
}

/// Whether this is a name or an address, with a port or without.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((address, rest)) => {
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            match rest.strip_prefix(':') {
                Some(port) => ("", Some(port)),
                None if rest.is_empty() => return true,
                None => return false,
            }
        }
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let is_name = text.starts_with('[') || (!name.is_empty() && name.bytes().all(is_plain));
    is_name && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        text.parse::<ObjectStoreLocation>().unwrap().to_string()
    }

    #[test]
    fn a_location_has_several_spellings() {
        for (typed, whole) in [
            ("s3:https://nas:9000/b", "s3:https://nas:9000/b"),
            (
                "s3:http://127.0.0.1:9000/b/a/c/",
                "s3:http://127.0.0.1:9000/b/a/c",
            ),
            ("s3:https://[::1]:9000/b", "s3:https://[::1]:9000/b"),
            (
                "s3:s3.amazonaws.com/bucket/prefix",
                "s3:https://s3.amazonaws.com/bucket/prefix",
            ),
            ("s3:minio:9000/b", "s3:https://minio:9000/b"),
            ("s3:bucket/web 1", "s3:https://s3.amazonaws.com/bucket/web 1"),
            ("s3:bucket", "s3:https://s3.amazonaws.com/bucket"),
            ("gs:bucket", "gs:bucket"),
            ("gs:bucket:/a/c/", "gs:bucket/a/c"),
            ("gs:bucket/a", "gs:bucket/a"),
            ("gs:bucket:/", "gs:bucket"),
            ("azure:box", "azure:box"),
            ("azure:box:/a", "azure:box/a"),
        ] {
            assert_eq!(shown(typed), whole);
            assert_eq!(shown(whole), whole);
        }
    }

    #[test]
    fn an_error_repeats_nothing_of_the_text() {
        for text in [
            "",
            "s3:",
            "s3:/",
            "s3://bucket/prefix",
            "s3:https://host",
            "s3:https://host/",
            "s3:https:///b",
            "s3:https://id:SECRET@host/b",
            "s3:id:SECRET@host/b",
            "s3:https://id:SEC/RET@host/b",
            "s3:https://host:SECRET/b",
            "s3:https://host:70000/b",
            "s3:https://[::1/b",
            "s3:https://host/b?token=SECRET",
            "s3:https://host/b#SECRET",
            "s3:https://host/.b",
            "s3:https://host/b//SECRET",
            "s3:https://host/b/../c",
            "s3:https://host/b c",
            // Names of objects would be encoded, and listings compared with what they are not.
            "s3:https://host/b/büro",
            "s3:https://host/b/a~b",
            "gs:",
            "gs:/a",
            "gs://bucket/SECRET",
            "gs:id@SECRET/a",
            "azure:box?SECRET",
            "azure:box/a//SECRET",
            "azure::/a",
        ] {
            let error = text.parse::<ObjectStoreLocation>().unwrap_err();
            let told = format!("{error} {error:?}");
            assert!(
                !told.contains("SECRET") && told.contains("s3:https://HOST"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_bucket_at_aws_is_part_of_the_host_and_elsewhere_of_the_path() {
        for (place, url, has_bucket) in [
            ("s3:b/p", "https://b.s3.eu-west-1.amazonaws.com", true),
            (
                "s3:s3.us-east-2.amazonaws.com/b",
                "https://b.s3.us-east-2.amazonaws.com",
                true,
            ),
            (
                "s3:s3.amazonaws.com/my.b",
                "https://s3.eu-west-1.amazonaws.com",
                false,
            ),
            (
                "s3:s3.cn-north-1.amazonaws.com.cn/b",
                "https://b.s3.cn-north-1.amazonaws.com.cn",
                true,
            ),
            ("s3:http://nas:9000/b", "http://nas:9000", false),
        ] {
            let location: ObjectStoreLocation = place.parse().unwrap();
            let url = url.to_owned();
            assert_eq!(location.endpoint("eu-west-1"), Endpoint { url, has_bucket });
        }
        let region = |place: &str| {
            let location: ObjectStoreLocation = place.parse().unwrap();
            location.region().map(str::to_owned)
        };
        assert_eq!(
            region("s3:s3.us-east-2.amazonaws.com/b").as_deref(),
            Some("us-east-2")
        );
        assert_eq!(
            region("s3:s3.dualstack.us-east-2.amazonaws.com/b").as_deref(),
            Some("us-east-2")
        );
        assert_eq!(region("s3:b"), None);
        assert_eq!(region("s3:https://nas/b"), None);
    }
}
