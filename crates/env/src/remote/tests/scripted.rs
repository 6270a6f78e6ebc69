//! A server that loses answers, over HTTP: what a client repeats, and what it makes of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;

use types::ObjectName;

use super::{ObjectStoreLocation, ObjectStoreStorage, PUT_ID, Storage, StorageError};

/// Answers a request, of which it has the lines of all so far. `None`: the connection breaks.
type Answer = fn(&[Vec<String>]) -> Option<String>;

fn listed(_: &[Vec<String>]) -> Option<String> {
    let body = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    Some(with_body("200 OK", body))
}

fn broken(_: &[Vec<String>]) -> Option<String> {
    None
}

fn busy(_: &[Vec<String>]) -> Option<String> {
    Some(with_body("503 Slow Down", "<Error><Code>SlowDown</Code></Error>"))
}

fn taken(_: &[Vec<String>]) -> Option<String> {
    let body = "<Error><Code>PreconditionFailed</Code></Error>";
    Some(with_body("412 Precondition Failed", body))
}

fn missing(_: &[Vec<String>]) -> Option<String> {
    Some(with_body("404 Not Found", ""))
}

/// The answer begins, and the connection breaks.
fn cut(_: &[Vec<String>]) -> Option<String> {
    Some("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n<ListBucketResult>".to_owned())
}

fn gone(_: &[Vec<String>]) -> Option<String> {
    Some("HTTP/1.1 204 No Content\r\n\r\n".to_owned())
}

fn created(_: &[Vec<String>]) -> Option<String> {
    Some("HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 0\r\n\r\n".to_owned())
}

/// The object with the metadata of the first put.
fn own(requests: &[Vec<String>]) -> Option<String> {
    let is_id = |line: &&String| line.starts_with(&format!("x-amz-meta-{PUT_ID}: "));
    let id = requests.iter().flatten().find(is_id)?;
    Some(format!("{FOUND}{id}\r\n\r\n"))
}

fn of_a_rival(_: &[Vec<String>]) -> Option<String> {
    Some(format!("{FOUND}x-amz-meta-{PUT_ID}: another\r\n\r\n"))
}

const FOUND: &str = "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nLast-Modified: Thu, 26 Nov 2026 15:00:00 GMT\r\n\
                     Content-Length: 3\r\n";

