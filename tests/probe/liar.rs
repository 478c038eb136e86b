//! An agent whose messages are well formed and wrong. Its launcher must notice what is wrong, and take what
//! is only much.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use bowline_launch::protocol::wire::{FromAgent, Spec, ToAgent};

/// Values that are put before a barrier, and the bytes of each: more than half of what a barrier may have.
const PUTS: u32 = 720;
const VALUE: usize = 200 << 10;

/// Says what `lie` names instead of running ranks.
pub(crate) fn serve(lie: &str) -> ExitCode {
    match send(lie) {
        Ok(()) => ExitCode::SUCCESS,
        // The launcher has hung up.
        Err(_) => ExitCode::FAILURE,
    }
}

fn send(lie: &str) -> io::Result<()> {
    say(&FromAgent::Hello { boot: b"a liar's machine".to_vec(), cpus: vec![1] })?;
    let ToAgent::Spec(Spec { first, local, .. }) = hear()? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    while !matches!(hear()?, ToAgent::Go { .. }) {}
    for rank in first..first + local {
        say(&FromAgent::Started { rank, pid: std::process::id() })?;
    }
    match lie {
        "leaves-twice" => {
            say(&FromAgent::Left { rank: first })?;
            say(&FromAgent::Left { rank: first })?;
        }
        "puts-in-two-barriers" => {
            for _ in 0..2 {
                put()?;
                say(&FromAgent::AllIn)?;
                while hear()? != ToAgent::BarrierOut {}
            }
            for rank in first..first + local {
                say(&FromAgent::Ended { rank, how: 0, code: 0 })?;
            }
            say(&FromAgent::Done)?;
        }
        "puts-in-one-barrier" => {
            put()?;
            put()?;
        }
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    }
    while hear()? != ToAgent::Bye {}
    Ok(())
}

fn put() -> io::Result<()> {
    for number in 0..PUTS {
        let key = format!("key-{number}").into_bytes();
        say(&FromAgent::Put { key, value: vec![b'v'; VALUE] })?;
    }
    Ok(())
}

fn say(message: &FromAgent) -> io::Result<()> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let mut out = io::stdout().lock();
    out.write_all(&bytes)?;
    out.flush()
}

fn hear() -> io::Result<ToAgent> {
    let mut input = io::stdin().lock();
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_le_bytes(length) as usize];
    input.read_exact(&mut frame)?;
    let (kind, body) = frame.split_first().ok_or(io::ErrorKind::InvalidData)?;
    ToAgent::decode(*kind, body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
