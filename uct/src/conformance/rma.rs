//! One-sided operations: exact bytes, exact bounds; in [`keys`] keys that open what they name and
//! nothing else, in [`order`] what flush and fence promise.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::sync::atomic::AtomicU64;
use bowline_base::view::View;

use super::harness::{LONGEST, World, lengths, pattern};
use super::{Subject, not_applicable};
use crate::{
    AtomicOp, AtomicWidth, Caps, LocalSlice, MemHandle, PostError, RemoteSlice, RkeyId, Token,
};

pub mod keys;
pub mod order;

pub use keys::*;
pub use order::*;

/// How memory was made reachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// By `mem_alloc`.
    Allocated,
    /// By `mem_register`.
    Registered,
    /// By `mem_lend`.
    Lent,
}

impl MemoryKind {
    /// The kinds that one-sided operations of `P` reach.
    pub fn reached(world: &mut World) -> Vec<Self> {
        let caps = world.attr().caps;
        let md = world.peer(1).iface.md_attr();
        let mut kinds = Vec::new();
        if md.can_alloc {
            kinds.push(Self::Allocated);
        }
        if md.can_register && caps.contains(Caps::RMA_REGISTERED) {
            kinds.push(Self::Registered);
        }
        if caps.contains(Caps::LEND) {
            kinds.push(Self::Lent);
        }
        kinds
    }

    /// The kinds that atomics of `P` reach. A transport may copy to and from memory that was
    /// merely registered and yet have no atomics there; it then answers `Unsupported`.
    pub fn with_atomics(world: &mut World) -> Vec<Self> {
        let (of, mut kinds) = (world.of(), Self::reached(world));
        kinds.retain(|&kind| {
            let window = Window::open(world, kind, 64);
            let (ep, at) = (world.ep(0, 1), window.at(0));
            let (op, width) = (AtomicOp::Add(0), AtomicWidth::W64);
            let posted = retry(world, |w| w.peer(0).iface.atomic(ep, op, width, at, Token::NONE));
            posted != Err(PostError::Unsupported) || {
                not_applicable(of, "no atomics on this kind of memory");
                false
            }
        });
        kinds
    }
}

/// Memory of member 1 that member 0 has opened.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    handle: MemHandle,
    rkey: RkeyId,
    start: u64,
    len: usize,
}

impl Window {
    /// Makes `len` bytes of member 1 reachable for member 0.
    #[track_caller]
    pub fn open(world: &mut World, kind: MemoryKind, len: usize) -> Self {
        let owner = &mut world.peer(1).iface;
        let handle = match kind {
            MemoryKind::Allocated => owner.mem_alloc(len).expect("memory can be allocated"),
            MemoryKind::Registered => {
                let buffer = RecvBuf::owned(vec![0; len]);
                owner.mem_register(buffer).expect("memory can be registered")
            }
            MemoryKind::Lent => {
                let mut buffer = RecvBuf::owned(vec![0; len]);
                // SAFETY: the buffer is kept, and left alone, until the operation has ended.
                let slice = unsafe { LocalSlice::of_recv(&mut buffer, 0, len) }.expect("all of it");
                // A window is copied freely, so the bytes stay for ever.
                std::mem::forget(buffer);
                owner.mem_lend(slice).expect("memory can be lent")
            }
        };
        let view = owner.mem_view(handle).expect("a handle has a view");
        assert_eq!(view.len(), len, "the view of a handle is all of it");
        assert!(view.to_vec().iter().all(|&byte| byte == 0), "memory is zero at first");
        let start = view.as_ptr() as u64;
        let packed = owner.rkey_pack(handle).expect("a handle has a key");
        assert!(packed.len() <= owner.md_attr().rkey_bytes, "a key is no longer than announced");
        let ep = world.ep(0, 1);
        let rkey = world.peer(0).iface.rkey_unpack(ep, &packed).expect("a whole key opens");
        Self { handle, rkey, start, len }
    }

    /// The owner's handle.
    pub const fn handle(&self) -> MemHandle {
        self.handle
    }

    /// `offset` bytes into the window.
    pub const fn at(&self, offset: usize) -> RemoteSlice {
        RemoteSlice { address: self.start + offset as u64, rkey: self.rkey }
    }

