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
        while let Some((_, _, after)) = field(rest)
            .map_err(|()| ParseError::Field(excerpt(line)))?
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

    pub(super) fn number<T: std::str::FromStr>(self, name: &'static str) -> Option<Result<T, ParseError>> {
        let value = self.get(name)?;
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        Some(number.ok_or_else(|| ParseError::Number { field: name, line: excerpt(self.0) }))
    }
}

/// A field's name, its value, and what follows it.
type Split<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// Takes the first field of `rest`. Values end at a blank, except those that are last by custom
/// and may hold blanks.
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
        b"value" | b"msg" | b"message" => value.len(),
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
            message: fields.get("message").or(fields.get("msg")).unwrap_or_default(),
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
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_mpich_are_read() {
        assert_eq!(
            parse(b"cmd=init pmi_version=1 pmi_subversion=1"),
            Ok(Command::Init { version: 1, subversion: 1 })
        );
        assert_eq!(
            parse(b"cmd=put kvsname=kvs_1 key=P0-businesscard value=description#vm$port#1$"),
            Ok(Command::Put {
                kvsname: b"kvs_1",
                key: b"P0-businesscard",
                value: b"description#vm$port#1$"
            })
        );
        assert_eq!(
            parse(b"cmd=get kvsname=kvs_1 key=PMI_process_mapping "),
            Ok(Command::Get { kvsname: b"kvs_1", key: b"PMI_process_mapping" })
        );
        assert_eq!(parse(b"cmd=abort exitcode=-3"), Ok(Command::Abort { code: -3, message: b"" }));
        assert_eq!(
            parse(b"cmd=abort exitcode=4 message=two words"),
            Ok(Command::Abort { code: 4, message: b"two words" })
        );
        assert_eq!(parse(b"mcmd=spawn\r"), Ok(Command::SpawnBegin));
        assert_eq!(parse(b"cmd=barrier_in"), Ok(Command::BarrierIn));
    }

    #[test]
    fn damaged_lines_are_errors() {
        assert!(matches!(parse(b""), Err(ParseError::NoCommand(_))));
        assert!(matches!(parse(b"hello"), Err(ParseError::NoCommand(_))));
        assert!(matches!(parse(b"cmd=dance"), Err(ParseError::Unknown(_))));
        assert!(matches!(parse(b"cmd="), Err(ParseError::Unknown(_))));
        assert!(matches!(parse(b"cmd=get kvsname"), Err(ParseError::Field(_))));
        assert!(matches!(parse(b"cmd=get =x"), Err(ParseError::Field(_))));
        assert!(matches!(parse(b"cmd=get kvsname=a"), Err(ParseError::Missing { .. })));
        assert!(matches!(parse(b"cmd=init pmi_version=x"), Err(ParseError::Number { .. })));
        assert!(matches!(parse(b"cmd=init pmi_version=99999999999"), Err(ParseError::Number { .. })));
        assert!(matches!(parse(&vec![b'x'; LINE_MAX]), Err(ParseError::TooLong)));
        let long = parse(&[&b"cmd=\xff"[..], &[b'y'; 500]].concat()).unwrap_err().to_string();
        assert!(long.len() < 250, "the text stays short: {long}");
    }

    #[test]
    fn any_bytes_give_an_answer() {
        // A small linear congruential generator: the same lines on every run.
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32
        };
        let seeds: [&[u8]; 4] = [
            b"cmd=put kvsname=k key=a value=b c",
            b"cmd=init pmi_version=1 pmi_subversion=1",
            b"cmd=abort exitcode=1 message=m",
            b"mcmd=spawn",
        ];
        for _ in 0..20_000 {
            let mut line = seeds[next() as usize % seeds.len()].to_vec();
            for _ in 0..next() % 6 {
                let at = next() as usize % line.len();
                match next() % 3 {
                    0 => line[at] = next() as u8,
                    1 => line.truncate(at.max(1)),
                    _ => line.insert(at, b" =\n"[next() as usize % 3]),
                }
            }
            let _ = parse(&line);
            let _ = parse_spawn_line(&line);
        }
    }

    #[test]
    fn lines_are_cut_where_they_end() {
        let mut bytes = b"one\n\ntwo".to_vec();
        assert_eq!(take_line(&mut bytes).unwrap().as_deref(), Some(&b"one"[..]));
        assert_eq!(take_line(&mut bytes).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(take_line(&mut bytes).unwrap(), None);
        assert_eq!(bytes, b"two");
        assert!(take_line(&mut vec![b'x'; LINE_MAX]).is_err());
    }

    #[test]
    fn spawn_lines_are_counted() {
        assert_eq!(parse_spawn_line(b"totspawns=2"), SpawnLine::Total(2));
        assert_eq!(parse_spawn_line(b"spawnssofar=1"), SpawnLine::SoFar(1));
        assert_eq!(parse_spawn_line(b"endcmd"), SpawnLine::End);
        assert_eq!(parse_spawn_line(b"execname=./a b=c"), SpawnLine::Other);
        assert_eq!(parse_spawn_line(b"totspawns=-1"), SpawnLine::Other);
    }
}
