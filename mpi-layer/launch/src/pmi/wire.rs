//! Lines of PMI-1: reading requests and replies. Pure; it keeps nothing and answers nothing.

/// Most bytes of a key.
pub const KEY_MAX: usize = 64;
/// Most bytes of a value.
pub const VALUE_MAX: usize = 1024;
/// Most bytes of the name of a key-value space.
pub const NAME_MAX: usize = 256;
/// Most bytes of a line that either side accepts, the newline included. MPICH sends shorter ones
/// except within a spawn request, whose lines carry arguments of programs.
pub const LINE_MAX: usize = 64 * 1024;

/// A request of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command<'a> {
    /// The first request: the version the rank speaks.
    Init {
        /// 1.
        version: u32,
        /// 0 or 1.
        subversion: u32,
    },
    /// Asks for the limits of names, keys and values.
    GetMaxes,
    /// Asks which of the job's programs the rank runs.
    GetAppnum,
    /// Asks for the name of the job's key-value space.
    GetMyKvsname,
    /// Asks how many ranks the job could have.
    GetUniverseSize,
    /// Publishes a value.
    Put {
        /// Key-value space.
        kvsname: &'a [u8],
        /// Key.
        key: &'a [u8],
        /// Value.
        value: &'a [u8],
    },
    /// Asks for a value.
    Get {
        /// Key-value space.
        kvsname: &'a [u8],
        /// Key.
        key: &'a [u8],
    },
    /// Waits for everybody.
    BarrierIn,
    /// Has nothing more to ask.
    Finalize,
    /// Ends the job.
    Abort {
        /// Exit code for the job.
        code: i32,
        /// Why; often empty.
        message: &'a [u8],
    },
    /// Begins a spawn request, whose lines [`parse_spawn_line`] reads.
    SpawnBegin,
    /// Publishes a port under a service name.
    PublishName,
    /// Takes a published name back.
    UnpublishName,
    /// Asks for the port of a service name.
    LookupName,
}

/// Why a line is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Does not start with `cmd=` or `mcmd=`.
    #[error("a line without a command: {0:?}")]
    NoCommand(String),
    /// A command that PMI-1 does not have.
    #[error("an unknown command {0:?}")]
    Unknown(String),
    /// A part of the line is not `key=value`.
    #[error("a field without a value in {0:?}")]
    Field(String),
    /// A field that the command needs is missing.
    #[error("command {command:?} without {field:?}")]
    Missing {
        /// The command.
        command: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A field that must be a number is none.
    #[error("{field:?} is not a number in {line:?}")]
    Number {
        /// The field.
        field: &'static str,
        /// The line.
        line: String,
    },
    /// A line beyond [`LINE_MAX`].
    #[error("a line of more than {LINE_MAX} bytes")]
    TooLong,
}

/// The fields of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The fields of `line`, every one of which has a value.
    pub(super) fn of(line: &'a [u8]) -> Result<Self, ParseError> {
        let mut rest = line;
        while let Some((_, _, after)) =
            field(rest).map_err(|()| ParseError::Field(excerpt(line)))?
        {
            rest = after;
        }
        Ok(Self(line))
    }

    pub(super) fn get(self, name: &str) -> Option<&'a [u8]> {
        let mut rest = self.0;
        while let Ok(Some((key, value, after))) = field(rest) {
            if key == name.as_bytes() {
                return Some(value);
            }
            rest = after;
        }
        None
    }

    pub(super) fn number<T: std::str::FromStr>(
        self,
        name: &'static str,
    ) -> Option<Result<T, ParseError>> {
        let value = self.get(name)?;
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        Some(number.ok_or_else(|| ParseError::Number { field: name, line: excerpt(self.0) }))
    }
}

