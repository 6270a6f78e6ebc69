//! Volumes with the programs that users attach them with: qemu-img, nbdfuse, a file system. Without
//! these programs, tests are skipped.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, getuid};

use crate::bed::{last, noise, signal, wait_until};
use crate::pooled::{MIB, Pooled, number};
use crate::sources::skip;

/// Whether all of these programs are installed. Says it if not.
fn have(programs: &[&str]) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |program: &&&str| std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    let missing: Vec<_> = programs.iter().filter(|program| !is_there(program)).collect();
    if !missing.is_empty() {
        skip(&format!("not installed: {missing:?}"));
    }
    missing.is_empty()
}

#[track_caller]
fn do_run(program: &str, args: &[&str]) {
    let out = Command::new(program).args(args).output().unwrap();
    assert!(
        out.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
fn an_image_is_converted_into_a_volume_and_compared() {
    if !have(&["qemu-img"]) {
        return;
    }
    let mut pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "disk", "64M"]);
    pooled.serve();
    let image = pooled.bed.path("image");
    let file = fs::File::create(&image).unwrap();
    file.set_len(64 << 20).unwrap();
    for (seed, at) in [(1, 0), (2, 20 << 20), (1, 40 << 20)] {
        std::os::unix::fs::FileExt::write_all_at(&file, &noise(8 << 20, seed), at).unwrap();
    }
    let (image, uri) = (image.display().to_string(), pooled.uri("disk"));
    do_run(
        "qemu-img",
        &["convert", "-n", "-f", "raw", "-O", "raw", &image, &uri],
    );
    do_run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, &uri]);
    let drained = last(&pooled.ok(&["volume", "drain", "pool", "disk", "--json"]));
    assert_eq!(number(&drained, "shared_bytes"), 8 * MIB);
    assert_eq!(
        number(&pooled.stats(), "mapped_bytes"),
        24 * MIB,
        "holes take no space"
    );
    do_run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, &uri]);
    pooled.end();
    pooled.assert_sound();
}

/// A volume as a file, by nbdfuse. It and its mounts end when it is dropped.
struct Attached<'a> {
    nbdfuse: Child,
    mounts: Vec<&'a Path>,
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        for folder in self.mounts.iter().rev() {
            // It may be unmounted.
            drop(Command::new("umount").arg(folder).stderr(Stdio::null()).status());
        }
        signal(&self.nbdfuse, Signal::TERM);
        drop(self.nbdfuse.wait());
    }
}

#[test]
fn a_file_system_in_a_volume_shares_its_blocks_and_survives_the_server() {
    if !getuid().is_root() {
        skip("only the superuser mounts");
        return;
    }
    if !have(&["nbdfuse", "mkfs.ext4", "mount", "umount"]) || !Path::new("/dev/fuse").exists() {
        return;
    }
    let mut pooled = Pooled::new();
    pooled.ok(&["volume", "create", "pool", "disk", "96M", "--interval", "1h"]);
    pooled.serve();
    let (fuse, mount) = (pooled.bed.path("fuse"), pooled.bed.path("mount"));
    for folder in [&fuse, &mount] {
        fs::create_dir(folder).unwrap();
    }
    let attach = |uri: &str| {
        let nbdfuse = Command::new("nbdfuse")
            .arg(fuse.join("disk"))
            .arg(uri)
            .spawn()
            .unwrap();
        let attached = Attached {
            nbdfuse,
            mounts: vec![&fuse],
        };
        wait_until(|| fuse.join("disk").exists());
        attached
    };
    let disk = fuse.join("disk").display().to_string();
    let mounted = mount.display().to_string();
    let mut attached = attach(&pooled.uri("disk"));
    do_run("mkfs.ext4", &["-q", "-b", "4096", "-E", "nodiscard", &disk]);
    let tried = Command::new("mount")
        .args(["-o", "loop", &disk, &mounted])
        .output()
        .unwrap();
    if !tried.status.success() {
        skip(&format!("mount: {}", String::from_utf8_lossy(&tried.stderr)));
        return;
    }
    attached.mounts.push(&mount);
    for name in ["first", "second", "third"] {
        fs::write(mount.join(name), noise(16 << 20, 9)).unwrap();
    }
    do_run("umount", &[&mounted]);
    drop(attached);
    pooled.wait_for_no_client();
    let before = pooled.stats();
    assert!(number(&before, "mapped_bytes") >= 48 * MIB, "{before}");
    pooled.ok(&["volume", "drain", "pool"]);
    let after = pooled.stats();
    assert!(number(&after, "shared_bytes") >= 32 * MIB, "{after}");
    assert!(
        number(&after, "free_bytes") >= number(&before, "free_bytes") + 28 * MIB,
        "{before} {after}"
    );
    pooled.kill();
    pooled.serve();
    let mut attached = attach(&pooled.uri("disk"));
    do_run("mount", &["-o", "loop,ro,noload", &disk, &mounted]);
    attached.mounts.push(&mount);
    for name in ["first", "second", "third"] {
        assert!(
            fs::read(mount.join(name)).unwrap() == noise(16 << 20, 9),
            "{name}"
        );
    }
    do_run("umount", &[&mounted]);
    drop(attached);
    pooled.wait_for_no_client();
    pooled.end();
    pooled.assert_sound();
}

