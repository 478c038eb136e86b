//! One-sided operations: exact bytes, exact bounds, keys that open what they name and nothing
//! else, and the order that flush and fence promise.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use bowline_base::view::View;

use super::harness::{LONGEST, Random, World, lengths, pattern};
use super::{Provider, not_applicable};
use crate::{
    AmId, AtomicOp, AtomicOps, AtomicWidth, Caps, Iface, LocalSlice, MemError, MemHandle,
    MemoryDomain, PostError, RemoteSlice, RkeyId,
};

/// How memory was made reachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By `mem_alloc`.
    Allocated,
    /// By `mem_register`.
    Registered,
}

impl Kind {
    /// The kinds that one-sided operations of `P` reach.
    pub fn reached<P: Provider>(world: &mut World<P>) -> Vec<Self> {
        let caps = world.attr().caps;
        let md = world.peer(1).iface.md_attr();
        let mut kinds = Vec::new();
        if md.can_alloc {
            kinds.push(Self::Allocated);
        }
        if md.can_register && caps.contains(Caps::RMA_REGISTERED) {
            kinds.push(Self::Registered);
        }
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
    pub fn open<P: Provider>(world: &mut World<P>, kind: Kind, len: usize) -> Self {
        let owner = &mut world.peer(1).iface;
        let handle = match kind {
            Kind::Allocated => owner.mem_alloc(len).expect("memory can be allocated"),
            Kind::Registered => {
                let buffer = RecvBuf::owned(vec![0; len]);
                owner.mem_register(buffer).expect("memory can be registered")
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
    pub fn view<'w, P: Provider>(&self, world: &'w mut World<P>) -> View<'w> {
        world.peer(1).iface.mem_view(self.handle).expect("not released yet")
    }

    /// The owner's word at `offset`.
    #[track_caller]
    pub fn word<'w, P: Provider>(&self, world: &'w mut World<P>, offset: usize) -> &'w AtomicU64 {
        let word = self.view(world).slice(offset, 8).expect("inside");
        assert!((word.as_ptr() as usize).is_multiple_of(8), "windows are aligned to words");
        // SAFETY: 8 aligned bytes inside memory that stays mapped while the world is borrowed, and
        // which is only accessed by atomics and byte copies through views.
        unsafe { AtomicU64::from_ptr(word.as_ptr().cast()) }
    }
}

/// The one-sided flavours by which bytes are written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Copied in the call.
    Short,
    /// Packed or unpacked by the caller.
    Bcopy,
    /// From or to where the bytes lie.
    Zcopy,
}

const WAYS: [Way; 3] = [Way::Short, Way::Bcopy, Way::Zcopy];

impl Way {
    /// Lengths that a put of this kind takes; `None` where there is none.
    pub fn put_limits<P: Provider>(self, world: &World<P>) -> Option<(usize, usize)> {
        let attr = world.attr();
        let (bit, limits) = match self {
            Self::Short => (Caps::PUT_SHORT, (0, attr.limits.put.max_short)),
            Self::Bcopy => (Caps::PUT_BCOPY, (0, attr.limits.put.max_bcopy)),
            Self::Zcopy => (Caps::PUT_ZCOPY, (attr.limits.put.min_zcopy, attr.limits.put.max_zcopy)),
        };
        attr.caps.contains(bit).then_some(limits)
    }

    /// Lengths that a get of this kind takes; `None` where there is none.
    pub fn get_limits<P: Provider>(self, world: &World<P>) -> Option<(usize, usize)> {
        let attr = world.attr();
        let (bit, limits) = match self {
            Self::Short => return None,
            Self::Bcopy => (Caps::GET_BCOPY, (0, attr.limits.get.max_bcopy)),
            Self::Zcopy => (Caps::GET_ZCOPY, (attr.limits.get.min_zcopy, attr.limits.get.max_zcopy)),
        };
        attr.caps.contains(bit).then_some(limits)
    }