/// A field's name, its value, and what follows it.
type Split<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// Takes the first field of `rest`. Values end at a blank, except of the two fields that are last
/// by custom and may hold blanks.
fn field(rest: &[u8]) -> Result<Option<Split<'_>>, ()> {
    let rest = rest.trim_ascii_start();
    if rest.is_empty() {
        return Ok(None);
    }
    let equals = rest.iter().position(|&b| b == b'=').ok_or(())?;
    let (name, value) = (&rest[..equals], &rest[equals + 1..]);
    if name.is_empty() || name.contains(&b' ') {
        return Err(());
    }
    let end = match name {
        b"value" | b"message" => value.len(),
        _ => value.iter().position(|&b| b == b' ').unwrap_or(value.len()),
    };
    Ok(Some((name, &value[..end], &value[end..])))
}

/// The start of a line, for an error's text.
fn excerpt(line: &[u8]) -> String {
    const SHOWN: usize = 80;
    let mut text = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned();
    if line.len() > SHOWN {
        text.push_str("...");
    }
    text
}

/// Reads one request, without its newline.
///
/// # Errors
/// When the line is not a request of PMI-1.
pub fn parse(line: &[u8]) -> Result<Command<'_>, ParseError> {
    if line.len() >= LINE_MAX {
        return Err(ParseError::TooLong);
    }
    let line = line.trim_ascii_end();
    if line == b"mcmd=spawn" {
        return Ok(Command::SpawnBegin);
    }
    if !line.starts_with(b"cmd=") {
        return Err(ParseError::NoCommand(excerpt(line)));
    }
    let fields = Fields::of(line)?;
    let missing = |command, field| ParseError::Missing { command, field };
    let need = |command, field| fields.get(field).ok_or(missing(command, field));
    Ok(match fields.get("cmd").unwrap_or_default() {
        b"init" => Command::Init {
            version: fields.number("pmi_version").ok_or(missing("init", "pmi_version"))??,
            subversion: fields.number("pmi_subversion").unwrap_or(Ok(0))?,
        },
        b"get_maxes" => Command::GetMaxes,
        b"get_appnum" => Command::GetAppnum,
        b"get_my_kvsname" => Command::GetMyKvsname,
        b"get_universe_size" => Command::GetUniverseSize,
        b"put" => Command::Put {
            kvsname: need("put", "kvsname")?,
            key: need("put", "key")?,
            value: need("put", "value")?,
        },
        b"get" => Command::Get { kvsname: need("get", "kvsname")?, key: need("get", "key")? },
        b"barrier_in" => Command::BarrierIn,
        b"finalize" => Command::Finalize,
        b"abort" => Command::Abort {
            code: fields.number("exitcode").unwrap_or(Ok(1))?,
            message: fields.get("message").unwrap_or_default(),
        },
        b"publish_name" => Command::PublishName,
        b"unpublish_name" => Command::UnpublishName,
        b"lookup_name" => Command::LookupName,
        unknown => return Err(ParseError::Unknown(excerpt(unknown))),
    })
}

/// A line within a spawn request, as far as the manager needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnLine {
    /// How many programs the whole request names.
    Total(u32),
    /// Which of them this one is, from 1.
    SoFar(u32),
    /// The end of this program's lines.
    End,
    /// Anything else: program, arguments, placement.
    Other,
}

/// Reads one line within a spawn request. Total: what it does not know is [`SpawnLine::Other`].
pub fn parse_spawn_line(line: &[u8]) -> SpawnLine {
    let number = |value: &[u8]| std::str::from_utf8(value).ok()?.trim().parse().ok();
    let line = line.trim_ascii_end();
    if line == b"endcmd" {
        return SpawnLine::End;
    }
    let total = line.strip_prefix(b"totspawns=").and_then(number).map(SpawnLine::Total);
    let so_far = || line.strip_prefix(b"spawnssofar=").and_then(number).map(SpawnLine::SoFar);
    total.or_else(so_far).unwrap_or(SpawnLine::Other)
}

/// Takes the next whole line off the front of `bytes`, without its newline.
pub(crate) fn take_line(bytes: &mut Vec<u8>) -> Result<Option<Vec<u8>>, ParseError> {
    match bytes.iter().take(LINE_MAX).position(|&b| b == b'\n') {
        Some(end) => {
            let mut line: Vec<u8> = bytes.drain(..=end).collect();
            line.pop();
            Ok(Some(line))
        }
        None if bytes.len() >= LINE_MAX => Err(ParseError::TooLong),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
