//! Which requests a server does, and the errors of the others.

use crate::{Command, CommandFlags, Errno, Request, Rules, TransmissionFlags};

const SIZE: u64 = 1 << 30;

fn rules() -> Rules {
    Rules {
        size_bytes: SIZE,
        flags: TransmissionFlags::ALL.without(TransmissionFlags::READ_ONLY),
        is_structured: true,
        has_contexts: true,
        payload_max: 1 << 25,
    }
}

fn request(command: Command, flags: CommandFlags, offset: u64, len: u32) -> Request {
    Request {
        flags,
        command,
        cookie: 1,
        offset,
        len,
    }
}

const COMMANDS: [Command; 6] = [
    Command::Read,
    Command::Write,
    Command::Trim,
    Command::Cache,
    Command::WriteZeroes,
    Command::BlockStatus,
];

#[test]
fn ranges_within_the_export_pass_and_others_have_the_errors_of_the_protocol() {
    for command in COMMANDS {
        let grows = matches!(command, Command::Write | Command::WriteZeroes);
        let beyond = Err(if grows { Errno::NoSpace } else { Errno::Invalid });
        for (offset, len, expected) in [
            (0, 4096, Ok(())),
            (1, 1, Ok(())),
            (SIZE - 1, 1, Ok(())),
            (SIZE - 1, 2, beyond),
            (SIZE, 1, beyond),
            (u64::MAX, 1, beyond),
            (u64::MAX - 10, u32::MAX, beyond),
        ] {
            let request = request(command, CommandFlags::default(), offset, len);
            assert_eq!(rules().check(&request), expected, "{request:?}");
        }
    }
}

#[test]
fn long_payloads_are_refused_and_long_effects_are_not() {
    let rules = Rules {
        size_bytes: 1 << 40,
        ..rules()
    };
    for (command, expected) in [
        (Command::Read, Err(Errno::TooLarge)),
        (Command::Write, Err(Errno::Invalid)),
        (Command::Trim, Ok(())),
        (Command::WriteZeroes, Ok(())),
        (Command::Cache, Ok(())),
        (Command::BlockStatus, Ok(())),
    ] {
        assert_eq!(
            rules.check(&request(command, CommandFlags::default(), 0, 1 << 25)),
            Ok(())
        );
        let long = request(command, CommandFlags::default(), 0, (1 << 25) + 1);
        assert_eq!(rules.check(&long), expected, "{command:?}");
    }
    let simple = Rules {
        is_structured: false,
        ..rules
    };
    let long = request(Command::Read, CommandFlags::default(), 0, (1 << 25) + 1);
    assert_eq!(simple.check(&long), Err(Errno::Invalid));
}

#[test]
fn a_flag_passes_only_with_its_command_and_if_it_was_negotiated() {
    let all = [
        CommandFlags::FUA,
        CommandFlags::NO_HOLE,
        CommandFlags::DF,
        CommandFlags::REQ_ONE,
        CommandFlags::FAST_ZERO,
        CommandFlags(1 << 5),
    ];
    for command in COMMANDS.into_iter().chain([Command::Flush]) {
        for flag in all {
            let fits = match flag {
                CommandFlags::FUA => true,
                CommandFlags::DF => command == Command::Read,
                CommandFlags::REQ_ONE => command == Command::BlockStatus,
                CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO => command == Command::WriteZeroes,
                _ => false,
            };
            let len = if command == Command::Flush { 0 } else { 1 };
            let request = request(command, flag, 0, len);
            assert_eq!(rules().check(&request).is_ok(), fits, "{request:?}");
            let without =
                TransmissionFlags::SEND_FUA | TransmissionFlags::SEND_DF | TransmissionFlags::SEND_FAST_ZERO;
            let plain = Rules {
                flags: rules().flags.without(without),
                ..rules()
            };
            let passes = fits && matches!(flag, CommandFlags::NO_HOLE | CommandFlags::REQ_ONE);
            assert_eq!(plain.check(&request).is_ok(), passes, "{request:?}");
        }
    }
}

#[test]
fn commands_that_the_export_lacks_are_refused() {
    for (command, flag) in [
        (Command::Flush, TransmissionFlags::SEND_FLUSH),
        (Command::Trim, TransmissionFlags::SEND_TRIM),
        (Command::Cache, TransmissionFlags::SEND_CACHE),
        (Command::WriteZeroes, TransmissionFlags::SEND_WRITE_ZEROES),
    ] {
        let request = request(command, CommandFlags::default(), 0, 0);
        assert_eq!(rules().check(&request), Ok(()));
        let without = Rules {
            flags: rules().flags.without(flag),
            ..rules()
        };
        assert_eq!(without.check(&request), Err(Errno::Invalid), "{command:?}");
    }
    let status = request(Command::BlockStatus, CommandFlags::default(), 0, 1);
    let without = Rules {
        has_contexts: false,
        ..rules()
    };
    assert_eq!(without.check(&status), Err(Errno::Invalid));
    let empty = request(Command::BlockStatus, CommandFlags::default(), 0, 0);
    assert_eq!(rules().check(&empty), Err(Errno::Invalid));
    let unknown = request(Command::Unknown(99), CommandFlags::default(), 0, 0);
    assert_eq!(rules().check(&unknown), Err(Errno::Invalid));
    let flush = request(Command::Flush, CommandFlags::default(), 0, 1);
    assert_eq!(rules().check(&flush), Err(Errno::Invalid));
    assert_eq!(
        rules().check(&request(Command::Disconnect, CommandFlags(9), 9, 9)),
        Ok(())
    );
}

#[test]
fn a_read_only_export_refuses_what_writes() {
    let rules = Rules {
        flags: TransmissionFlags::ALL,
        ..rules()
    };
    for command in COMMANDS {
        let found = rules.check(&request(command, CommandFlags::default(), 0, 1));
        let expected = if command.writes() {
            Err(Errno::NotPermitted)
        } else {
            Ok(())
        };
        assert_eq!(found, expected, "{command:?}");
    }
    assert_eq!(
        rules.check(&request(Command::Flush, CommandFlags::default(), 0, 0)),
        Ok(())
    );
}
