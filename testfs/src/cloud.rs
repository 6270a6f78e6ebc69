//! The services of Google and Azure in memory, for tests: a program in Python, which needs nothing
//! beside Python.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::BUCKET;

/// Whose service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cloud {
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
}

/// A running service with one empty bucket. Dropping it ends it.
#[derive(Debug)]
pub struct CloudServer {
    child: Child,
    cloud: Cloud,
    port: u16,
}

impl CloudServer {
    /// Starts a service on a port of its own. With `overwrites` it ignores conditions. Prints why
    /// and returns `None` if there is no Python.
    ///
    /// # Panics
    /// If it starts and says something else than its port.
    #[must_use]
    pub fn start(cloud: Cloud, overwrites: bool) -> Option<Self> {
        let word = match cloud {
            Cloud::Google => "google",
            Cloud::Azure => "azure",
        };
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("cloud-server.py");
        let mut child = Command::new("python3")
            .arg(program)
            .arg(word)
            .args(overwrites.then_some("overwrites"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok();
        let out = child.as_mut().and_then(|child| child.stdout.take());
        let line = out.and_then(|out| BufReader::new(out).lines().next()?.ok());
        let (Some(child), Some(port)) = (child, line) else {
            eprintln!("skipped: there is no python3");
            return None;
        };
        let port = port.parse().expect("a port");
        Some(Self { child, cloud, port })
    }

    /// The location of a prefix in its bucket.
    #[must_use]
    pub fn location(&self, prefix: &str) -> String {
        match self.cloud {
            Cloud::Google => format!("gs:{BUCKET}/{prefix}"),
            Cloud::Azure => format!("azure:{BUCKET}/{prefix}"),
        }
    }

    /// The storage class that an object was put with.
    ///
    /// # Panics
    /// If the service does not answer.
    #[must_use]
    pub fn class_of(&self, name: &str) -> String {
        let account = match self.cloud {
            Cloud::Google => "",
            Cloud::Azure => "account/",
        };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the service listens");
        let request = format!(
            "HEAD /{account}{BUCKET}/{name} HTTP/1.1\r\nHost: x\r\nAuthorization: SharedKey account:x\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("the service reads");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let class = lines.find_map(|line| line.strip_prefix("x-test-class: ").map(str::to_owned));
        class.expect("the object has a class, or none")
    }

    /// The variable of the environment that leads to it, and its value.
    #[must_use]
    pub fn variable(&self) -> (&'static str, String) {
        let port = self.port;
        match self.cloud {
            Cloud::Google => ("STORAGE_EMULATOR_HOST", format!("127.0.0.1:{port}")),
            Cloud::Azure => (
                "AZURE_STORAGE_CONNECTION_STRING",
                format!("AccountName=account;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:{port}/account"),
            ),
        }
    }
}

impl Drop for CloudServer {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
