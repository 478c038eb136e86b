//! Posting of one-sided operations, and the keys that they need.

use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::runtime::{bytes_of, check_len};
use bowline_uct::{
    AmHeader, AmId, AtomicOp, AtomicWidth, EpId, LocalSlice, MemError, OneSided, PeerFailure,
    PostError, Posted, RemoteSlice, RkeyId, Token, WHOLE_PROCESS, lacks,
};

use super::SimIface;
use crate::net::{Kind, Remote};
use crate::payload::{Bytes, Lent, Payload};
use crate::wire::PackedRkey;

impl SimIface {
    pub(super) fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        let peer = match self.check_open(ep) {
            Ok(peer) => peer,
            Err(PostError::PeerFailed) => return Err(PeerFailure::Died.into()),
            Err(_) => return Err(MemError::NoSuch),
        };
        if packed == WHOLE_PROCESS && self.whole_process {
            return Ok(self.keys.insert(peer, 0, u64::MAX, None));
        }
        let rkey = PackedRkey::unpack(packed).ok_or(MemError::BadKey)?;
        let handle = Key::from_wire(rkey.handle);
        let net = self.network.lock();
        // What the key says is only compared: the network's table decides what can be reached.
        let known = net.nodes.get(peer as usize).and_then(|node| node.memory.get(&handle));
        let known = known.ok_or(MemError::BadKey)?;
        let (start, len) = (known.start(), known.len() as u64);
        let is =
            PackedRkey { network: net.id, node: peer, handle: rkey.handle, address: start, len };
        drop(net);
        if is != rkey {
            return Err(MemError::BadKey);
        }
        Ok(self.keys.insert(peer, start, len, Some(handle)))
    }

    /// The place at the peer that an operation of `len` bytes names.
    fn remote(
        &self,
        peer: u32,
        at: RemoteSlice,
        len: usize,
        read: bool,
    ) -> Result<Remote, PostError> {
        let Some(handle) = self.keys.open(peer, at, len)?.key else {
            let whole = Remote { handle: None, address: at.address };
            return if read { Ok(whole) } else { Err(PostError::BadArgument) };
        };
        // The owner may have released it; then the sender gets an error at once.
        let net = self.network.lock();
        if net.is_alive(peer) && !net.nodes[peer as usize].memory.contains_key(&handle) {
            return Err(PostError::BadRemote);
        }
        Ok(Remote { handle: Some(handle), address: at.address })
    }

    fn one_sided(&self) -> Result<(), PostError> {
        if self.attr.limits.put.max_short == 0 {
            return Err(PostError::Unsupported);
        }
        Ok(())
    }

    /// Counts an operation from or to where bytes lie, which may be one too many.
    fn permitted(&mut self) -> Result<(), PostError> {
        self.permits = self.permits.checked_sub(1).ok_or(PostError::Unsupported)?;
        Ok(())
    }

    /// Admits a one-sided operation of `len` bytes.
    fn admit(
        &mut self,
        ep: EpId,
        at: RemoteSlice,
        len: usize,
        read: bool,
    ) -> Result<(u32, Remote), PostError> {
        let peer = self.check_open(ep)?;
        let remote = self.remote(peer, at, len, read)?;
        let admitted = self.network.lock().admit(self.node, peer, false);
        admitted.map_err(|error| self.refused(ep, false, error))?;
        Ok((peer, remote))
    }

    fn post(&self, peer: u32, token: Token, kind: Kind, len: usize) -> u64 {
        self.network.lock().post(self.node, peer, token, kind, len, None)
    }
}

impl OneSided for SimIface {
    lacks! { get_bcopy }

    fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError> {
        self.put_bcopy(ep, bytes.len(), &mut |space| space.copy_in(bytes), to).map(drop)
    }

    fn put_bcopy(
        &mut self,
        ep: EpId,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
        to: RemoteSlice,
    ) -> Result<usize, PostError> {
        self.one_sided()?;
        self.check_open(ep)?;
        check_len(max_len, self.attr.limits.put.max_bcopy)?;
        let (peer, at) = self.admit(ep, to, max_len, false)?;
        let bytes = Bytes::packed(max_len, pack);
        let len = bytes.len();
        self.post(peer, Token::NONE, Kind::Put { at, payload: Payload::Owned(bytes) }, len);
        Ok(len)
    }

    fn put_zcopy(
        &mut self,
        ep: EpId,
        from: &[LocalSlice],
        to: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.one_sided()?;
        self.check_open(ep)?;
        self.permitted()?;
        let len = bytes_of(from, &self.attr.limits.put)?;
        let (peer, at) = self.admit(ep, to, len, false)?;
        let payload = Payload::Lent(Lent::new(from));
        self.post(peer, token, Kind::Put { at, payload }, len);
        Ok(Posted::InFlight)
    }

    fn put_notify(
        &mut self,
        ep: EpId,
        bytes: &[u8],
        to: RemoteSlice,
        id: AmId,
        header: &AmHeader,
    ) -> Result<(), PostError> {
        self.one_sided()?;
        let peer = self.check_open(ep)?;
        check_len(bytes.len(), self.attr.limits.put.max_short)?;
        let at = self.remote(peer, to, bytes.len(), false)?;
        // The notification's buffer first: a put without it would be observable.
        let mut net = self.network.lock();
        if !net.has_space(self.node, peer, false) {
            drop(net);
            return Err(self.refused(ep, false, PostError::NoResource));
        }
        if let Err(error) = net.admit(self.node, peer, true) {
            drop(net);
            return Err(self.refused(ep, true, error));
        }
        let payload = Payload::Owned(Bytes::new(bytes.to_vec()));
        let put = Kind::Put { at, payload };
        let put = net.post(self.node, peer, Token::NONE, put, bytes.len(), None);
        let payload = Payload::Owned(Bytes::new(Vec::new()));
        let am = Kind::Am { id, header: *header, payload };
        net.post(self.node, peer, Token::NONE, am, 0, Some(put));
        Ok(())
    }

    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.one_sided()?;
        self.check_open(ep)?;
        self.permitted()?;
        let len = bytes_of(to, &self.attr.limits.get)?;
        let (peer, at) = self.admit(ep, from, len, true)?;
        self.post(peer, token, Kind::Get { at, len, into: Lent::new(to), data: None }, 0);
        Ok(Posted::InFlight)
    }

    fn atomic(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<Option<u64>, PostError> {
        self.one_sided()?;
        let peer = self.check_open(ep)?;
        self.keys.open_word(peer, at, width)?;
        let bytes = width.bytes();
        let (peer, at) = self.admit(ep, at, bytes, false)?;
        self.post(peer, token, Kind::Atomic { at, op, width }, bytes);
        Ok(None)
    }
}