    /// Puts `bytes` and waits until the buffer is free again.
    pub fn put<P: Provider>(
        self,
        world: &mut World<P>,
        bytes: &[u8],
        to: RemoteSlice,
    ) -> Result<(), PostError> {
        let ep = world.ep(0, 1);
        retry(world, |world| match self {
            Self::Short => world.peer(0).iface.put_short(ep, bytes, to),
            Self::Bcopy => {
                let mut packed = 0;
                let mut pack = |room: View<'_>| {
                    packed += 1;
                    room.copy_in(bytes)
                };
                let result = world.peer(0).iface.put_bcopy(ep, bytes.len(), &mut pack, to);
                assert_eq!(packed, usize::from(result.is_ok()), "packed once, and only then");
                result.map(|len| assert_eq!(len, bytes.len(), "the packed length"))
            }
            Self::Zcopy => {
                let buffer = SendBuf::owned(bytes.to_vec());
                let slice = LocalSlice::of_send(&buffer, 0, bytes.len()).expect("all of it");
                let token = world.peer(0).token();
                let posted = world.peer(0).iface.put_zcopy(ep, &[slice], to, token)?;
                world.finish(0, token, Ok(posted));
                Ok(())
            }
        })
    }

    /// Gets `len` bytes.
    pub fn get<P: Provider>(
        self,
        world: &mut World<P>,
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
                let slice = LocalSlice::of_recv(&mut buffer, 0, len).expect("all of it");
                let token = world.peer(0).token();
                let posted = world.peer(0).iface.get_zcopy(ep, &[slice], from, token)?;
                world.finish(0, token, Ok(posted));
                Ok(buffer.into_owned().expect("it was owned"))
            }
        })
    }
}

