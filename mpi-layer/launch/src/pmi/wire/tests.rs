//! Lines as MPICH writes them, damaged lines, random lines, and where a line ends. What the
//! commands do is the server's.

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
