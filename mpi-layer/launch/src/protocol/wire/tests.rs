//! Every message there and back, and bytes that are none.

use super::*;

fn to_agent() -> Vec<ToAgent> {
    let spec = Spec {
        job_id: 7,
        secret: AgentSecret([9; 32]),
        first: 2,
        local: 3,
        size: 5,
        area_bytes: 1 << 40,
        silence_ms: 10_000,
        input: true,
        mapping: "(vector,(0,1,2),(1,1,3))".into(),
    };
    vec![
        ToAgent::Spec(spec),
        ToAgent::Directory(b"/home".to_vec()),
        ToAgent::Program(b"./a\xff".to_vec()),
        ToAgent::Arg(Vec::new()),
        ToAgent::Env { name: b"A".to_vec(), value: b"b=c".to_vec() },
        ToAgent::Go { cpus: vec![0, 1023] },
        ToAgent::Signal(-15),
        ToAgent::Stop,
        ToAgent::End { grace_ms: u64::MAX },
        ToAgent::Kill,
        ToAgent::Dead { rank: 4 },
        ToAgent::Put { key: b"k".to_vec(), value: Vec::new() },
        ToAgent::BarrierOut,
        ToAgent::Input(b"in".to_vec()),
        ToAgent::InputEnd,
        ToAgent::Taken(77),
        ToAgent::Alive,
        ToAgent::Bye,
        ToAgent::Part { ranks: 3 },
    ]
}

fn from_agent() -> Vec<FromAgent> {
    vec![
        FromAgent::Hello { boot: b"1-2".to_vec(), cpus: vec![5, 1] },
        FromAgent::OtherVersion { version: VERSION + 1, rest: b"and more".to_vec() },
        FromAgent::Refused { code: 127, why: "no such program".into() },
        FromAgent::Started { rank: 1, pid: 2 },
        FromAgent::Ended { rank: 1, how: 2, code: 9 },
        FromAgent::Aborted { rank: 1, code: -1, message: "enough".into() },
        FromAgent::Misbehaved { rank: 1, what: "noise".into() },
        FromAgent::Stuck { gone: 1, waiting: 0 },
        FromAgent::Left { rank: 3 },
        FromAgent::Put { key: b"k".to_vec(), value: b"v".to_vec() },
        FromAgent::AllIn,
        FromAgent::Output { rank: 1, is_error: true, bytes: b"out\n".to_vec() },
        FromAgent::InputTaken(3),
        FromAgent::Done,
        FromAgent::Alive,
    ]
}

#[test]
fn messages_come_back_as_they_went() {
    let mut bytes = Vec::new();
    to_agent().iter().for_each(|message| message.encode(&mut bytes));
    let mut rest = &bytes[..];
    for sent in to_agent() {
        let Frame { kind, body, length } = next_frame(rest).unwrap().unwrap();
        assert_eq!(ToAgent::decode(kind, body), Ok(sent));
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
    bytes.clear();
    from_agent().iter().for_each(|message| message.encode(&mut bytes));
    let mut rest = &bytes[..];
    for sent in from_agent() {
        let Frame { kind, body, length } = next_frame(rest).unwrap().unwrap();
        assert_eq!(FromAgent::decode(kind, body), Ok(sent));
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
}

#[test]
fn short_and_impossible_frames() {
    let mut bytes = Vec::new();
    ToAgent::Arg(b"word".to_vec()).encode(&mut bytes);
    for cut in 0..bytes.len() {
        assert_eq!(next_frame(&bytes[..cut]), Ok(None));
    }
    assert_eq!(next_frame(&[0, 0, 0, 0, 1]), Err(WireError::Length(0)));
    assert_eq!(next_frame(b"Last login: yesterday"), Err(WireError::Length(0x7473_614c)));
}

#[test]
fn damaged_bodies_are_refused() {
    assert_eq!(ToAgent::decode(99, b""), Err(WireError::Kind(99)));
    assert_eq!(FromAgent::decode(14, b""), Err(WireError::Kind(14)));
    assert_eq!(ToAgent::decode(5, b"many."), Err(WireError::Body(5)));
    assert_eq!(ToAgent::decode(7, b"more"), Err(WireError::Body(7)));
    // A key longer than what is there.
    assert_eq!(FromAgent::decode(8, &[255, 255, 255, 255, 1]), Err(WireError::Body(8)));
    assert_eq!(FromAgent::decode(0, b"BWLagent\x01\0\0\0"), Err(WireError::Body(0)));
    // More processors than there are, and a longer name of a boot.
    let greeting = |boot: usize, cpus: usize| {
        let hello = FromAgent::Hello { boot: vec![b'x'; boot], cpus: vec![1; cpus] };
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        let Frame { kind, body, .. } = next_frame(&bytes).unwrap().unwrap();
        FromAgent::decode(kind, body)
    };
    assert!(greeting(BOOT_MAX, SET_MAX).is_ok());
    assert_eq!(greeting(BOOT_MAX + 1, 0), Err(WireError::Body(0)));
    assert_eq!(greeting(0, SET_MAX + 1), Err(WireError::Body(0)));
    assert_eq!(FromAgent::decode(3, &[0, 0, 0, 0, 4, 0, 0, 0, 0]), Err(WireError::Body(3)));
    assert_eq!(FromAgent::decode(1, &[0, 0, 0, 0, 0xff]), Err(WireError::Body(1)));
}

#[test]
fn the_secret_is_not_printed() {
    let text = format!("{:?}", to_agent()[0]);
    assert!(text.contains("Secret(..)") && !text.contains("9, 9"), "{text}");
}