fn retry<P: Provider, T>(
    world: &mut World<P>,
    mut post: impl FnMut(&mut World<P>) -> Result<T, PostError>,
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
pub fn flush<P: Provider>(world: &mut World<P>) {
    let ep = world.ep(0, 1);
    let token = world.peer(0).token();
    let posted = retry(world, |world| world.peer(0).iface.flush(ep, token));
    world.finish(0, token, posted);
}

fn any_put<P: Provider>(world: &World<P>) -> Option<Way> {
    WAYS.into_iter().find(|way| way.put_limits(world).is_some())
}

/// Puts of every length and flavour write exactly their bytes.
pub fn put_lengths<P: Provider>() {
    const AROUND: usize = 24;
    let mut world = World::<P>::new(2);
    for kind in Kind::reached(&mut world) {
        for way in WAYS {
            let Some((min, max)) = way.put_limits(&world) else { continue };
            let longest = max.min(LONGEST);
            let window = Window::open(&mut world, kind, longest + 2 * AROUND);
            for (round, len) in lengths(min, max).into_iter().enumerate() {
                let canary = pattern(round as u64 ^ 0xcafe, window.len);
                window.view(&mut world).copy_in(&canary);
                // Odd addresses too.
                let offset = AROUND - round % 9;
                let bytes = pattern(round as u64, len);
                way.put(&mut world, &bytes, window.at(offset)).expect("inside the window");
                flush(&mut world);
                let mut expected = canary;
                expected[offset..offset + len].copy_from_slice(&bytes);
                let found = window.view(&mut world).to_vec();
                assert!(found == expected, "{kind:?} {way:?}: {len} bytes at {offset}");
            }
            if max < LONGEST {
                let large = Window::open(&mut world, kind, max + 64);
                let refused = way.put(&mut world, &vec![1; max + 1], large.at(0));
                assert_eq!(refused, Err(PostError::TooLong), "{way:?} beyond {max}");
            }
        }
    }
}

/// Gets of every length and flavour read exactly the bytes asked for.
pub fn get_lengths<P: Provider>() {
    let mut world = World::<P>::new(2);
    for kind in Kind::reached(&mut world) {
        for way in WAYS {
            let Some((min, max)) = way.get_limits(&world) else { continue };
            let window = Window::open(&mut world, kind, max.min(LONGEST) + 64);
            let content = pattern(3, window.len);
            window.view(&mut world).copy_in(&content);
            for (round, len) in lengths(min, max).into_iter().enumerate() {
                let offset = round % 9;
                let found = way.get(&mut world, window.at(offset), len).expect("inside");
                assert!(found == content[offset..offset + len], "{kind:?} {way:?}: {len} bytes");
            }
            if max < LONGEST {
                let refused = way.get(&mut world, window.at(0), max + 1);
                assert_eq!(refused.err(), Some(PostError::TooLong), "{way:?} beyond {max}");
            }
        }
    }
}

/// Puts and gets in pieces are as if in one; too many pieces are refused.
pub fn pieces<P: Provider>() {
    let mut world = World::<P>::new(2);
    let attr = world.attr();
    for kind in Kind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 1 << 16);
        for (put, limits) in [(true, attr.limits.put), (false, attr.limits.get)] {
            let bit = if put { Caps::PUT_ZCOPY } else { Caps::GET_ZCOPY };
            if !attr.caps.contains(bit) {
                continue;
            }
            for count in [1, 2, limits.max_iov.min(512), limits.max_iov.min(512) + 1] {
                let each = (limits.min_zcopy / count + 1).max(37);
                let content = pattern(count as u64, each * count);
                let mut buffer = RecvBuf::owned(if put { content.clone() } else { vec![0; each * count] });
                // Backwards, so that each piece counts.
                let slices: Vec<LocalSlice> = (0..count)
                    .rev()
                    .map(|i| LocalSlice::of_recv(&mut buffer, i * each, each).expect("inside"))
                    .collect();
                let turned: Vec<u8> =
                    content.chunks(each).rev().flatten().copied().collect();
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
pub fn out_of_range_is_refused<P: Provider>() {
    const LEN: usize = 4096;
    let mut world = World::<P>::new(2);
    for kind in Kind::reached(&mut world) {
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
            for way in WAYS {
                if let Some((min, max)) = way.put_limits(&world)
                    && (min..=max).contains(&len)
                {
                    let refused = way.put(&mut world, &vec![0xee; len], at);
                    assert_eq!(refused, Err(PostError::BadRemote), "{kind:?} {way:?} {address:#x}");
                }
                if let Some((min, max)) = way.get_limits(&world)
                    && (min..=max).contains(&len)
                {
                    let refused = way.get(&mut world, at, len).err();
                    assert_eq!(refused, Some(PostError::BadRemote), "{kind:?} {way:?} {address:#x}");
                }
            }
        }
        flush(&mut world);
        assert!(window.view(&mut world).to_vec().iter().all(|&byte| byte == 0), "written all the same");
        for way in WAYS {
            if way.put_limits(&world).is_some_and(|(min, max)| (min..=max).contains(&8)) {
                way.put(&mut world, &[7; 8], window.at(LEN - 8)).expect("the last bytes");
                flush(&mut world);
                assert_eq!(window.view(&mut world).to_vec()[LEN - 8..], [7; 8]);
            }
        }
    }
}

/// Truncated keys, keys with a changed bit and bytes that are no key are refused.
pub fn damaged_keys_are_refused<P: Provider>() {
    let mut world = World::<P>::new(2);
    let ep = world.ep(0, 1);
    for kind in Kind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 4096);
        let packed = world.peer(1).iface.rkey_pack(window.handle).expect("a handle has a key");
        let mut damaged: Vec<Vec<u8>> = (0..packed.len()).map(|cut| packed[..cut].to_vec()).collect();
        damaged.extend((0..packed.len() * 8).map(|bit| {
            let mut changed = packed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            changed
        }));
        let mut random = Random::new(23);
        damaged.extend((0..50).map(|_| (0..packed.len()).map(|_| random.word() as u8).collect()));
        for bytes in damaged {
            let opened = world.peer(0).iface.rkey_unpack(ep, &bytes);
            assert!(matches!(opened, Err(MemError::BadKey)), "{kind:?} {bytes:02x?}: {opened:?}");
        }
        let rkey = world.peer(0).iface.rkey_unpack(ep, &packed).expect("the whole key opens");
        world.peer(0).iface.rkey_release(rkey);
    }
    let unknown = MemHandle(bowline_base::slab::Key::from_wire(u64::MAX));
    assert!(world.peer(1).iface.rkey_pack(unknown).is_err(), "a key of no memory");
    assert!(world.peer(1).iface.mem_view(unknown).is_none(), "a view of no memory");
    assert!(world.peer(1).iface.mem_release(unknown).is_err(), "released no memory");
}

