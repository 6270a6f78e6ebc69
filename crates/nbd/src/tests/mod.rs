//! Tests.

mod golden;
mod negotiation;
mod properties;
mod rules;

use crate::numbers::option_reply;
use crate::{
    ALLOCATION_CONTEXT, BlockSizes, ClientOption, ExportDetails, ServerHaggle, Step, TransmissionFlags,
};

/// A client's flags: fixed newstyle, no zeros.
const FLAGS: [u8; 4] = [0, 0, 0, 3];

fn export() -> ExportDetails {
    ExportDetails {
        size_bytes: 0x1234_5000,
        flags: TransmissionFlags::SEND_FLUSH | TransmissionFlags::CAN_MULTI_CONN,
        description: "a disk".to_owned(),
        block_sizes: BlockSizes::default(),
        contexts: vec![
            ALLOCATION_CONTEXT.to_owned(),
            "qemu:dirty-bitmap:monday".to_owned(),
            "qemu:dirty-bitmap:tuesday".to_owned(),
        ],
    }
}

fn encoded(option: &ClientOption) -> Vec<u8> {
    let mut bytes = Vec::new();
    option.encode(&mut bytes);
    bytes
}

/// Gives the machine bytes, and answers what it asks with the export `disk`. Returns the last step,
/// and what was sent.
fn play(machine: &mut ServerHaggle, mut bytes: &[u8]) -> (Step, Vec<u8>) {
    let mut sent = Vec::new();
    loop {
        let mut step = machine.step(&mut bytes, &mut sent);
        match &step {
            Step::List => {
                machine.listed(["disk", "other"], &mut sent);
                continue;
            }
            Step::Find(name) => {
                let found = Some(export()).filter(|_| name == "disk");
                step = machine.found(found.as_ref(), &mut sent);
                if step == Step::More {
                    continue;
                }
            }
            _ => {}
        }
        return (step, sent);
    }
}

/// The kinds of the replies in these bytes, in order.
fn kinds(mut bytes: &[u8]) -> Vec<u32> {
    let mut kinds = Vec::new();
    while !bytes.is_empty() {
        let kind = u32::from_be_bytes(bytes[12..16].try_into().unwrap());
        let len = u32::from_be_bytes(bytes[16..20].try_into().unwrap());
        bytes = &bytes[20 + usize::try_from(len).unwrap()..];
        kinds.push(kind);
    }
    kinds
}

/// Plays one option, and returns the kinds of the replies.
fn ask(machine: &mut ServerHaggle, option: &ClientOption) -> Vec<u32> {
    let (step, sent) = play(machine, &encoded(option));
    assert!(matches!(step, Step::More | Step::StartTls), "{step:?}");
    kinds(&sent)
}

/// Success, without content.
const ACK: u32 = option_reply::ACK;
