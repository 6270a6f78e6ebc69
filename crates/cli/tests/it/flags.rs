//! Every flag that `--help` shows is used by a test of the program.
//!
//! The first test reads the help of every command, and the tests beside it. The others are of flags
//! that no other file is about.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bed::{Bed, last, lines, noise, wait_until};
use crate::pooled::Pooled;
use crate::served::{Served, files_below, start_with};

/// The flags in a help text, without those that every command has.
fn flags_of(help: &str) -> BTreeSet<String> {
    let own = help.split("Options of every command").next().unwrap();
    let flag = |line: &str| {
        let line = line.trim_start();
        let line = line
            .strip_prefix('-')
            .filter(|rest| !rest.starts_with('-'))
            .map_or(line, |rest| rest.split_once(", ").map_or("", |(_, long)| long));
        let name = line.strip_prefix("--")?;
        let end = name
            .find(|letter: char| !letter.is_ascii_lowercase() && letter != '-' && !letter.is_ascii_digit());
        Some(name[..end.unwrap_or(name.len())].to_owned())
    };
    own.lines().filter_map(flag).collect()
}

/// The words of the commands below one.
fn commands_of(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("Commands:\n") else {
        return Vec::new();
    };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let word = |line: &str| {
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        Some(name.split(' ').next()?.to_owned())
    };
    lines.filter_map(word).filter(|word| word != "help").collect()
}

#[test]
fn no_flag_is_without_a_test() {
    let bed = Bed::bare();
    let help = |words: &[String]| {
        let ran = bed.plain().args(words).arg("--help").output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let mut used = String::new();
    for file in fs::read_dir(tests).unwrap() {
        used.push_str(&fs::read_to_string(file.unwrap().path()).unwrap());
    }
    let is_used = |flag: &str| {
        ["\"", "=", " ", "'"]
            .iter()
            .any(|end| used.contains(&format!("--{flag}{end}")))
    };
    let mut untested: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut open = vec![Vec::new()];
    let mut commands = 0;
    while let Some(words) = open.pop() {
        let text = help(&words);
        commands += 1;
        for flag in flags_of(&text) {
            if !["help", "version"].contains(&&*flag) && !is_used(&flag) {
                untested.entry(flag).or_default().push(words.join(" "));
            }
        }
        open.extend(
            commands_of(&text)
                .into_iter()
                .map(|word| [&words[..], &[word]].concat()),
        );
    }
    assert!(commands > 40, "the help of {commands} commands was read");
    assert!(untested.is_empty(), "no test uses these: {untested:#?}");
}

#[test]
fn each_rule_of_forget_keeps_what_it_says() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    for text in ["1", "2"] {
        fs::write(bed.path("src/file"), text).unwrap();
        bed.ok(["backup", "src"]);
    }
    let newest = bed.backups()[1];
    for rule in ["hourly", "daily", "weekly", "monthly", "yearly"] {
        let ran = bed.ok(["forget", "-n", "--json", &format!("--keep-{rule}"), "1"]);
        let group = lines(&ran.out)
            .into_iter()
            .find(|line| line["message_type"] == "group")
            .unwrap();
        // Between two hours, both would stay.
        if group["keep"].as_array().unwrap().len() == 1 {
            assert_eq!(group["keep"][0]["id"], newest, "{rule}");
            assert!(group["keep"][0]["reasons"].to_string().contains(rule), "{group}");
        }
    }
    for flag in [
        "--keep-hourly",
        "--keep-weekly",
        "--keep-monthly",
        "--keep-yearly",
    ] {
        bed.run(["forget", "-n", flag, "some"]).expect(2);
    }
}

/// A prune does not remove what a lost backup may need, unless it is told to.
#[test]
fn data_of_lost_backups_are_removed_if_that_was_asked() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/file"), noise(2 << 20, 1)).unwrap();
    bed.ok(["backup", "src"]);
    for manifest in bed.objects("backups") {
        fs::remove_file(manifest).unwrap();
    }
    bed.run(["prune", "--all"])
        .expect(1)
        .says(&["--allow-missing-manifests"]);
    assert!(!bed.objects("data").is_empty());
    bed.ok(["prune", "--allow-missing-manifests"]);
    assert!(bed.objects("data").is_empty());
}