/// A closed key opens nothing, and closing it does not close another key of the same memory.
pub fn closed_keys_open_nothing<P: Provider>() {
    let mut world = World::<P>::new(2);
    let ep = world.ep(0, 1);
    let Some(way) = any_put(&world) else { return not_applicable::<P>("no put") };
    let len = way.put_limits(&world).map_or(8, |(min, _)| min.max(8));
    for kind in Kind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 4096.max(len));
        let packed = world.peer(1).iface.rkey_pack(window.handle).expect("a handle has a key");
        let second = world.peer(0).iface.rkey_unpack(ep, &packed).expect("a key opens twice");
        world.peer(0).iface.rkey_release(window.rkey);
        let closed = way.put(&mut world, &vec![1; len], window.at(0));
        assert_eq!(closed, Err(PostError::BadArgument), "a closed key");
        // Again, which must not take the second one's place.
        world.peer(0).iface.rkey_release(window.rkey);
        let open = RemoteSlice { address: window.start, rkey: second };
        way.put(&mut world, &vec![2; len], open).expect("the other key is open");
        flush(&mut world);
        assert_eq!(window.view(&mut world).to_vec()[..len], vec![2; len]);
    }
}

/// Memory that was released is not written by those who still hold a key, not even when its
/// place is used again.
pub fn released_memory_is_out_of_reach<P: Provider>() {
    let mut world = World::<P>::new(2);
    let Some(way) = any_put(&world) else { return not_applicable::<P>("no put") };
    let len = way.put_limits(&world).map_or(8, |(min, _)| min.max(8));
    if !Kind::reached(&mut world).contains(&Kind::Allocated) {
        return not_applicable::<P>("no memory is allocated");
    }
    for _ in 0..20 {
        let old = Window::open(&mut world, Kind::Allocated, 8192.max(len));
        let released = world.peer(1).iface.mem_release(old.handle).expect("it was held");
        assert!(released.is_none(), "allocated memory has no owner to go back to");
        assert!(world.peer(1).iface.mem_view(old.handle).is_none(), "released memory has a view");
        assert!(world.peer(1).iface.mem_release(old.handle).is_err(), "released twice");
        let new = Window::open(&mut world, Kind::Allocated, 8192.max(len));
        // An error of the sender's own, or a write to what nobody uses.
        let _ = way.put(&mut world, &vec![0xdd; len], old.at(0));
        let _ = way.put(&mut world, &vec![0xdd; len], old.at(old.len - len));
        flush(&mut world);
        let found = new.view(&mut world).to_vec();
        assert!(found.iter().all(|&byte| byte == 0), "an old key wrote somebody else's memory");
        world.peer(1).iface.mem_release(new.handle).expect("it was held");
    }
}

/// Registered memory comes back to its owner with what was put into it.
pub fn registered_memory_comes_back<P: Provider>() {
    let mut world = World::<P>::new(2);
    let Some(way) = any_put(&world) else { return not_applicable::<P>("no put") };
    if !Kind::reached(&mut world).contains(&Kind::Registered) {
        return not_applicable::<P>("no memory is registered");
    }
    let (min, max) = way.put_limits(&world).expect("chosen for it");
    let len = 600.clamp(min, max);
    let window = Window::open(&mut world, Kind::Registered, len);
    way.put(&mut world, &pattern(1, len), window.at(0)).expect("inside");
    flush(&mut world);
    let back = world.peer(1).iface.mem_release(window.handle).expect("it was held");
    let bytes = back.expect("registered memory comes back").into_owned();
    assert_eq!(bytes, Some(pattern(1, len)));
}

/// A direct view shows the owner's memory, within the bounds.
pub fn direct_views<P: Provider>() {
    let mut world = World::<P>::new(2);
    if !world.attr().caps.contains(Caps::RKEY_PTR) {
        return not_applicable::<P>("no direct views");
    }
    let window = Window::open(&mut world, Kind::Allocated, 4096);
    let content = pattern(8, 4096);
    window.view(&mut world).copy_in(&content);
    let iface = &world.peer(0).iface;
    let view = iface.rkey_ptr(window.rkey, window.start + 100, 200).expect("inside");
    assert_eq!(view.to_vec(), content[100..300]);
    view.copy_in(b"written directly");
    for (address, len) in [
        (window.start - 1, 1),
        (window.start, 4097),
        (window.start + 4096, 1),
        (window.start + 1, usize::MAX),
        (u64::MAX, 2),
    ] {
        assert!(iface.rkey_ptr(window.rkey, address, len).is_none(), "{address:#x} {len}");
    }
    let mut expected = content;
    expected[100..116].copy_from_slice(b"written directly");
    assert!(window.view(&mut world).to_vec() == expected);
}