/// Writes the image into the volume twice, through the file that nbdfuse makes of it if that runs
/// here.
fn write_twice(pooled: &Pooled, disk: Option<&Path>) {
    let image = noise(64 << 20, 4);
    for at in [0, 64 * MIB] {
        match disk {
            Some(disk) => {
                let file = fs::File::options().write(true).open(disk).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, &image, at).unwrap();
                file.sync_all().unwrap();
            }
            None => {
                let mut client = pooled.client("web");
                for (number, part) in image.chunks(1 << 20).enumerate() {
                    let at = at + number as u64 * MIB;
                    client.write(at, part, nbd::CommandFlags::default()).unwrap();
                }
                client.close().unwrap();
            }
        }
    }
}

/// The README's lines about volumes work and print what it says, besides names of files.
#[test]
fn the_readme_is_right_about_volumes() {
    let readme = include_str!("../../../../README.md");
    let block = readme.split("Disks of virtual machines").nth(1).unwrap();
    let block = block.split("Verbs, exit codes").next().unwrap();
    let mut pooled = Pooled {
        bed: crate::bed::Bed::bare(),
        serving: None,
    };
    let fuse = pooled.bed.path("web");
    let attaches = getuid().is_root() && have(&["nbdfuse", "umount"]) && Path::new("/dev/fuse").exists();
    let (mut printed, mut done, mut attached) = (String::new(), 0, None);
    let named = |text: &str| {
        text.replace("/srv/vm.pool", "pool")
            .replace("/run/vm.sock", "s")
            .replace("/mnt/web", &fuse.display().to_string())
            .replace('\'', "")
    };
    for line in block.lines().filter_map(|line| line.strip_prefix("    ")) {
        let Some(words) = line.strip_prefix("$ ") else {
            // `...` is output that the README leaves out.
            for part in named(line).split("...") {
                assert!(printed.contains(part.trim_end()), "{part:?} in {printed:?}");
            }
            continue;
        };
        let words = named(words);
        let words: Vec<&str> = words.split(' ').collect();
        match &words[..] {
            ["onefold", "volume", "serve", "pool", more @ .., "&"] => {
                pooled.serve_with(more, 1);
                let address = &pooled.serving.as_ref().unwrap().told[0]["address"];
                printed = format!("listening on {}", address.as_str().unwrap());
            }
            ["onefold", words @ ..] => printed = pooled.ok(words).out(),
            ["mkdir", folder] => fs::create_dir(folder).unwrap(),
            ["nbdfuse", disk, uri, "&"] => {
                assert_eq!(*uri, "nbd+unix:///web?socket=s");
                if attaches {
                    let nbdfuse = Command::new("nbdfuse")
                        .args([disk, uri])
                        .current_dir(pooled.bed.path(""))
                        .spawn()
                        .unwrap();
                    attached = Some(Attached {
                        nbdfuse,
                        mounts: vec![&fuse],
                    });
                    wait_until(|| Path::new(disk).exists());
                }
                write_twice(&pooled, attached.as_ref().map(|_| Path::new(*disk)));
            }
            other => panic!("an unknown line: {other:?}"),
        }
        done += 1;
    }
    assert_eq!(done, 7);
    drop(attached);
    pooled.wait_for_no_client();
    pooled.end();
    pooled.assert_sound();
}