fn with_body(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Serves a connection for each answer. Returns the lines of each request.
fn serve(listener: &TcpListener, answers: &[Answer]) -> Vec<Vec<String>> {
    let mut requests: Vec<Vec<String>> = Vec::new();
    for answer in answers {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let lines: Vec<String> = reader
            .by_ref()
            .lines()
            .map(Result::unwrap)
            .take_while(|line| !line.is_empty())
            .collect();
        let len = lines
            .iter()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; len.map_or(0, |len| len.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        requests.push(lines);
        if let Some(answer) = answer(&requests) {
            let answer = answer.replacen("\r\n", "\r\nConnection: close\r\n", 1);
            (&stream).write_all(answer.as_bytes()).unwrap();
        }
    }
    requests
}

/// Opens a storage, and puts an object there. The outcome, and the methods of the requests.
fn put_at(answers: &'static [Answer]) -> (Result<(), StorageError>, Vec<String>) {
    let (put, requests) = put_with(answers, &[]);
    let word = |lines: &Vec<String>| lines[0].split(' ').next().unwrap().to_owned();
    (put, requests.iter().map(word).collect())
}

/// The same with these variables, and all lines of the requests.
fn put_with(
    answers: &'static [Answer],
    set: &[(&str, &str)],
) -> (Result<(), StorageError>, Vec<Vec<String>>) {
    served(answers, set, |storage| {
        storage.put(&ObjectName::new("a").unwrap(), &[b"own"])
    })
}

/// Opens a storage with these variables, and uses it. What came of it, and all lines of the
/// requests.
fn served<T>(
    answers: &'static [Answer],
    set: &[(&str, &str)],
    act: impl FnOnce(&ObjectStoreStorage) -> T,
) -> (T, Vec<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("s3:http://{}/b/p", listener.local_addr().unwrap());
    let server = thread::spawn(move || serve(&listener, answers));
    let location: ObjectStoreLocation = place.parse().unwrap();
    let keys = [("AWS_ACCESS_KEY_ID", "i"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let all = [&keys[..], set].concat();
    let variable = |name: &str| {
        let found = all.iter().find(|(set, _)| *set == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let options = crate::ObjectStoreOptions::default();
    let storage = ObjectStoreStorage::open_with(&location, &options, &variable).unwrap();
    let done = act(&storage);
    (done, server.join().unwrap())
}

#[test]
fn requests_are_repeated_while_nothing_answers() {
    let (put, methods) = put_at(&[broken, busy, listed, busy, created]);
    put.unwrap();
    assert_eq!(methods, ["GET", "GET", "GET", "PUT", "PUT"]);
}

/// The library repeats neither.
#[test]
fn listings_and_deletes_that_broke_off_are_repeated() {
    let (listed, requests) = served(&[listed, cut, listed], &[], |storage| storage.list("data"));
    assert!(listed.unwrap().is_empty());
    assert_eq!(requests.len(), 3);
    let delete = |storage: &ObjectStoreStorage| storage.delete(&ObjectName::new("a").unwrap());
    let methods = |requests: &[Vec<String>]| {
        let words = requests[1..]
            .iter()
            .map(|lines| lines[0].split(' ').next().unwrap());
        words.collect::<Vec<_>>().join(" ")
    };
    for last in [
        &[self::listed, of_a_rival, broken, gone],
        &[self::listed, of_a_rival, broken, missing],
    ] {
        let last: &'static [Answer] = last;
        let (deleted, requests) = served(last, &[], delete);
        deleted.unwrap();
        assert_eq!(methods(&requests), "HEAD DELETE DELETE");
    }
    let (deleted, _) = served(&[self::listed, missing], &[], delete);
    assert!(
        matches!(deleted, Err(StorageError::NotFound { .. })),
        "{deleted:?}"
    );
}

#[test]
fn a_put_whose_answer_was_lost_is_told_from_a_rivals() {
    let (put, methods) = put_at(&[listed, broken, taken, own]);
    put.unwrap();
    assert_eq!(methods, ["GET", "PUT", "PUT", "HEAD"]);
    let (put, _) = put_at(&[listed, broken, taken, of_a_rival]);
    assert!(matches!(put, Err(StorageError::AlreadyExists { .. })), "{put:?}");
    // It was deleted between the two requests.
    let (put, methods) = put_at(&[listed, taken, missing, created]);
    put.unwrap();
    assert_eq!(methods, ["GET", "PUT", "HEAD", "PUT"]);
}

#[test]
fn without_tls_a_put_is_signed_with_its_bytes_and_has_a_checksum_on_request() {
    // SHA-256 of `own`, as hexadecimal digits and in base 64.
    let (digits, base) = (
        "5b3975651c3cab92d044c096dc30a1c2d9525497457472de48c51ecb363d1f4a",
        "Wzl1ZRw8q5LQRMCW3DChwtlSVJdFdHLeSMUeyzY9H0o=",
    );
    for (set, sum) in [
        (&[][..], None),
        (
            &[("AWS_REQUEST_CHECKSUM_CALCULATION", "when_supported")],
            Some(base),
        ),
    ] {
        let (put, requests) = put_with(&[listed, created], set);
        put.unwrap();
        let header = |name: &str| {
            let name = format!("{name}: ");
            requests[1].iter().find_map(|line| line.strip_prefix(&name))
        };
        assert_eq!(header("x-amz-content-sha256"), Some(digits));
        assert_eq!(header("x-amz-checksum-sha256"), sum);
    }
}
