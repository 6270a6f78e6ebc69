//! What an object store's error means.
//!
//! An answer of the object store may repeat the request, with tokens in it. So an error has the
//! code and the message of the answer, and nothing else of it.

use std::error::Error as StdError;
use std::fmt::Write;
use std::io;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use types::ObjectName;

use super::credentials::no_role;
use crate::StorageError;

/// The longest text of an answer that an error repeats.
const TEXT_CHARS_MAX: usize = 300;
/// Where machines of AWS, of Google and of Azure ask for their role.
const OF_MACHINE: [&str; 4] = [
    "/latest/",
    "metadata.google",
    "computeMetadata",
    "/metadata/identity",
];

/// An error, taken apart.
#[derive(Debug, Default)]
struct Failure {
    /// Of an answer.
    status: Option<u16>,
    code: String,
    message: String,
    /// Why there was no answer.
    transport: Option<HttpErrorKind>,
    /// The innermost cause, if there was no answer.
    cause: String,
    /// It was the machine that was asked for its role.
    is_of_machine: bool,
    /// The status is that of one object of several.
    is_part: bool,
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        (*error).source()
    })
}

impl Failure {
    fn of(error: &Error) -> Self {
        let mut failure = Self::default();
        for cause in chain(error) {
            let text = cause.to_string();
            failure.is_of_machine |= OF_MACHINE.iter().any(|place| text.contains(place));
            if let Some(http) = cause.downcast_ref::<HttpError>() {
                failure.transport = Some(http.kind());
            }
            if let Some((_, answer)) = text.split_once("status code: ") {
                failure.status = answer.get(..3).and_then(|digits| digits.parse().ok());
                failure.code = element(answer, "Code");
                failure.message = element(answer, "Message");
            }
            // A part of an answer about several objects.
            if let Some((_, code)) = text.split_once("(code: ") {
                failure.status = code.get(..3).and_then(|digits| digits.parse().ok());
                failure.is_part = true;
            }
            failure.cause = text;
        }
        if failure.cause.contains('<') || failure.status.is_some() {
            failure.cause.clear();
        }
        failure.cause = clean(&failure.cause);
        failure
    }

    /// Whether a bucket whose objects are locked has refused an upload without a checksum.
    fn lacks_checksum(&self) -> bool {
        self.status == Some(400)
            && self.message.contains("Content-MD5")
            && self.message.contains("is required")
    }

    /// For people.
    fn text(&self) -> String {
        let Some(status) = self.status else {
            return match self.transport {
                Some(HttpErrorKind::Timeout) => "the object store has not answered in time".to_owned(),
                _ => self.cause.clone(),
            };
        };
        let mut text = format!("the object store answered {status}");
        for part in [&self.code, &self.message] {
            if !part.is_empty() {
                // Writing to a string does not fail.
                write!(text, ", {part}").unwrap_or_default();
            }
        }
        if self.lacks_checksum() {
            text += "; set AWS_REQUEST_CHECKSUM_CALCULATION=when_supported, so that uploads have one";
        }
        text
    }
}

/// What a service calls things.
struct Words {
    /// Where credentials come from.
    credentials: &'static str,
    /// What they must allow.
    rights: &'static str,
    /// What to do if the machine has none either.
    otherwise: Option<&'static str>,
}

impl Words {
    /// Those of the service of this place.
    fn of(place: &str) -> Self {
        if place.starts_with("gs:") {
            return Self {
                credentials: "the file that GOOGLE_APPLICATION_CREDENTIALS names, or GOOGLE_ACCESS_TOKEN",
                rights: "the role Storage Object Admin on the bucket, or the rights storage.objects.list, .get, .create and \
                         .delete",
                otherwise: Some(
                    "there are no credentials for Google: set GOOGLE_APPLICATION_CREDENTIALS to the file of a service \
                     account, or run `gcloud auth application-default login`; this machine has no role either",
                ),
            };
        }
        if place.starts_with("azure:") {
            return Self {
                credentials: "AZURE_ACCOUNT_NAME, and AZURE_ACCOUNT_KEY or AZURE_ACCOUNT_SAS",
                rights: "the role Storage Blob Data Contributor, or a SAS token with the rights to read, create, write, \
                         delete and list (rcwdl)",
                otherwise: Some(
                    "there are no credentials for Azure: set AZURE_ACCOUNT_KEY or AZURE_ACCOUNT_SAS, or those of a service \
                     principal; this machine has no identity either",
                ),
            };
        }
        Self {
            credentials: "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or the profile",
            rights: "s3:ListBucket on it, and s3:GetObject, s3:PutObject and s3:DeleteObject on what is in it",
            otherwise: None,
        }
    }

