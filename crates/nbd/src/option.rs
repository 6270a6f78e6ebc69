//! Options of a client ("Option types").

use crate::bytes::{Taker, length_of, put_string, string};
use crate::fault::OptionFault;
use crate::numbers::{OPTION_MAGIC, info, option};

/// An option has at most so many queries for metadata contexts.
const QUERIES_MAX: u32 = 1024;

/// What a client says during the negotiation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOption {
    /// Chooses an export and ends the negotiation. It has no way to answer an error.
    ExportName(String),
    /// Ends the session.
    Abort,
    /// Lists the exports.
    List,
    /// Starts TLS.
    StartTls,
    /// Describes an export.
    Info(String, Wants),
    /// Describes an export, and ends the negotiation.
    Go(String, Wants),
    /// Asks for structured replies.
    StructuredReply,
    /// Lists metadata contexts.
    ListMetaContext(MetaQuery),
    /// Selects metadata contexts.
    SetMetaContext(MetaQuery),
    /// An option that this crate does not know.
    Unknown(u32),
}

/// Items of information that a client asks for. The size and the flags are always sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wants {
    /// The canonical name.
    pub name: bool,
    /// Text for people.
    pub description: bool,
    /// The sizes of blocks and payloads.
    pub block_size: bool,
}

/// A query for metadata contexts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaQuery {
    /// The export's name.
    pub export: String,
    /// Each has the form `NAMESPACE:LEAF`. An empty leaf lists all of a namespace.
    pub queries: Vec<String>,
}

impl ClientOption {
    /// Reads an option.
    ///
    /// # Errors
    /// [`OptionFault`]
    pub fn decode(number: u32, data: &[u8]) -> Result<Self, OptionFault> {
        let mut taker = Taker(data);
        let decoded = match number {
            option::EXPORT_NAME => return string(data).map(Self::ExportName),
            // The protocol asks to ignore data here.
            option::ABORT => return Ok(Self::Abort),
            option::LIST => Self::List,
            option::STARTTLS => Self::StartTls,
            option::INFO => {
                let (name, wants) = info_request(&mut taker)?;
                Self::Info(name, wants)
            }
            option::GO => {
                let (name, wants) = info_request(&mut taker)?;
                Self::Go(name, wants)
            }
            option::STRUCTURED_REPLY => Self::StructuredReply,
            option::LIST_META_CONTEXT => Self::ListMetaContext(MetaQuery::take(&mut taker)?),
            option::SET_META_CONTEXT => Self::SetMetaContext(MetaQuery::take(&mut taker)?),
            unknown => return Ok(Self::Unknown(unknown)),
        };
        if !taker.0.is_empty() {
            return Err(OptionFault::Long);
        }
        Ok(decoded)
    }

    /// The option's number.
    #[must_use]
    pub fn number(&self) -> u32 {
        match self {
            Self::ExportName(_) => option::EXPORT_NAME,
            Self::Abort => option::ABORT,
            Self::List => option::LIST,
            Self::StartTls => option::STARTTLS,
            Self::Info(..) => option::INFO,
            Self::Go(..) => option::GO,
            Self::StructuredReply => option::STRUCTURED_REPLY,
            Self::ListMetaContext(_) => option::LIST_META_CONTEXT,
            Self::SetMetaContext(_) => option::SET_META_CONTEXT,
            Self::Unknown(number) => *number,
        }
    }

    /// Appends the option as a client sends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut data = Vec::new();
        match self {
            Self::ExportName(name) => data.extend_from_slice(name.as_bytes()),
            Self::Info(name, wants) | Self::Go(name, wants) => {
                put_string(&mut data, name);
                wants.put(&mut data);
            }
            Self::ListMetaContext(query) | Self::SetMetaContext(query) => query.put(&mut data),
            Self::Abort | Self::List | Self::StartTls | Self::StructuredReply | Self::Unknown(_) => {}
        }
        out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        out.extend_from_slice(&self.number().to_be_bytes());
        out.extend_from_slice(&length_of(data.len()).to_be_bytes());
        out.extend_from_slice(&data);
    }
}

fn info_request(taker: &mut Taker<'_>) -> Result<(String, Wants), OptionFault> {
    let name = taker.string()?;
    let count = taker.u16().ok_or(OptionFault::Short)?;
    let mut wants = Wants::default();
    for _ in 0..count {
        match taker.u16().ok_or(OptionFault::Short)? {
            info::NAME => wants.name = true,
            info::DESCRIPTION => wants.description = true,
            info::BLOCK_SIZE => wants.block_size = true,
            _ => {}
        }
    }
    Ok((name, wants))
}

impl Wants {
    fn put(self, out: &mut Vec<u8>) {
        let items = [
            (self.name, info::NAME),
            (self.description, info::DESCRIPTION),
            (self.block_size, info::BLOCK_SIZE),
        ];
        let wanted = items.iter().filter(|(is_wanted, _)| *is_wanted);
        let count = u16::try_from(wanted.clone().count()).expect("there are three items");
        out.extend_from_slice(&count.to_be_bytes());
        for (_, item) in wanted {
            out.extend_from_slice(&item.to_be_bytes());
        }
    }
}

impl MetaQuery {
    fn take(taker: &mut Taker<'_>) -> Result<Self, OptionFault> {
        let export = taker.string()?;
        let count = taker.u32().ok_or(OptionFault::Short)?;
        if count > QUERIES_MAX {
            return Err(OptionFault::ManyQueries { count });
        }
        let mut queries = Vec::new();
        for _ in 0..count {
            let query = taker.string()?;
            if query.find(':').unwrap_or(0) == 0 {
                return Err(OptionFault::NoNamespace);
            }
            queries.push(query);
        }
        Ok(Self { export, queries })
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_string(out, &self.export);
        out.extend_from_slice(&length_of(self.queries.len()).to_be_bytes());
        for query in &self.queries {
            put_string(out, query);
        }
    }
}