/// The key of an allocation is found from any piece of it, and of nothing else.
pub fn keys_of_allocations<P: Provider>() {
    let mut world = World::<P>::new(2);
    if !world.peer(1).iface.md_attr().can_alloc {
        return not_applicable::<P>("no memory is allocated");
    }
    let window = Window::open(&mut world, Kind::Allocated, 8192);
    let mut out = vec![0; world.peer(1).iface.md_attr().rkey_bytes];
    for (offset, len) in [(0, 8192), (0, 1), (8191, 1), (100, 1000)] {
        let start = window.start + offset;
        let written = world.peer(1).iface.rkey_of(start, len, &mut out).expect("inside");
        let ep = world.ep(0, 1);
        let opened = world.peer(0).iface.rkey_unpack(ep, &out[..written]);
        let rkey = opened.expect("a whole key opens");
        world.peer(0).iface.rkey_release(rkey);
    }
    let on_stack = 0_u64;
    for (start, len) in [
        (window.start - 1, 2),
        (window.start, 8193),
        (window.start + 8192, 1),
        (window.start + 1, usize::MAX),
        (&raw const on_stack as u64, 8),
        (0, 1),
    ] {
        assert!(world.peer(1).iface.rkey_of(start, len, &mut out).is_none(), "{start:#x} {len}");
    }
    assert!(world.peer(1).iface.rkey_of(window.start, 8, &mut []).is_none(), "no room");
    world.peer(1).iface.mem_release(window.handle).expect("it was held");
    assert!(world.peer(1).iface.rkey_of(window.start, 8, &mut out).is_none(), "released");
}

/// A put with notification is visible when the notification arrives.
pub fn put_with_notification<P: Provider>() {
    let mut world = World::<P>::new(2);
    if !world.attr().caps.contains(Caps::PUT_NOTIFY) {
        return not_applicable::<P>("no notification");
    }
    let (ep, id) = (world.ep(0, 1), AmId::new(17));
    let longest = world.attr().limits.put.max_short.min(4096);
    for kind in Kind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 4096);
        for round in 0..500_u64 {
            let (bytes, header) = (pattern(round, 1 + round as usize % longest), [round, 1, 2]);
            retry(&mut world, |w| {
                w.peer(0).iface.put_notify(ep, &bytes, window.at(0), id, &header)
            })
            .expect("inside");
            let message = world.receive(1, 1).remove(0);
            assert_eq!((message.id, message.header), (id, header));
            assert!(message.payload.is_empty(), "a notification has no payload");
            assert!(window.view(&mut world).to_vec()[..bytes.len()] == bytes, "not visible yet");
        }
        let bad = window.at(window.len);
        let refused = world.peer(0).iface.put_notify(ep, &[1], bad, id, &[0; 3]);
        assert_eq!(refused, Err(PostError::BadRemote));
        world.rounds(20);
        assert!(world.peer(1).seen.messages.is_empty(), "a notification of nothing");
    }
}

/// After a flush, of the endpoint or of all, what was put before is in the target's memory.
pub fn flushed_puts_are_visible<P: Provider>() {
    let mut world = World::<P>::new(2);
    let mut random = Random::new(29);
    for kind in Kind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 1 << 16);
        let mut expected = vec![0; 1 << 16];
        for round in 0..200 {
            for _ in 0..=random.below(5) {
                let way = WAYS[random.below(3)];
                let Some((min, max)) = way.put_limits(&world) else { continue };
                let len = random.below(3000).clamp(min, max);
                let offset = random.below((1 << 16) - len);
                let bytes = pattern(random.word(), len);
                way.put(&mut world, &bytes, window.at(offset)).expect("inside");
                expected[offset..offset + len].copy_from_slice(&bytes);
            }
            if round % 2 == 0 {
                flush(&mut world);
            } else {
                let token = world.peer(0).token();
                let posted = retry(&mut world, |w| w.peer(0).iface.flush_all(token));
                world.finish(0, token, posted);
            }
            assert!(window.view(&mut world).to_vec() == expected, "{kind:?}: round {round}");
        }
    }
}

