//! Running a program on another host through the network: what ssh does, without keys and
//! without daemons of the system. For the hosts of this task only, whose network nobody else
//! reaches.
//!
//! A client sends its words, each with a zero byte at its end, and an empty one; from then
//! on the connection is the program's standard input and output.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Starts programs until it is ended.
pub(super) fn open(address: &str) -> Result<()> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    for peer in listener.incoming() {
        let peer = peer.context("cannot take a connection")?;
        std::thread::spawn(move || {
            if let Err(error) = serve(peer) {
                eprintln!("netns: door: {error:#}");
            }
        });
    }
    Ok(())
}

fn serve(mut peer: TcpStream) -> Result<()> {
    let mut words = Vec::new();
    loop {
        let mut word = Vec::new();
        loop {
            let mut byte = [0];
            peer.read_exact(&mut byte).context("cannot read what to run")?;
            match byte[0] {
                0 => break,
                byte => word.push(byte),
            }
        }
        if word.is_empty() {
            break;
        }
        words.push(String::from_utf8(word).context("a word that is no text")?);
    }
    let (program, arguments) = words.split_first().context("nothing to run")?;
    let copy = || peer.try_clone().map(|copy| Stdio::from(OwnedFd::from(copy)));
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(copy()?)
        .stdout(copy()?)
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    child.wait().with_context(|| format!("cannot wait for {program}"))?;
    // The program's own copies are closed by now; what it wrote goes out before the end.
    let _ = peer.shutdown(Shutdown::Both);
    Ok(())
}

/// Runs a program behind the door of a host, with the standard streams of this one.
pub(super) fn knock(host: &str, command: &[String]) -> Result<()> {
    let Some(address) = super::net::door_of(host) else {
        bail!("{host} has no door");
    };
    let mut door = connect(&address)?;
    let mut words: Vec<u8> = Vec::new();
    for word in command {
        words.extend_from_slice(word.as_bytes());
        words.push(0);
    }
    words.push(0);
    door.write_all(&words).context("cannot say what to run")?;
    let mut out = door.try_clone()?;
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut out);
        let _ = out.shutdown(Shutdown::Write);
    });
    let mut stdout = std::io::stdout().lock();
    let mut bytes = vec![0; 64 << 10];
    loop {
        match door.read(&mut bytes) {
            Ok(0) | Err(_) => return Ok(()),
            Ok(n) => {
                stdout.write_all(&bytes[..n]).context("cannot write")?;
                stdout.flush().context("cannot write")?;
            }
        }
    }
}

/// The door may open a little later than this one comes.
fn connect(address: &str) -> Result<TcpStream> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if start.elapsed() > Duration::from_secs(20) => {
                return Err(error).with_context(|| format!("cannot reach {address}"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
