//! Disks: loop devices over files. The superuser alone can make them; other users skip these tests.

use std::process::Command;
use std::time::Duration;

use super::*;
use crate::block::conformance::{Abilities, LEN_MIN, check, check_reopened};
use crate::{Clock, SystemClock};

/// A loop device over a file. Dropping it detaches it.
struct Disk {
    path: PathBuf,
}

impl Disk {
    /// Prints why and returns `None` if this is impossible here.
    fn over(file: &Path) -> Option<Self> {
        let made = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(file)
            .output();
        match made {
            Ok(output) if output.status.success() => {
                let path = String::from_utf8(output.stdout).unwrap();
                Some(Self {
                    path: PathBuf::from(path.trim()),
                })
            }
            other => {
                println!("skipped: no loop device: {other:?}");
                None
            }
        }
    }

    fn refresh(&self) {
        run(Command::new("losetup").arg("--set-capacity").arg(&self.path));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        Command::new("losetup")
            .arg("--detach")
            .arg(&self.path)
            .output()
            .ok();
    }
}

/// A mounted file system. Dropping it unmounts it.
struct Mounted(PathBuf);

impl Mounted {
    /// Prints why and returns `None` if this is impossible here.
    fn new(at: &Path, arguments: &[&str]) -> Option<Self> {
        let made = Command::new("mount").args(arguments).arg(at).output();
        match made {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            other => {
                println!("skipped: no mount: {other:?}");
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).output().ok();
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn sparse(path: &Path, len: u64) {
    File::create(path).unwrap().set_len(len).unwrap();
}

#[test]
fn a_disk_passes_the_suite() {
    let folder = folder();
    let file = folder.path().join("disk");
    for caching in [CACHED, FileCaching::Direct] {
        sparse(&file, LEN_MIN);
        let Some(disk) = Disk::over(&file) else { return };
        let device = FileDevice::create(&disk.path, LEN_MIN, caching).unwrap();
        assert!(device.is_disk());
        check(
            &device,
            Abilities {
                is_zeros: true,
                grows: false,
            },
        );
        drop(device);
        check_reopened(|| Box::new(FileDevice::open(&disk.path, caching).unwrap()));
    }
}

#[test]
fn a_disk_has_one_writer_or_many_readers_and_grows_with_its_owner() {
    let folder = folder();
    let file = folder.path().join("disk");
    sparse(&file, 1 << 20);
    let Some(disk) = Disk::over(&file) else { return };
    match FileDevice::create(&disk.path, 2 << 20, CACHED) {
        Err(DeviceError::TooShort { len, wanted, .. }) => assert_eq!((len, wanted), (1 << 20, 2 << 20)),
        other => panic!("{other:?}"),
    }
    let writer = FileDevice::open(&disk.path, CACHED).unwrap();
    assert!(is_in_use(FileDevice::open(&disk.path, CACHED)));
    assert!(is_in_use(FileDevice::open_read_only(&disk.path, CACHED)));

    let longer = fs::OpenOptions::new().write(true).open(&file).unwrap();
    longer.set_len(2 << 20).unwrap();
    disk.refresh();
    assert_eq!(writer.len(), 1 << 20, "the length is as it was told");
    writer.grow(0).unwrap();
    assert_eq!(writer.len(), 2 << 20);
    writer.write_at(1 << 20, &[5; BLOCK_LEN]).unwrap();
    drop(writer);

    let readers = [(); 2].map(|()| FileDevice::open_read_only(&disk.path, CACHED).unwrap());
    assert!(is_in_use(FileDevice::open(&disk.path, CACHED)));
    assert_eq!(read(&readers[0], 256), [5; BLOCK_LEN]);
}

#[test]
fn a_disk_is_waited_for_while_a_process_starts() {
    let folder = folder();
    let file = folder.path().join("disk");
    sparse(&file, 1 << 20);
    let Some(disk) = Disk::over(&file) else { return };
    let writer = FileDevice::open(&disk.path, CACHED).unwrap();
    // As a new process has it, until it runs its own program.
    let copy = writer.file.try_clone().unwrap();
    drop(writer);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            SystemClock.sleep(Duration::from_millis(5));
            drop(copy);
        });
        FileDevice::open(&disk.path, CACHED).unwrap();
    });
}

#[test]
fn a_discard_of_a_disk_gives_space_back() {
    let folder = folder();
    let file = folder.path().join("disk");
    sparse(&file, 4 << 20);
    let Some(disk) = Disk::over(&file) else { return };
    let device = FileDevice::open(&disk.path, CACHED).unwrap();
    device.write_at(0, &vec![7; 4 << 20]).unwrap();
    device.flush().unwrap();
    let space = || fs::metadata(&file).unwrap().blocks() * 512;
    assert!(space() >= 4 << 20);
    device.discard(1 << 20, 2 << 20).unwrap();
    device.flush().unwrap();
    assert!(space() < 3 << 20, "{} bytes", space());
    assert_eq!(read(&device, 255), [7; BLOCK_LEN]);
    assert_eq!(read(&device, 768), [7; BLOCK_LEN]);
}

#[test]
fn a_mounted_disk_is_in_use() {
    let folder = folder();
    let (file, at) = (folder.path().join("disk"), folder.path().join("at"));
    sparse(&file, 4 << 20);
    fs::create_dir(&at).unwrap();
    let Some(disk) = Disk::over(&file) else { return };
    if let Err(error) = Command::new("mkfs.ext4").arg("-q").arg(&disk.path).status() {
        println!("skipped: mkfs.ext4: {error}");
        return;
    }
    let Some(mounted) = Mounted::new(&at, &[disk.path.to_str().unwrap()]) else {
        return;
    };
    assert!(is_in_use(FileDevice::open(&disk.path, CACHED)));
    assert!(is_in_use(FileDevice::create(
        &disk.path,
        1 << 20,
        FileCaching::Direct
    )));
    drop(mounted);
    FileDevice::open(&disk.path, CACHED).unwrap();
}

#[test]
fn a_disk_that_loses_pages_poisons_the_device() {
    let folder = folder();
    let at = folder.path().join("at");
    fs::create_dir(&at).unwrap();
    let Some(_mounted) = Mounted::new(&at, &["-t", "tmpfs", "-o", "size=1m", "none"]) else {
        return;
    };
    let file = at.join("disk");
    sparse(&file, 8 << 20);
    let Some(disk) = Disk::over(&file) else { return };
    let device = FileDevice::open(&disk.path, CACHED).unwrap();
    // The pages have room in memory, and none on the disk.
    device.write_at(0, &vec![7; 4 << 20]).unwrap();
    device.flush().unwrap_err();
    let outcome = device.flush();
    assert!(
        matches!(outcome, Err(DeviceError::Poisoned { .. })),
        "{outcome:?}"
    );
    let outcome = device.write_at(0, &[7; BLOCK_LEN]);
    assert!(
        matches!(outcome, Err(DeviceError::Poisoned { .. })),
        "{outcome:?}"
    );
}