/// Drives member 0 to write a value and then a flag, while a thread of the owner watches: it
/// must never see a flag without its value.
fn watched<P: Provider>(write: impl Fn(&mut World<P>, &Window, u64)) {
    const ROUNDS: u64 = 5000;
    let mut world = World::<P>::new(2);
    for kind in Kind::reached(&mut world) {
        let window = Window::open(&mut world, kind, 4096);
        let value = window.word(&mut world, 64).as_ptr() as usize;
        let flag = window.word(&mut world, 1024).as_ptr() as usize;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                // SAFETY: the words lie in the window, which is released after the scope; they are
                // aligned and only accessed by atomics and copies through views.
                let (value, flag) = unsafe {
                    (AtomicU64::from_ptr(value as *mut u64), AtomicU64::from_ptr(flag as *mut u64))
                };
                let mut looks = 0_u64;
                // Relaxed: the flag only ends the loop.
                while !over.load(Ordering::Relaxed) {
                    // Acquire: pairs with the release of the flag's put or atomic.
                    let flag = flag.load(Ordering::Acquire);
                    // Relaxed: ordered after the flag by the acquire.
                    let value = value.load(Ordering::Relaxed);
                    assert!(value >= flag, "flag {flag} came before its value, which is {value}");
                    looks += 1;
                    if looks.is_multiple_of(64) {
                        std::thread::yield_now();
                    }
                }
            });
            for round in 1..=ROUNDS {
                if watcher.is_finished() {
                    break;
                }
                write(&mut world, &window, round);
                if round % 16 == 0 {
                    flush(&mut world);
                }
            }
            flush(&mut world);
            // Relaxed: the flag only ends the loop.
            over.store(true, Ordering::Relaxed);
        });
        // Relaxed: the flush made both visible to this thread.
        assert_eq!(window.word(&mut world, 64).load(Ordering::Relaxed), ROUNDS);
        assert_eq!(window.word(&mut world, 1024).load(Ordering::Relaxed), ROUNDS);
        world.peer(1).iface.mem_release(window.handle).expect("it was held");
    }
}

/// What is put after a fence is never seen before what was put ahead of it.
pub fn fenced_puts_keep_their_order<P: Provider>() {
    let Some(way) = ({
        let world = World::<P>::new(2);
        WAYS.into_iter().find(|way| {
            way.put_limits(&world).is_some_and(|(min, max)| (min..=max).contains(&8))
        })
    }) else {
        return not_applicable::<P>("no put of 8 bytes");
    };
    watched::<P>(|world, window, round| {
        way.put(world, &round.to_ne_bytes(), window.at(64)).expect("inside");
        retry(world, |world| world.peer(0).iface.fence()).expect("a fence is always possible");
        way.put(world, &round.to_ne_bytes(), window.at(1024)).expect("inside");
    });
}

/// Where the interface says so, a put is seen before a later atomic without a fence.
pub fn puts_are_visible_before_atomics<P: Provider>() {
    let (attr, way) = {
        let world = World::<P>::new(2);
        (world.attr(), any_put(&world))
    };
    let cpu = Caps::PUT_BEFORE_ATOMIC | Caps::ATOMIC_CPU;
    let Some(way) = way.filter(|_| {
        attr.caps.contains(cpu) && attr.atomic_post.contains(AtomicOps::ADD)
    }) else {
        return not_applicable::<P>("puts and atomics are not ordered");
    };
    watched::<P>(|world, window, round| {
        way.put(world, &round.to_ne_bytes(), window.at(64)).expect("inside");
        let (ep, at) = (world.ep(0, 1), window.at(1024));
        retry(world, |world| {
            world.peer(0).iface.atomic_post(ep, AtomicOp::Add(1), AtomicWidth::W64, at)
        })
        .expect("inside");
    });
}

/// One fetching atomic, whatever way its result comes.
#[track_caller]
pub fn fetch<P: Provider>(
    world: &mut World<P>,
    op: AtomicOp,
    width: AtomicWidth,
    at: RemoteSlice,
) -> Result<u64, PostError> {
    let (ep, token) = (world.ep(0, 1), world.peer(0).token());
    let posted = retry(world, |w| w.peer(0).iface.atomic_fetch(ep, op, width, at, token))?;
    Ok(match posted {
        Some(old) => old,
        None => world.wait(0, token).expect("the operation succeeds"),
    })
}

/// One atomic without a result, and a flush.
#[track_caller]
pub fn post<P: Provider>(
    world: &mut World<P>,
    op: AtomicOp,
    width: AtomicWidth,
    at: RemoteSlice,
) -> Result<(), PostError> {
    let ep = world.ep(0, 1);
    retry(world, |w| w.peer(0).iface.atomic_post(ep, op, width, at))?;
    flush(world);
    Ok(())
}
