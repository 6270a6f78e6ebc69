//! The server's side of the negotiation, as a state machine.
//!
//! The server sends [`crate::GREETING`], then calls [`ServerHaggle::step`] with the bytes that it
//! received, and sends what the machine appends. Where an answer needs the server's exports, the
//! machine says so ([`Step::List`], [`Step::Find`]) and waits for [`ServerHaggle::listed`] or
//! [`ServerHaggle::found`].
//!
//! What must hold: when TLS begins, the machine forgets what was negotiated before. If more bytes
//! follow the request for TLS, it ends the session. So nobody between client and server can put
//! bytes into the session. The machine stores at most one option of [`OPTION_BYTES_MAX`] bytes. It
//! belongs to one thread.

use crate::bytes::length;
use crate::export::{ExportDetails, SelectedContext, is_selected};
use crate::fault::OptionFault;
use crate::flags::TransmissionFlags;
use crate::numbers::option::{EXPORT_NAME, GO, INFO, LIST, LIST_META_CONTEXT, SET_META_CONTEXT, STARTTLS};
use crate::numbers::{FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, OPTION_MAGIC, RESERVED_ZEROES, option_reply};
use crate::option::{ClientOption, MetaQuery, Wants};
use crate::reply::option as answer;
use crate::session::{CloseReason, OPTIONS_MAX, Step, TlsMode, Transmission};
use crate::{OPTION_BYTES_MAX, STRING_BYTES_MAX};

/// Bytes of an option before its data.
const HEAD_BYTES: usize = 16;
/// Told to a client without TLS.
const TLS_REQUIRED: &str = "TLS is required";

/// The server's side of the negotiation.
#[derive(Debug)]
pub struct ServerHaggle {
    tls: TlsMode,
    is_secure: bool,
    state: State,
    /// The part of a head or of an option's data that has arrived.
    arrived: Vec<u8>,
    options: u32,
    is_fixed: bool,
    sends_zeroes: bool,
    is_structured: bool,
    /// The export of the last selection, and what was selected.
    selected: Option<(String, Vec<SelectedContext>)>,
    pending: Option<Pending>,
}

#[derive(Debug)]
enum State {
    ClientFlags,
    Head,
    Data {
        option: u32,
        len: usize,
    },
    /// An option that was too long, of which so many bytes are to come.
    Skip {
        left: u64,
    },
    Over,
}

/// What [`ServerHaggle::found`] answers.
#[derive(Debug)]
enum Pending {
    ExportName(String),
    Info {
        name: String,
        wants: Wants,
        enters: bool,
    },
    Contexts {
        query: MetaQuery,
        selects: bool,
    },
}

impl ServerHaggle {
    /// The state after [`crate::GREETING`] was sent.
    #[must_use]
    pub fn new(tls: TlsMode) -> Self {
        Self {
            tls,
            is_secure: false,
            state: State::ClientFlags,
            arrived: Vec::new(),
            options: 0,
            is_fixed: false,
            sends_zeroes: true,
            is_structured: false,
            selected: None,
            pending: None,
        }
    }

    /// Takes bytes from the front of `input`, and appends to `out` what the server sends.
    ///
    /// # Panics If the last step was [`Step::List`] or [`Step::Find`] and has no answer yet, or was
    /// the last.
    pub fn step(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Step {
        assert!(self.pending.is_none(), "the last step was answered");
        loop {
            let wanted = match self.state {
                State::ClientFlags => 4,
                State::Head => HEAD_BYTES,
                State::Data { len, .. } => len,
                State::Skip { left } => {
                    let now = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
                    *input = &input[now..];
                    let left = left - now as u64;
                    if left > 0 {
                        self.state = State::Skip { left };
                        return Step::More;
                    }
                    self.state = State::Head;
                    continue;
                }
                State::Over => panic!("a session that is over has no step"),
            };
            let missing = wanted - self.arrived.len();
            let (now, rest) = input.split_at(missing.min(input.len()));
            self.arrived.extend_from_slice(now);
            *input = rest;
            if self.arrived.len() < wanted {
                return Step::More;
            }
            let arrived = std::mem::take(&mut self.arrived);
            let next = match self.state {
                State::ClientFlags => self.client_flags(&arrived),
                State::Head => self.head(&arrived, out),
                State::Data { option, .. } => {
                    self.state = State::Head;
                    self.option(option, &arrived, input, out)
                }
                State::Skip { .. } | State::Over => unreachable!("these states store no bytes"),
            };
            match next {
                None => {}
                Some(step) => return self.ended(step),
            }
        }
    }

    fn ended(&mut self, step: Step) -> Step {
        if matches!(step, Step::Transmit(_) | Step::Close(_)) {
            self.state = State::Over;
        }
        step
    }

    fn client_flags(&mut self, arrived: &[u8]) -> Option<Step> {
        let flags = u32::from_be_bytes(arrived.try_into().expect("four bytes were taken"));
        if flags & !u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) != 0 {
            return Some(Step::Close(CloseReason::UnknownFlags { flags }));
        }
        self.is_fixed = flags & u32::from(FLAG_FIXED_NEWSTYLE) != 0;
        self.sends_zeroes = flags & u32::from(FLAG_NO_ZEROES) == 0;
        self.state = State::Head;
        None
    }