    /// There are no credentials.
    fn nobody(&self) -> String {
        self.otherwise.map_or_else(no_role, str::to_owned)
    }
}

/// The text of an element of an answer.
fn element(answer: &str, name: &str) -> String {
    let text = answer.split_once(&format!("<{name}>")).map(|(_, rest)| rest);
    let text = text.and_then(|rest| rest.split_once("</"));
    clean(text.map_or("", |(text, _)| text))
}

fn clean(text: &str) -> String {
    let is_plain = |letter: &char| !letter.is_control();
    text.chars().filter(is_plain).take(TEXT_CHARS_MAX).collect()
}

/// Whether the request may have been carried out, and its answer was lost.
pub(super) fn is_unanswered(error: &Error) -> bool {
    let kind = chain(error).find_map(|cause| cause.downcast_ref::<HttpError>().map(HttpError::kind));
    matches!(kind, Some(HttpErrorKind::Timeout | HttpErrorKind::Interrupted))
}

/// Whether the object store does not know conditional requests.
pub(super) fn is_unknown_request(error: &Error) -> bool {
    matches!(error, Error::NotImplemented { .. } | Error::NotSupported { .. })
        || Failure::of(error).status == Some(501)
}

/// The error of the first request to a place. It says what to do.
pub(super) fn at_opening(place: &str, host: &str, error: &Error) -> StorageError {
    let failure = Failure::of(error);
    let place = place.to_owned();
    let text = failure.text();
    let words = Words::of(&place);
    let why = match (failure.code.as_str(), failure.status) {
        ("NoSuchBucket" | "ContainerNotFound", _) | ("", Some(404)) => {
            return StorageError::NoBucket { place };
        }
        (
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "ExpiredToken"
            | "InvalidToken"
            | "TokenRefreshRequired"
            | "AuthenticationFailed",
            _,
        )
        | (_, Some(401)) => format!(
            "the object store does not take the credentials ({text}); check {}",
            words.credentials
        ),
        ("RequestTimeTooSkewed", _) => format!("{text}; set the clock of this machine"),
        ("AuthorizationHeaderMalformed" | "PermanentRedirect" | "IllegalLocationConstraintException", _)
        | (_, Some(301 | 307)) => {
            format!("{text}; the bucket may be in another region: set AWS_REGION to the bucket's region")
        }
        (_, Some(403)) => format!(
            "the credentials do not allow listing the bucket ({text}); they need {}",
            words.rights
        ),
        (_, Some(_)) => text,
        (_, None) if failure.is_of_machine => words.nobody(),
        (_, None) if text.contains("certificate") => format!(
            "{host} cannot be believed: {text}; SSL_CERT_FILE names the certificates of an authority of your own"
        ),
        (_, None) if failure.transport.is_some() => {
            format!("{host} cannot be reached: {text}; check the name, the port and the network")
        }
        (_, None) => text,
    };
    StorageError::Unusable { place, why }
}

/// The error of a request about an object or folder.
pub(super) fn storage_error(action: &'static str, name: &str, error: Error) -> StorageError {
    let failure = Failure::of(&error);
    let code = failure.code.as_str();
    match error {
        // All objects are away, or none is.
        Error::NotFound { .. } if matches!(code, "NoSuchBucket" | "ContainerNotFound") => {
            unanswered(action, name, &failure)
        }
        Error::NotFound { .. } => match ObjectName::new(name) {
            Ok(name) => StorageError::NotFound { name },
            Err(_) => other(action, name, &error),
        },
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } if is_of_time(code) => {
            unanswered(action, name, &failure)
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => StorageError::Denied {
            name: name.to_owned(),
        },
        // Azure answers so about each object of several. 409: nobody may delete it yet.
        _ if failure.is_part && matches!(failure.status, Some(403 | 409)) => StorageError::Denied {
            name: name.to_owned(),
        },
        error => other(action, name, &error),
    }
}

