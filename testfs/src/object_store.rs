//! An S3 server for tests: a program in Python, which `scripts/setup tests` installs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The bucket that the server has.
pub const BUCKET: &str = "bucket";

/// The keys of a user.
#[derive(Debug, Clone)]
pub struct Keys {
    /// `AWS_ACCESS_KEY_ID`.
    pub id: String,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret: String,
}

/// A running S3 server, empty at first. Dropping it ends it.
#[derive(Debug)]
pub struct S3Server {
    child: Child,
    /// `SCHEME://HOST:PORT`.
    endpoint: String,
    /// A user who may do everything.
    pub all: Keys,
    /// A user who may do nothing.
    pub none: Keys,
}

impl S3Server {
    /// Starts a server on a port of its own. Prints why and returns `None` if its program is not
    /// installed.
    ///
    /// # Panics
    /// If it starts and says something else than its port and keys.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_with(None)
    }

    /// Like [`Self::start`], with TLS. The certificate is put at this path with the ending `crt`.
    ///
    /// # Panics
    /// As [`Self::start`].
    #[must_use]
    pub fn start_tls(certificate: &Path) -> Option<Self> {
        Self::start_with(Some(certificate))
    }

    fn start_with(certificate: Option<&Path>) -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut child = Command::new("python3")
            .arg(root.join("s3-server.py"))
            .args(certificate)
            .env("PYTHONPATH", root.join("../target/s3-server"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok();
        let out = child.as_mut().and_then(|child| child.stdout.take());
        let mut lines = out.map(BufReader::new).into_iter().flat_map(BufRead::lines);
        let (Some(child), Some(Ok(port))) = (child, lines.next()) else {
            eprintln!("skipped: there is no S3 server; scripts/setup tests installs one");
            return None;
        };
        let mut keys = || {
            let line = lines.next().and_then(Result::ok).unwrap_or_default();
            let (id, secret) = line.split_once(' ').expect("two words");
            Keys {
                id: id.to_owned(),
                secret: secret.to_owned(),
            }
        };
        let port: u16 = port.parse().expect("a port");
        let endpoint = match certificate {
            Some(_) => format!("https://localhost:{port}"),
            None => format!("http://127.0.0.1:{port}"),
        };
        Some(Self {
            endpoint,
            all: keys(),
            none: keys(),
            child,
        })
    }

    /// The location of a prefix in the server's bucket.
    #[must_use]
    pub fn location(&self, prefix: &str) -> String {
        format!("s3:{}/{BUCKET}/{prefix}", self.endpoint)
    }

    /// Another bucket, which does not exist.
    #[must_use]
    pub fn no_bucket(&self) -> String {
        format!("s3:{}/none/x", self.endpoint)
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