    fn head(&mut self, arrived: &[u8], out: &mut Vec<u8>) -> Option<Step> {
        let mut taker = crate::bytes::Taker(arrived);
        let (magic, option, len) = (taker.u64()?, taker.u32()?, taker.u32()?);
        if magic != OPTION_MAGIC {
            return Some(Step::Close(CloseReason::NoOption { found: magic }));
        }
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Some(Step::Close(CloseReason::ManyOptions));
        }
        let is_name = option == EXPORT_NAME;
        if !self.is_fixed && !is_name {
            return Some(Step::Close(CloseReason::NotFixed { option }));
        }
        if is_name && length(len) > STRING_BYTES_MAX {
            return Some(refused_name("its name is too long"));
        }
        if length(len) > OPTION_BYTES_MAX {
            if self.needs_tls() {
                answer::error(out, option, option_reply::ERR_TLS_REQD, TLS_REQUIRED);
            } else {
                let text = "the option has more data than the server reads";
                answer::error(out, option, option_reply::ERR_TOO_BIG, text);
            }
            self.state = State::Skip { left: u64::from(len) };
            return None;
        }
        self.state = State::Data {
            option,
            len: length(len),
        };
        None
    }

    fn needs_tls(&self) -> bool {
        self.tls == TlsMode::Required && !self.is_secure
    }

    fn option(&mut self, number: u32, data: &[u8], input: &[u8], out: &mut Vec<u8>) -> Option<Step> {
        let decoded = ClientOption::decode(number, data);
        let needs_tls = self.needs_tls();
        let decoded = match decoded {
            _ if needs_tls && number == EXPORT_NAME => {
                return Some(refused_name(TLS_REQUIRED));
            }
            Ok(ClientOption::Abort | ClientOption::StartTls) => decoded,
            _ if needs_tls && number != STARTTLS => {
                answer::error(out, number, option_reply::ERR_TLS_REQD, TLS_REQUIRED);
                return None;
            }
            decoded => decoded,
        };
        let option = match decoded {
            Ok(option) => option,
            Err(_) if number == EXPORT_NAME => return Some(refused_name("its name is not valid text")),
            Err(fault) => {
                if number == SET_META_CONTEXT {
                    self.selected = None;
                }
                answer::error(out, number, kind_of(fault), &fault.to_string());
                return None;
            }
        };
        self.decoded(option, input, out)
    }

    fn decoded(&mut self, option: ClientOption, input: &[u8], out: &mut Vec<u8>) -> Option<Step> {
        let number = option.number();
        match option {
            ClientOption::ExportName(name) => {
                return Some(self.wait(name.clone(), Pending::ExportName(name)));
            }
            ClientOption::Abort => {
                answer::ack(out, number);
                return Some(Step::Close(CloseReason::Aborted));
            }
            ClientOption::List => return Some(Step::List),
            ClientOption::StartTls => return self.start_tls(number, input, out),
            ClientOption::Info(name, wants) => {
                let enters = false;
                return Some(self.wait(name.clone(), Pending::Info { name, wants, enters }));
            }
            ClientOption::Go(name, wants) => {
                let enters = true;
                return Some(self.wait(name.clone(), Pending::Info { name, wants, enters }));
            }
            ClientOption::StructuredReply => {
                self.is_structured = true;
                answer::ack(out, number);
            }
            ClientOption::ListMetaContext(query) => {
                let selects = false;
                return Some(self.wait(query.export.clone(), Pending::Contexts { query, selects }));
            }
            ClientOption::SetMetaContext(query) => {
                self.selected = None;
                if self.is_structured {
                    let selects = true;
                    return Some(self.wait(query.export.clone(), Pending::Contexts { query, selects }));
                }
                let text = "structured replies must be negotiated first";
                answer::error(out, number, option_reply::ERR_INVALID, text);
            }
            ClientOption::Unknown(_) => {
                answer::error(out, number, option_reply::ERR_UNSUP, "the option is not known");
            }
        }
        None
    }

    fn wait(&mut self, name: String, pending: Pending) -> Step {
        self.pending = Some(pending);
        Step::Find(name)
    }

    fn start_tls(&mut self, number: u32, input: &[u8], out: &mut Vec<u8>) -> Option<Step> {
        let (kind, text) = match (self.tls, self.is_secure) {
            (TlsMode::Off, _) => (option_reply::ERR_POLICY, "the server does not speak TLS"),
            (_, true) => (option_reply::ERR_INVALID, "TLS is used already"),
            (TlsMode::Offered | TlsMode::Required, false) => {
                // Somebody in between could have added them.
                if !input.is_empty() {
                    return Some(Step::Close(CloseReason::BytesBeforeTls));
                }
                answer::ack(out, number);
                self.is_secure = true;
                self.is_structured = false;
                self.selected = None;
                return Some(Step::StartTls);
            }
        };
        answer::error(out, number, kind, text);
        None
    }

    /// Answers [`Step::List`]. Names that the protocol cannot carry are left out.
    pub fn listed<'a>(&mut self, names: impl IntoIterator<Item = &'a str>, out: &mut Vec<u8>) {
        let number = LIST;
        for name in names {
            if name.len() <= STRING_BYTES_MAX {
                answer::server(out, number, name);
            }
        }
        answer::ack(out, number);
    }

    /// Answers a [`Step::List`] or [`Step::Find`] of a server that is being stopped.
    #[must_use]
    pub fn shutting_down(&mut self, out: &mut Vec<u8>) -> Step {
        let text = "the server is being stopped";
        let number = match self.pending.take() {
            Some(Pending::ExportName(_)) => return self.ended(refused_name(text)),
            Some(pending) => pending.number(),
            None => LIST,
        };
        answer::error(out, number, option_reply::ERR_SHUTDOWN, text);
        Step::More
    }

    /// Answers [`Step::Find`] with the export, or `None` if there is none. Returns the next step:
    /// `More`, `Transmit` or `Close`. After `More` there may be unused bytes.
    ///
    /// # Panics
    /// If the last step was another.
    #[must_use]
    pub fn found(&mut self, details: Option<&ExportDetails>, out: &mut Vec<u8>) -> Step {
        let pending = self.pending.take().expect("an export was asked for");
        let number = pending.number();
        let Some(details) = details else {
            if matches!(pending, Pending::ExportName(_)) {
                return self.ended(refused_name("there is no such export"));
            }
            answer::error(out, number, option_reply::ERR_UNKNOWN, "there is no such export");
            return Step::More;
        };
        let step = match pending {
            Pending::ExportName(name) => {
                answer::export_name(out, details.size_bytes, self.flags(details));
                if self.sends_zeroes {
                    out.resize(out.len() + RESERVED_ZEROES, 0);
                }
                self.transmit(name, details)
            }
            Pending::Info { name, wants, enters } => {
                answer::information(out, number, &name, details, self.flags(details), wants);
                answer::ack(out, number);
                if !enters {
                    return Step::More;
                }
                self.transmit(name, details)
            }
            Pending::Contexts { query, selects } => {
                self.contexts(query, selects, details, out);
                return Step::More;
            }
        };
        self.ended(step)
    }

    fn contexts(&mut self, query: MetaQuery, selects: bool, details: &ExportDetails, out: &mut Vec<u8>) {
        let number = Pending::number_of_contexts(selects);
        let lists_all = !selects && query.queries.is_empty();
        let mut found = Vec::new();
        for (name, id) in details.contexts.iter().zip(1..) {
            let matches = |one: &String| is_selected(name, one, !selects);
            if lists_all || query.queries.iter().any(matches) {
                let sent = if selects { id } else { 0 };
                answer::meta_context(out, number, sent, name);
                found.push(SelectedContext {
                    id,
                    name: name.clone(),
                });
            }
        }
        answer::ack(out, number);
        if selects {
            self.selected = Some((query.export, found));
        }
    }

    fn flags(&self, details: &ExportDetails) -> TransmissionFlags {
        let flags = details.flags | TransmissionFlags::HAS_FLAGS;
        if self.is_structured {
            flags | TransmissionFlags::SEND_DF
        } else {
            flags.without(TransmissionFlags::SEND_DF)
        }
    }

    fn transmit(&mut self, export: String, details: &ExportDetails) -> Step {
        let of_this = |(name, _): &(String, _)| *name == export;
        let contexts = self.selected.take().filter(of_this).map(|(_, contexts)| contexts);
        Step::Transmit(Transmission {
            is_structured: self.is_structured,
            flags: self.flags(details),
            contexts: contexts.unwrap_or_default(),
            export,
        })
    }

    /// Bytes that the machine stores, for tests of its bound.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.arrived.capacity()
    }
}

impl Pending {
    fn number(&self) -> u32 {
        match self {
            Self::ExportName(_) => EXPORT_NAME,
            Self::Info { enters: true, .. } => GO,
            Self::Info { enters: false, .. } => INFO,
            Self::Contexts { selects, .. } => Self::number_of_contexts(*selects),
        }
    }

    fn number_of_contexts(selects: bool) -> u32 {
        if selects {
            SET_META_CONTEXT
        } else {
            LIST_META_CONTEXT
        }
    }
}

fn refused_name(why: &'static str) -> Step {
    Step::Close(CloseReason::ExportName { why })
}

fn kind_of(fault: OptionFault) -> u32 {
    match fault {
        OptionFault::LongString { .. } | OptionFault::ManyQueries { .. } => option_reply::ERR_TOO_BIG,
        OptionFault::Short | OptionFault::Long | OptionFault::NoText | OptionFault::NoNamespace => {
            option_reply::ERR_INVALID
        }
    }
}