    /// The bytes as their owner sees them.
    pub fn view<'w>(&self, world: &'w mut World) -> View<'w> {
        world.peer(1).iface.mem_view(self.handle).expect("not released yet")
    }

    /// The owner's word at `offset`.
    #[track_caller]
    pub fn word<'w>(&self, world: &'w mut World, offset: usize) -> &'w AtomicU64 {
        let word = self.view(world).slice(offset, 8).expect("inside");
        assert!((word.as_ptr() as usize).is_multiple_of(8), "windows are aligned to words");
        // SAFETY: 8 aligned bytes inside memory that stays mapped while the world is borrowed, and
        // which is only accessed by atomics and byte copies through views.
        unsafe { AtomicU64::from_ptr(word.as_ptr().cast()) }
    }
}

/// The one-sided flavours by which bytes are written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmaFlavour {
    /// Copied in the call.
    Short,
    /// Packed or unpacked by the caller.
    Bcopy,
    /// From or to where the bytes lie.
    Zcopy,
}

const RMA_FLAVOURS: [RmaFlavour; 3] = [RmaFlavour::Short, RmaFlavour::Bcopy, RmaFlavour::Zcopy];

impl RmaFlavour {
    /// Lengths that a put of this kind takes; `None` where there is none.
    pub fn put_limits(self, world: &World) -> Option<(usize, usize)> {
        let attr = world.attr();
        let (bit, limits) = match self {
            Self::Short => (Caps::PUT_SHORT, (0, attr.limits.put.max_short)),
            Self::Bcopy => (Caps::PUT_BCOPY, (0, attr.limits.put.max_bcopy)),
            Self::Zcopy => {
                (Caps::PUT_ZCOPY, (attr.limits.put.min_zcopy, attr.limits.put.max_zcopy))
            }
        };
        attr.caps.contains(bit).then_some(limits)
    }

    /// Lengths that a get of this kind takes; `None` where there is none.
    pub fn get_limits(self, world: &World) -> Option<(usize, usize)> {
        let attr = world.attr();
        let (bit, limits) = match self {
            Self::Short => return None,
            Self::Bcopy => (Caps::GET_BCOPY, (0, attr.limits.get.max_bcopy)),
            Self::Zcopy => {
                (Caps::GET_ZCOPY, (attr.limits.get.min_zcopy, attr.limits.get.max_zcopy))
            }
        };
        attr.caps.contains(bit).then_some(limits)
    }

    /// Puts `bytes` and waits until the buffer is free again.
    pub fn put(self, world: &mut World, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError> {
        let ep = world.ep(0, 1);
        retry(world, |world| match self {
            Self::Short => world.peer(0).iface.put_short(ep, bytes, to),
            Self::Bcopy => {
                let mut packed = 0;
                let mut pack = |space: View<'_>| {
                    packed += 1;
                    space.copy_in(bytes)
                };
                let result = world.peer(0).iface.put_bcopy(ep, bytes.len(), &mut pack, to);
                assert_eq!(packed, usize::from(result.is_ok()), "packed once, and only then");
                result.map(|len| assert_eq!(len, bytes.len(), "the packed length"))
            }
            Self::Zcopy => {
                let buffer = SendBuf::owned(bytes.to_vec());
                // SAFETY: the buffer is kept, and left alone, until the operation has ended.
                let slice =
                    unsafe { LocalSlice::of_send(&buffer, 0, bytes.len()) }.expect("all of it");
                let token = world.peer(0).token();
                let posted = world.peer(0).iface.put_zcopy(ep, &[slice], to, token)?;
                world.finish(0, token, Ok(posted));
                Ok(())
            }
        })
    }

    /// Gets `len` bytes.
    pub fn get(
        self,
        world: &mut World,
        from: RemoteSlice,
        len: usize,
    ) -> Result<Vec<u8>, PostError> {
        let ep = world.ep(0, 1);
        retry(world, |world| match self {
            Self::Short => unreachable!("there is no short get"),
            Self::Bcopy => {
                let mut out = None;
                let mut unpack = |view: View<'_>| {
                    assert!(out.is_none(), "unpacked twice");
                    out = Some(view.to_vec());
                };
                world.peer(0).iface.get_bcopy(ep, from, len, &mut unpack)?;
                Ok(out.expect("unpacked in the call"))
            }
            Self::Zcopy => {
                let mut buffer = RecvBuf::owned(vec![0; len]);
                // SAFETY: the buffer is kept, and left alone, until the operation has ended.
                let slice = unsafe { LocalSlice::of_recv(&mut buffer, 0, len) }.expect("all of it");
                let token = world.peer(0).token();
                let posted = world.peer(0).iface.get_zcopy(ep, &[slice], from, token)?;
                world.finish(0, token, Ok(posted));
                Ok(buffer.into_owned().expect("it was owned"))
            }
        })
    }
}