#[test]
fn files_are_found_with_letters_of_either_case() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/Letter"), "").unwrap();
    bed.ok(["backup", "src"]);
    assert!(!bed.run(["find", "letter"]).out().contains("Letter"));
    assert!(
        bed.ok(["find", "--ignore-case", "letter"])
            .out()
            .contains("Letter")
    );
}

#[test]
fn any_number_of_requests_restores_the_same() {
    let bed = Bed::new();
    let bytes = noise(5 << 20, 1);
    bed.fed(["backup", "--stdin", "--stdin-filename", "it"], &bytes)
        .expect(0);
    for count in ["1", "7"] {
        assert_eq!(bed.ok(["dump", "latest", "--requests", count]).out, bytes);
    }
    bed.run(["dump", "latest", "--requests", "0"]).expect(2);
}

#[test]
fn images_are_analyzed_with_chunks_of_one_length() {
    let bed = Bed::bare();
    fs::write(bed.path("disk"), noise(3 << 20, 1)).unwrap();
    bed.ok(["analyze", "--images", "--output", "images.html", "disk"]);
    bed.ok(["analyze", "--output", "files.html", "disk"]);
    let text = |name: &str| fs::read_to_string(bed.path(name)).unwrap();
    assert!(text("images.html").contains("--image-kib") && !text("files.html").contains("--image-kib"));
}

#[test]
fn tokens_have_a_label_and_an_end() {
    let served = Served::new();
    let invite = [
        "server",
        "invite",
        "srv",
        "--namespace",
        "web",
        "--days",
        "30",
        "--json",
    ];
    let ran = served
        .operator(&[&invite[..], &["--address", &served.place]].concat())
        .expect(0);
    let invitation = last(&ran)["invitation"].as_str().unwrap().to_owned();
    let mut command = served.bed.plain();
    command
        .env("ONEFOLD_CONFIG_DIR", served.bed.path("conf"))
        .env_remove("ONEFOLD_REPOSITORY");
    command.args(["join", "-", "--label", "the laptop"]);
    let secret = served.bed.path("invitation");
    std::fs::write(&secret, format!("{invitation}\n")).unwrap();
    command.stdin(std::fs::File::open(&secret).unwrap());
    crate::served::ran(command).expect(0);
    let listed = served
        .operator(&["server", "token", "list", "srv"])
        .expect(0)
        .out();
    assert!(listed.contains("the laptop"), "{listed}");
    let until = served
        .operator(&["server", "token", "list", "srv", "--json"])
        .expect(0);
    let until = lines(&until.out);
    assert!(until.iter().any(|line| line["until"].is_string()), "{until:?}");
    served.end();
}

#[test]
fn limits_of_a_server_are_taken() {
    let mut served = Served::new();
    served.machine("a", "web", "write,list,read");
    let set = ["server", "namespace", "set", "srv", "web", "--rate", "10M"];
    served.operator(&set).expect(0);
    let listed = served
        .operator(&["server", "namespace", "list", "srv"])
        .expect(0)
        .out();
    assert!(listed.contains("10"), "{listed}");
    served.kill();
    let place = served.place.clone();
    let less = ["--memory-mib", "288", "--patience", "1"];
    (served.child, served.place) = start_with(&served.bed, &place, &less);
    // So little memory is for two backups, and for one of an owner.
    let machine = served.machine("b", "web", "write,list,read");
    let [mut first, mut second] = [(); 2].map(|()| {
        let mut command = machine.command(&["backup", "--stdin"]);
        command.stdin(Stdio::piped());
        command
    });
    let mut first = first.spawn().unwrap();
    first.stdin.as_mut().unwrap().write_all(b"not all of it").unwrap();
    wait_until(|| !files_below(&served.bed, "sessions").is_empty());
    let mut second = second.spawn().unwrap();
    second.stdin.take().unwrap().write_all(b"all of it").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(second.try_wait().unwrap().is_none(), "it waits for the first one");
    // By default it would wait half a minute for the first one.
    let began = Instant::now();
    served.end();
    assert!(began.elapsed() < Duration::from_secs(20));
    for child in [&mut first, &mut second] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let bed = Bed::bare();
    bed.run(["serve", "srv", "--memory-mib", "100"]).expect(2);
    bed.run(["serve", "srv", "--patience", "long"]).expect(2);
}

