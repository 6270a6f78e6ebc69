//! The negotiation with a client, on its connection's thread.

use std::io::IoSlice;
use std::sync::Arc;

use nbd::{
    BlockSizes, CloseReason, ExportDetails, GREETING, ServerHaggle, Step, TlsMode, Transmission,
    TransmissionFlags,
};

use crate::deadline::Deadline;
use crate::error::Broken;
use crate::export::Export;
use crate::input::Source;
use crate::output::Output;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::tls::SecuredInput;

/// A connection after its negotiation.
pub(crate) struct Negotiated {
    pub(crate) export: Arc<dyn Export>,
    pub(crate) transmission: Transmission,
    pub(crate) source: Source,
    pub(crate) output: Output,
    /// Bytes of the first requests.
    pub(crate) received: Vec<u8>,
}

/// What an export's clients are told.
fn details(export: &dyn Export) -> ExportDetails {
    use TransmissionFlags as F;
    let mut flags = F::SEND_FLUSH | F::SEND_FUA | F::SEND_TRIM | F::SEND_WRITE_ZEROES | F::SEND_DF;
    flags = flags | F::CAN_MULTI_CONN | F::SEND_CACHE | F::SEND_FAST_ZERO;
    if export.is_read_only() {
        flags = flags | F::READ_ONLY;
    }
    ExportDetails {
        size_bytes: export.size_bytes(),
        flags,
        description: export.description(),
        block_sizes: BlockSizes::default(),
        contexts: export.contexts(),
    }
}

/// Negotiates with a client. Returns `None` if the client ended the session.
pub(crate) fn negotiate(shared: &Shared, socket: &Arc<Socket>) -> Result<Option<Negotiated>, Broken> {
    let deadline = Deadline::after(&shared.clock, shared.settings.handshake_time);
    deadline.limit(socket)?;
    let mode = match &shared.settings.tls {
        Some(tls) if tls.is_required => TlsMode::Required,
        Some(_) => TlsMode::Offered,
        None => TlsMode::Off,
    };
    let mut machine = ServerHaggle::new(mode);
    let (mut source, mut output) = (
        Source::Plain(Arc::clone(socket)),
        Output::Plain(Arc::clone(socket)),
    );
    output.send(&mut [IoSlice::new(&GREETING)])?;
    let mut buffer = vec![0; 4096];
    let mut out = Vec::new();
    loop {
        deadline.limit(socket)?;
        let received = source.receive(&mut buffer, &mut [])?;
        if received == 0 {
            return Ok(None);
        }
        let mut input = &buffer[..received];
        loop {
            let step = machine.step(&mut input, &mut out);
            let mut opened = None;
            let answered = match &step {
                Step::List | Step::Find(_) if shared.is_stopping() => Some(machine.shutting_down(&mut out)),
                Step::List => {
                    let names = shared.exports.list();
                    machine.listed(names.iter().map(String::as_str), &mut out);
                    Some(Step::More)
                }
                Step::Find(name) => {
                    opened = shared.exports.open(name);
                    let details = opened.as_deref().map(details);
                    Some(machine.found(details.as_ref(), &mut out))
                }
                _ => None,
            };
            deadline.limit(socket)?;
            output.send(&mut [IoSlice::new(&out)])?;
            out.clear();
            if answered == Some(Step::More) {
                // The client may have sent more options than one.
                continue;
            }
            match answered.unwrap_or(step) {
                Step::More => break,
                Step::List | Step::Find(_) => unreachable!("they were answered"),
                Step::Close(CloseReason::Aborted) => {
                    output.close();
                    return Ok(None);
                }
                Step::Close(why) => return Err(why.into()),
                Step::StartTls => {
                    let tls = shared.settings.tls.as_ref().expect("TLS was offered");
                    let secured = tls.identity.accept(socket, &deadline)?;
                    let input = SecuredInput::new(Arc::clone(&secured), deadline.clone());
                    source = Source::Secured(input);
                    output = Output::Secured(secured);
                    break;
                }
                Step::Transmit(transmission) => {
                    source.end_negotiation();
                    socket.wait_at_most(None)?;
                    socket.send_at_most(None)?;
                    return Ok(Some(Negotiated {
                        export: opened.expect("the export was found"),
                        transmission,
                        source,
                        output,
                        received: input.to_vec(),
                    }));
                }
            }
        }
    }
}