/// The error where the object store has said nothing about the object.
fn unanswered(action: &'static str, name: &str, failure: &Failure) -> StorageError {
    StorageError::Io {
        action,
        name: name.to_owned(),
        source: io::Error::new(io::ErrorKind::NotConnected, failure.text()),
    }
}

/// Whether an answer with this code depends on when it was asked: temporary credentials have ended,
/// or the request was signed long before it came, as after a suspend.
fn is_of_time(code: &str) -> bool {
    matches!(
        code,
        "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" | "RequestTimeTooSkewed" | "RequestTimeout"
    )
}

fn other(action: &'static str, name: &str, error: &Error) -> StorageError {
    let name = name.to_owned();
    // Stores on a disk wrap the system's error.
    let is_full = |cause: &(dyn StdError + 'static)| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(
            kind,
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        )
    };
    if chain(error).any(is_full) {
        return StorageError::NoSpace { name };
    }
    let failure = Failure::of(error);
    if failure.transport.is_some() || failure.status.is_some_and(is_of_server) || is_of_time(&failure.code) {
        return unanswered(action, &name, &failure);
    }
    StorageError::Io {
        action,
        name,
        source: io::Error::other(failure.text()),
    }
}

/// Whether the connection broke, and the library has not repeated the request: it does so only if
/// the request changes nothing, and not once the answer has begun.
pub(super) fn is_break(error: &Error) -> bool {
    let was_repeated = chain(error).any(|cause| cause.to_string().contains(" retries, max_retries"));
    Failure::of(error).transport == Some(HttpErrorKind::Interrupted) && !was_repeated
}

/// Whether there was no answer at all.
pub(super) fn is_silence(error: &Error) -> bool {
    Failure::of(error).transport.is_some()
}