/// Whether a client without TLS reads a volume of a server with these arguments.
fn is_served_without_tls(pooled: &mut Pooled, more: &[&str]) -> bool {
    let place = ["--listen", "tcp:127.0.0.1:0"];
    pooled.serve_with(&[&place[..], more].concat(), 1);
    let told = &pooled.serving.as_ref().unwrap().told;
    let address = told[0]["address"].as_str().unwrap().strip_prefix("tcp:").unwrap();
    let stream = std::net::TcpStream::connect(address).unwrap();
    let client = volume_server::client::Client::open(stream, &Default::default());
    let is_served = client.is_ok_and(|mut client| client.read(0, 4096).is_ok());
    pooled.end();
    is_served
}

/// Whether `nbdinfo` with the certificates in each of these folders reads the size of a volume.
/// `None`: there is no such program.
fn are_served_with_tls(pooled: &mut Pooled, more: &[&str], folders: &[&Path]) -> Option<Vec<bool>> {
    let place = ["--listen", "tcp:127.0.0.1:0"];
    pooled.serve_with(&[&place[..], more].concat(), 1);
    let told = &pooled.serving.as_ref().unwrap().told;
    let port = told[0]["address"].as_str().unwrap().rsplit_once(':').unwrap().1;
    let is_served = |folder: &&Path| {
        let uri = format!("nbds://localhost:{port}/a?tls-certificates={}", folder.display());
        let ran = Command::new("nbdinfo").args(["--size", &uri]).output().ok()?;
        Some(ran.status.success() && ran.stdout == b"8388608\n")
    };
    let served = folders.iter().map(is_served).collect();
    pooled.end();
    served
}

#[test]
fn clients_without_tls_are_served_if_that_was_asked() {
    let mut pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "a", "8M"]);
    let folder = pooled.bed.path("");
    testfs::put_certificates(&folder);
    let tls = [
        "--tls-certificate",
        "server-cert.pem",
        "--tls-key",
        "server-key.pem",
    ];
    let with = |more: &[&'static str]| [&tls[..], more].concat();
    assert!(!is_served_without_tls(&mut pooled, &with(&[])));
    assert!(is_served_without_tls(&mut pooled, &with(&["--tls-optional"])));
    let named = with(&["--tls-clients", "ca-cert.pem"]);
    assert!(!is_served_without_tls(&mut pooled, &named));
    // A client that trusts the authority, and has no certificate of it.
    let stranger = pooled.bed.path("stranger");
    fs::create_dir(&stranger).unwrap();
    fs::copy(folder.join("ca-cert.pem"), stranger.join("ca-cert.pem")).unwrap();
    for (flags, serves_stranger) in [(with(&[]), true), (named, false)] {
        if let Some(served) = are_served_with_tls(&mut pooled, &flags, &[&folder, &stranger]) {
            assert_eq!(served, [true, serves_stranger], "{flags:?}");
        }
    }
    let caches = ["--map-cache", "4M", "--index-cache", "8M", "--patience", "1"];
    assert!(is_served_without_tls(&mut pooled, &caches));
    pooled
        .run(&[
            "volume",
            "serve",
            "pool",
            "--listen",
            "unix:s",
            "--map-cache",
            "many",
        ])
        .expect(2);
    pooled.assert_sound();
}
