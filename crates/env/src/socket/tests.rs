use std::mem::MaybeUninit;
use std::os::unix::fs::symlink;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use super::*;
use crate::{Clock, SystemClock};

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_socket_has_its_mode_before_it_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o660, 0o666] {
        let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watch, folder.path(), WatchFlags::ALL_EVENTS).unwrap();
        let path = folder.path().join("s");
        let (socket, _) = listen(&path, mode).unwrap();
        let mut bytes = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&watch, &mut bytes);
        let mut of_socket = Vec::new();
        while let Ok(event) = events.next() {
            if event.file_name().is_some_and(|name| name.to_bytes() == b"s") {
                of_socket.push(event.events());
            }
        }
        // The one of the turn before was left.
        of_socket.retain(|event| *event != ReadFlags::DELETE);
        assert_eq!(
            of_socket,
            [ReadFlags::MOVED_TO],
            "it is neither made nor changed there"
        );
        assert_eq!(mode_of(&path), mode);
        assert_eq!(names(folder.path()), ["s"]);
        UnixStream::connect(&path).unwrap();
        socket.accept().unwrap();
        drop(socket);
    }
}

#[test]
fn nobody_else_may_enter_the_folder_in_which_it_is_bound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let place = Place::of(&path).unwrap();
    let new = NewFolder::create(&place).unwrap();
    let made = folder.path().join(&new.name);
    assert_eq!(mode_of(&made), 0o700);
    // A killed process left one: the next has another name, and removes only its own.
    fs::create_dir(folder.path().join(".listen-1")).unwrap();
    let other = NewFolder::create(&place).unwrap();
    assert_eq!(other.name, ".listen-2");
    drop((new, other));
    assert_eq!(names(folder.path()), [".listen-1"]);
}

#[test]
fn a_socket_is_replaced_only_if_nobody_is_at_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let first = listen(&path, 0o600).unwrap();
    let kept = fs::symlink_metadata(&path).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino;
    assert!(matches!(listen(&path, 0o600), Err(SocketError::InUse)));
    assert_eq!(inode(&fs::symlink_metadata(&path).unwrap()), inode(&kept));
    drop(first);
    let second = listen(&path, 0o600).unwrap();
    UnixStream::connect(&path).unwrap();
    second.0.accept().unwrap();
    assert_eq!(names(folder.path()), ["s"]);
}

#[test]
fn what_is_no_socket_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, b"data").unwrap();
    symlink("nowhere", &link).unwrap();
    for path in [&file, &link, &folder.path().to_owned()] {
        assert!(
            matches!(listen(path, 0o600), Err(SocketError::NoSocket)),
            "{path:?}"
        );
    }
    assert_eq!(fs::read(&file).unwrap(), b"data");
    assert_eq!(names(folder.path()), ["file", "link"]);
    for path in ["", "/", "..", "no/such/folder/s"] {
        let error = listen(Path::new(path), 0o600).unwrap_err();
        assert!(matches!(error, SocketError::Io(_)), "{path:?}: {error:?}");
    }
}

#[test]
fn a_path_may_be_as_long_as_clients_can_say() {
    let folder = tempfile::tempdir().unwrap();
    let path_of = |len: usize| {
        let begin = folder.path().join("x").to_str().unwrap().to_owned();
        PathBuf::from(format!("{begin}{}", "x".repeat(len - begin.len())))
    };
    let longest = path_of(107);
    let (socket, _) = listen(&longest, 0o600).unwrap();
    UnixStream::connect(&longest).unwrap();
    socket.accept().unwrap();
    drop(socket);
    fs::remove_file(&longest).unwrap();
    let error = listen(&path_of(108), 0o600).unwrap_err();
    let is_input = matches!(&error, SocketError::Io(error) if error.kind() == io::ErrorKind::InvalidInput);
    assert!(is_input, "{error:?}");
    // The folder alone may have most of it: a longer name beside it would not fit.
    let deep = path_of(104);
    fs::create_dir(&deep).unwrap();
    let (socket, _) = listen(&deep.join("s"), 0o600).unwrap();
    UnixStream::connect(deep.join("s")).unwrap();
    socket.accept().unwrap();
    assert_eq!(names(&deep), ["s"]);
}

#[test]
fn one_of_many_gets_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    for is_left in [false, true] {
        if !is_left {
            fs::remove_file(&path).ok();
        }
        let sockets: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| listen(&path, 0o600))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (got, refused): (Vec<_>, Vec<_>) = sockets.into_iter().partition(Result::is_ok);
        assert!(!got.is_empty());
        if !is_left {
            assert_eq!(got.len(), 1);
            assert!(
                refused.iter().all(|one| matches!(one, Err(SocketError::InUse))),
                "{refused:?}"
            );
        }
        assert_eq!(names(folder.path()), ["s"]);
    }
}

#[test]
fn a_server_that_ends_removes_its_own_socket_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let (socket, file) = listen(&path, 0o600).unwrap();
    drop(socket);
    let (_next, next_file) = listen(&path, 0o600).unwrap();
    file.remove();
    assert_eq!(names(folder.path()), ["s"], "the next server has the path");
    UnixStream::connect(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    next_file.remove();
    assert!(
        names(folder.path()).is_empty(),
        "with another mode it is the same file"
    );
}

#[test]
fn a_later_socket_with_the_number_of_a_removed_one_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let make = || {
        drop(UnixListener::bind(&path).unwrap());
        let made = Made::of(&path).unwrap();
        assert_eq!(made, Made::of(&path).unwrap());
        fs::remove_file(&path).unwrap();
        made
    };
    let first = make();
    // ext4 gives the number to the next file. Its time may be as coarse as a tick of the kernel.
    SystemClock.sleep(Duration::from_millis(50));
    assert_ne!(first, make());
}