/// Whether a status says that the object store itself cannot answer now, or does not take these
/// credentials any more.
const fn is_of_server(status: u16) -> bool {
    status >= 500 || matches!(status, 401 | 403 | 408 | 429)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: &str, body: &str) -> Error {
        Error::Generic {
            store: "S3",
            source: format!("Server returned non-2xx status code: {status}: {body}").into(),
        }
    }

    fn told(error: &Error) -> String {
        at_opening("s3:https://h/b", "h", error).to_string()
    }

    #[test]
    fn an_error_has_nothing_of_an_answer_but_code_and_message() {
        let body = "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>The signature is \
                    \u{1b}[31mwrong.</Message><CanonicalRequest>x-amz-security-token:SESAME</CanonicalRequest></Error>";
        let error = answered("403 Forbidden", body);
        let at_work = storage_error("read", "a", answered("403 Forbidden", body));
        let debug = format!("{at_work:?}");
        for told in [told(&error), at_work.to_string(), debug] {
            assert!(
                told.contains("SignatureDoesNotMatch") && told.contains("is [31mwrong"),
                "{told}"
            );
            assert!(!told.contains("SESAME"), "{told}");
        }
        let told = told(&answered("502 Bad Gateway", "<html>SESAME</html>"));
        assert_eq!(told, "s3:https://h/b: the object store answered 502");
    }

    #[test]
    fn an_object_store_that_is_out_of_order_is_an_outage() {
        for (status, is_outage) in [
            ("503 Slow Down", true),
            ("429 Too Many", true),
            ("403 Forbidden", true),
            ("416 Range", false),
        ] {
            let error = storage_error("read", "a", answered(status, ""));
            assert_eq!(error.is_outage(), is_outage, "{status}");
        }
        for (code, is_outage) in [("ExpiredToken", true), ("InvalidArgument", false)] {
            let body = format!("<Error><Code>{code}</Code></Error>");
            let error = storage_error("read", "a", answered("400 Bad Request", &body));
            assert_eq!(error.is_outage(), is_outage, "{error}");
            assert!(error.to_string().contains(code), "{error}");
        }
    }

    /// Object stores and proxies say "not found" of buckets, too, and "forbidden" of late requests.
    #[test]
    fn an_answer_about_something_else_says_nothing_of_the_object() {
        let answered = |code: &str| answered("40x", &format!("<Error><Code>{code}</Code></Error>")).into();
        let missing = |code| Error::NotFound {
            path: "a".to_owned(),
            source: answered(code),
        };
        let denied = |code| Error::PermissionDenied {
            path: "a".to_owned(),
            source: answered(code),
        };
        let of = |error| storage_error("read", "a", error);
        assert!(matches!(of(missing("NoSuchKey")), StorageError::NotFound { .. }));
        assert!(matches!(of(denied("AccessDenied")), StorageError::Denied { .. }));
        for error in [of(missing("NoSuchBucket")), of(denied("RequestTimeTooSkewed"))] {
            assert!(
                matches!(error, StorageError::Io { .. }) && error.is_outage(),
                "{error}"
            );
        }
    }

    #[test]
    fn a_refused_delete_of_several_is_denied_and_a_busy_store_is_not() {
        let part = |code: u16| Error::Generic {
            store: "MicrosoftAzure",
            source: format!("Error deleting object a: reason (code: {code})").into(),
        };
        for code in [403, 409] {
            let error = storage_error("delete", "a", part(code));
            assert!(matches!(error, StorageError::Denied { .. }), "{error}");
        }
        let busy = storage_error("delete", "a", part(503));
        assert!(
            matches!(busy, StorageError::Io { .. }) && busy.is_outage(),
            "{busy}"
        );
    }

    #[test]
    fn a_locked_bucket_that_needs_checksums_says_which_setting_sends_them() {
        let message =
            "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock";
        let body = format!("<Error><Code>InvalidRequest</Code><Message>{message}</Message></Error>");
        let at_work =
            |body: &str| storage_error("create", "a", answered("400 Bad Request", body)).to_string();
        for told in [at_work(&body), told(&answered("400 Bad Request", &body))] {
            assert!(
                told.contains("AWS_REQUEST_CHECKSUM_CALCULATION=when_supported"),
                "{told}"
            );
        }
        // This upload had a checksum.
        let message = "The Content-MD5 you specified did not match what we received.";
        let body = format!("<Error><Code>BadDigest</Code><Message>{message}</Message></Error>");
        assert!(!at_work(&body).contains("AWS_REQUEST"), "{}", at_work(&body));
    }

    #[test]
    fn the_first_error_says_what_to_do() {
        let code = |code| format!("<Error><Code>{code}</Code></Error>");
        for (status, code, words) in [
            ("403 Forbidden", code("InvalidAccessKeyId"), "AWS_ACCESS_KEY_ID"),
            ("401 Unauthorized", String::new(), "AWS_ACCESS_KEY_ID"),
            ("403 Forbidden", code("AccessDenied"), "s3:ListBucket"),
            ("403 Forbidden", code("RequestTimeTooSkewed"), "clock"),
            ("301 Moved Permanently", String::new(), "AWS_REGION"),
            (
                "400 Bad Request",
                code("AuthorizationHeaderMalformed"),
                "AWS_REGION",
            ),
        ] {
            let told = told(&answered(status, &code));
            assert!(told.contains(words), "{told}");
        }
        let missing = answered("404 Not Found", &code("NoSuchBucket"));
        assert!(matches!(
            at_opening("p", "h", &missing),
            StorageError::NoBucket { .. }
        ));
        let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
        let source = Box::new(HttpError::new(HttpErrorKind::Connect, refused));
        let unreached = Error::Generic { store: "S3", source };
        assert!(
            told(&unreached).contains("h cannot be reached: Connection refused"),
            "{}",
            told(&unreached)
        );
        assert!(!is_unanswered(&unreached));
        let late = io::Error::from(io::ErrorKind::TimedOut);
        let source = Box::new(HttpError::new(HttpErrorKind::Timeout, late));
        assert!(is_unanswered(&Error::Generic { store: "S3", source }));
    }
}