fn retry<T>(
    world: &mut World,
    mut post: impl FnMut(&mut World) -> Result<T, PostError>,
) -> Result<T, PostError> {
    loop {
        match post(world) {
            Err(PostError::NoResource) => world.round(),
            done => return done,
        };
    }
}

/// Flushes the endpoint of member 0 to member 1.
#[track_caller]
pub fn flush(world: &mut World) {
    let ep = world.ep(0, 1);
    let token = world.peer(0).token();
    let posted = retry(world, |world| world.peer(0).iface.flush(ep, token));
    world.finish(0, token, posted);
}

fn any_put(world: &World) -> Option<RmaFlavour> {
    RMA_FLAVOURS.into_iter().find(|flavour| flavour.put_limits(world).is_some())
}

/// Puts of every length and flavour write exactly their bytes.
pub fn put_lengths(of: Subject) {
    const AROUND: usize = 24;
    let mut world = World::new(of, 2);
    for kind in MemoryKind::reached(&mut world) {
        for flavour in RMA_FLAVOURS {
            let Some((min, max)) = flavour.put_limits(&world) else {
                continue;
            };
            let longest = max.min(LONGEST);
            let window = Window::open(&mut world, kind, longest + 2 * AROUND);
            for (round, len) in lengths(min, max).into_iter().enumerate() {
                let canary = pattern(round as u64 ^ 0xcafe, window.len);
                window.view(&mut world).copy_in(&canary);
                // Odd addresses too.
                let offset = AROUND - round % 9;
                let bytes = pattern(round as u64, len);
                flavour.put(&mut world, &bytes, window.at(offset)).expect("inside the window");
                flush(&mut world);
                let mut expected = canary;
                expected[offset..offset + len].copy_from_slice(&bytes);
                let found = window.view(&mut world).to_vec();
                assert!(found == expected, "{kind:?} {flavour:?}: {len} bytes at {offset}");
            }
            if max < LONGEST {
                let large = Window::open(&mut world, kind, max + 64);
                let refused = flavour.put(&mut world, &vec![1; max + 1], large.at(0));
                assert_eq!(refused, Err(PostError::TooLong), "{flavour:?} beyond {max}");
            }
        }
    }
}

/// Gets of every length and flavour read exactly the bytes asked for.
pub fn get_lengths(of: Subject) {
    let mut world = World::new(of, 2);
    for kind in MemoryKind::reached(&mut world) {
        for flavour in RMA_FLAVOURS {
            let Some((min, max)) = flavour.get_limits(&world) else {
                continue;
            };
            let window = Window::open(&mut world, kind, max.min(LONGEST) + 64);
            let content = pattern(3, window.len);
            window.view(&mut world).copy_in(&content);
            for (round, len) in lengths(min, max).into_iter().enumerate() {
                let offset = round % 9;
                let found = flavour.get(&mut world, window.at(offset), len).expect("inside");
                assert!(
                    found == content[offset..offset + len],
                    "{kind:?} {flavour:?}: {len} bytes"
                );
            }
            if max < LONGEST {
                let refused = flavour.get(&mut world, window.at(0), max + 1);
                assert_eq!(refused.err(), Some(PostError::TooLong), "{flavour:?} beyond {max}");
            }
        }
    }
}

/// Puts and gets in pieces are as if in one; too many pieces are refused.
pub fn pieces(of: Subject) {
    let mut world = World::new(of, 2);
    let attr = world.attr();
    for kind in MemoryKind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 1 << 16);
        for (put, limits) in [(true, attr.limits.put), (false, attr.limits.get)] {
            let bit = if put { Caps::PUT_ZCOPY } else { Caps::GET_ZCOPY };
            if !attr.caps.contains(bit) {
                continue;
            }
            for count in [1, 2, limits.max_iov.min(512), limits.max_iov.min(512) + 1] {
                let each = (limits.min_zcopy / count + 1).max(37);
                let content = pattern(count as u64, each * count);
                let mut buffer =
                    RecvBuf::owned(if put { content.clone() } else { vec![0; each * count] });
                // Backwards, so that each piece counts.
                let slices: Vec<LocalSlice> = (0..count)
                    .rev()
                    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
                    .map(|i| unsafe { LocalSlice::of_recv(&mut buffer, i * each, each) }.expect("inside"))
                    .collect();
                let turned: Vec<u8> = content.chunks(each).rev().flatten().copied().collect();
                if !put {
                    window.view(&mut world).copy_in(&turned);
                }
                let (ep, token) = (world.ep(0, 1), world.peer(0).token());
                let iface = &mut world.peer(0).iface;
                let posted = if put {
                    iface.put_zcopy(ep, &slices, window.at(0), token)
                } else {
                    iface.get_zcopy(ep, &slices, window.at(0), token)
                };
                if count > limits.max_iov {
                    let error = posted.expect_err("more pieces than the limit");
                    assert!(matches!(error, PostError::BadArgument | PostError::TooLong));
                    continue;
                }
                world.finish(0, token, posted);
                if put {
                    flush(&mut world);
                    assert!(window.view(&mut world).to_vec()[..turned.len()] == turned);
                } else {
                    assert!(buffer.into_owned().expect("it was owned") == content);
                }
            }
        }
    }
}

/// Nothing outside of what a key opens is written or read, whatever the address.
pub fn out_of_range_is_refused(of: Subject) {
    const LEN: usize = 4096;
    let mut world = World::new(of, 2);
    for kind in MemoryKind::reached(&mut world) {
        let window = Window::open(&mut world, kind, LEN);
        let end = window.start + LEN as u64;
        let outside = [
            (window.start - 1, 8),
            (window.start - 8, 8),
            (end - 7, 8),
            (end, 8),
            (end + 4096, 8),
            (window.start - 4, LEN + 8),
            (0, 8),
            (u64::MAX, 8),
            (u64::MAX - 7, 8),
            (window.start ^ (1 << 63), 8),
        ];
        for (address, len) in outside {
            let at = RemoteSlice { address, rkey: window.rkey };
            for flavour in RMA_FLAVOURS {
                if let Some((min, max)) = flavour.put_limits(&world)
                    && (min..=max).contains(&len)
                {
                    let refused = flavour.put(&mut world, &vec![0xee; len], at);
                    assert_eq!(
                        refused,
                        Err(PostError::BadRemote),
                        "{kind:?} {flavour:?} {address:#x}"
                    );
                }
                if let Some((min, max)) = flavour.get_limits(&world)
                    && (min..=max).contains(&len)
                {
                    let refused = flavour.get(&mut world, at, len).err();
                    assert_eq!(
                        refused,
                        Some(PostError::BadRemote),
                        "{kind:?} {flavour:?} {address:#x}"
                    );
                }
            }
        }
        flush(&mut world);
        assert!(
            window.view(&mut world).to_vec().iter().all(|&byte| byte == 0),
            "written nevertheless"
        );
        for flavour in RMA_FLAVOURS {
            if flavour.put_limits(&world).is_some_and(|(min, max)| (min..=max).contains(&8)) {
                flavour.put(&mut world, &[7; 8], window.at(LEN - 8)).expect("the last bytes");
                flush(&mut world);
                assert_eq!(window.view(&mut world).to_vec()[LEN - 8..], [7; 8]);
            }
        }
    }
}

/// One fetching atomic, whether its result comes with the call or later.
#[track_caller]
pub fn fetch(
    world: &mut World,
    op: AtomicOp,
    width: AtomicWidth,
    at: RemoteSlice,
) -> Result<u64, PostError> {
    let (ep, token) = (world.ep(0, 1), world.peer(0).token());
    let posted = retry(world, |w| w.peer(0).iface.atomic(ep, op, width, at, token))?;
    Ok(match posted {
        Some(old) => old,
        None => world.wait(0, token).expect("the operation succeeds"),
    })
}

/// One atomic without a result, and a flush.
#[track_caller]
pub fn post(
    world: &mut World,
    op: AtomicOp,
    width: AtomicWidth,
    at: RemoteSlice,
) -> Result<(), PostError> {
    let ep = world.ep(0, 1);
    retry(world, |w| w.peer(0).iface.atomic(ep, op, width, at, Token::NONE))?;
    flush(world);
    Ok(())
}
