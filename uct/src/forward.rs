//! Methods of the contract that somebody else has, or nobody: [`forward!`](crate::forward!) and
//! [`lacks!`](crate::lacks!).
//!
//! The traits of the contract have no default methods. So an implementation says of each method what it does, and
//! a method that is added is an error of the compiler in each, until it says so. What it says is short where
//! an interface stands on another one, or has no such operation. This file has the signature of each method
//! once more for the two macros; one that differs from the trait's does not compile.

/// Within an `impl` of one of the contract's traits: methods that an interface below has, by their names, or a
/// part of this one, or the type itself.
///
/// The left side of `=>` is a pattern for `self`, the right side is what receives the call. An interface that is one
/// of several kinds has an arm for each. `[this => this]` calls methods that the type itself has, with the names and
/// signatures of the trait's: so they stand where they belong, in any file of a provider. If there is none of that
/// name the trait's method would call itself, which the compiler reports (`unconditional_recursion`).
///
/// ```
/// # use bowline_uct::{Wakeup, forward};
/// struct Counted {
///     below: Box<dyn bowline_uct::Iface>,
/// }
///
/// impl Wakeup for Counted {
///     forward! { [this => this.below] doorbell arm disarm event_fd }
/// }
/// ```
#[macro_export]
macro_rules! forward {
    ($to:tt $($name:ident)+) => { $($crate::__method! { $name __forward $to })+ };
}

/// Within an `impl` of one of the contract's traits: methods that the interface lacks, by their names. They
/// answer that it does: operations with [`PostError::Unsupported`](crate::PostError::Unsupported). The name of a whole
/// part, `OneSided` or `SignalSafe`, stands for all its methods:
///
/// ```
/// # struct Bare;
/// impl bowline_uct::OneSided for Bare {
///     bowline_uct::lacks! { OneSided }
/// }
/// ```
///
/// A method that every transport has is not among them:
///
/// ```compile_fail
/// # struct Bare;
/// impl bowline_uct::Wakeup for Bare {
///     bowline_uct::lacks! { doorbell arm disarm event_fd }
/// }
/// ```
#[macro_export]
macro_rules! lacks {
    (OneSided) => {
        $crate::lacks! { put_short put_bcopy put_zcopy put_notify get_bcopy get_zcopy atomic }
    };
    (SignalSafe) => {
        $crate::lacks! {
            progress_signal_safe can_post_signal_safe
            prepare unprepare rkey_unpack_signal_safe get_prepared lend_signal_safe
        }
    };
    ($($name:ident)+) => { $($crate::__method! { $name __lacks [$name] })+ };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __forward {
    ($to:tt fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?) => {
        #[inline]
        fn $name(&self $(, $argument: $type)*) $(-> $result)? {
            $crate::__call! { self $to $name ($($argument),*) }
        }
    };
    ($to:tt fn $name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?) => {
        #[inline]
        fn $name(&mut self $(, $argument: $type)*) $(-> $result)? {
            $crate::__call! { self $to $name ($($argument),*) }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __call {
    ($this:tt [$($arm:pat => $to:expr),+] $name:ident $arguments:tt) => {
        match $this { $($arm => $to.$name $arguments,)+ }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lacks {
    ([$lacking:ident] fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?) => {
        fn $name(&self $(, $argument: $type)*) $(-> $result)? {
            $(let _ = $argument;)*
            $crate::__lacking! { $lacking }
        }
    };
    ([$lacking:ident] fn $name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?) => {
        fn $name(&mut self $(, $argument: $type)*) $(-> $result)? {
            $(let _ = $argument;)*
            $crate::__lacking! { $lacking }
        }
    };
}

/// What a method answers that an interface lacks.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __lacking {
    (mem_alloc) => { Err($crate::MemError::Unsupported("allocate memory that peers reach")) };
    (mem_register) => { Err($crate::MemError::Unsupported("register memory")) };
    (mem_expose) => { Err($crate::MemError::Unsupported("lend memory to the reads of peers")) };
    (mem_lend) => { Err($crate::MemError::Unsupported("lend memory to the writes of peers")) };
    (mem_view) => { None };
    (mem_release) => { Err($crate::MemError::NoSuch) };
    (rkey_pack) => { Err($crate::MemError::NoSuch) };
    (rkey_unpack) => { Err($crate::MemError::Unsupported("reach memory of peers")) };
    (rkey_ptr) => { None };
    (puts_end_last) => { false };
    (rkey_release) => { () };
    (rkey_of) => { None };
    (doorbell) => { None };
    (explain) => { Vec::new() };
    (progress_signal_safe) => { 0 };
    (can_post_signal_safe) => { false };
    (prepare) => { Err($crate::MemError::Unsupported("read by a signal handler into memory that was prepared")) };
    (unprepare) => { () };
    (rkey_unpack_signal_safe) => { None };
    (get_prepared) => { $crate::__lacking! { post } };
    (lend_signal_safe) => { None };
    (am_short) => { $crate::__lacking! { post } };
    (am_bcopy) => { $crate::__lacking! { post } };
    (am_zcopy) => { $crate::__lacking! { post } };
    (put_short) => { $crate::__lacking! { post } };
    (put_bcopy) => { $crate::__lacking! { post } };
    (put_zcopy) => { $crate::__lacking! { post } };
    (put_notify) => { $crate::__lacking! { post } };
    (get_bcopy) => { $crate::__lacking! { post } };
    (get_zcopy) => { $crate::__lacking! { post } };
    (atomic) => { $crate::__lacking! { post } };
    (post) => { Err($crate::PostError::Unsupported) };
}

/// The signature of a method, handed to the macro `$then`.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __method {
    // MemoryDomain
    (md_attr $then:ident $to:tt) => { $crate::$then! { $to fn md_attr(&self) -> $crate::MdAttr } };
    (mem_alloc $then:ident $to:tt) => { $crate::$then! { $to fn mem_alloc(&mut self, len: usize) -> Result<$crate::MemHandle, $crate::MemError> } };
    (mem_register $then:ident $to:tt) => { $crate::$then! { $to fn mem_register(&mut self, memory: $crate::RecvBuf) -> Result<$crate::MemHandle, $crate::MemError> } };
    (mem_expose $then:ident $to:tt) => { $crate::$then! { $to fn mem_expose(&mut self, bytes: $crate::LocalSlice) -> Result<$crate::MemHandle, $crate::MemError> } };
    (mem_lend $then:ident $to:tt) => { $crate::$then! { $to fn mem_lend(&mut self, bytes: $crate::LocalSlice) -> Result<$crate::MemHandle, $crate::MemError> } };
    (mem_view $then:ident $to:tt) => { $crate::$then! { $to fn mem_view(&self, handle: $crate::MemHandle) -> Option<$crate::View<'_>> } };
    (mem_release $then:ident $to:tt) => { $crate::$then! { $to fn mem_release(&mut self, handle: $crate::MemHandle) -> Result<Option<$crate::RecvBuf>, $crate::MemError> } };
    (rkey_pack $then:ident $to:tt) => { $crate::$then! { $to fn rkey_pack(&self, handle: $crate::MemHandle) -> Result<Vec<u8>, $crate::MemError> } };
    (rkey_unpack $then:ident $to:tt) => { $crate::$then! { $to fn rkey_unpack(&mut self, ep: $crate::EpId, packed: &[u8]) -> Result<$crate::RkeyId, $crate::MemError> } };
    (rkey_ptr $then:ident $to:tt) => { $crate::$then! { $to fn rkey_ptr(&self, rkey: $crate::RkeyId, remote: u64, len: usize) -> Option<$crate::View<'_>> } };
    (puts_end_last $then:ident $to:tt) => { $crate::$then! { $to fn puts_end_last(&self, rkey: $crate::RkeyId) -> bool } };
    (rkey_release $then:ident $to:tt) => { $crate::$then! { $to fn rkey_release(&mut self, rkey: $crate::RkeyId) } };
    (rkey_of $then:ident $to:tt) => { $crate::$then! { $to fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> } };
    // Iface
    (attr $then:ident $to:tt) => { $crate::$then! { $to fn attr(&self) -> &$crate::IfaceAttr } };
    (address $then:ident $to:tt) => { $crate::$then! { $to fn address(&self) -> Vec<u8> } };
    (reachable $then:ident $to:tt) => { $crate::$then! { $to fn reachable(&self, address: &[u8]) -> Result<(), $crate::Unreachable> } };
    (explain $then:ident $to:tt) => { $crate::$then! { $to fn explain(&self, address: &[u8]) -> Vec<String> } };
    (connect $then:ident $to:tt) => { $crate::$then! { $to fn connect(&mut self, address: &[u8]) -> Result<$crate::EpId, $crate::OpenError> } };
    (source_of $then:ident $to:tt) => { $crate::$then! { $to fn source_of(&self, address: &[u8]) -> Option<$crate::Source> } };
    (disconnect $then:ident $to:tt) => { $crate::$then! { $to fn disconnect(&mut self, ep: $crate::EpId) } };
    (all_sent $then:ident $to:tt) => { $crate::$then! { $to fn all_sent(&mut self) -> bool } };
    (am_short $then:ident $to:tt) => { $crate::$then! { $to fn am_short(&mut self, ep: $crate::EpId, id: $crate::AmId, header: &$crate::AmHeader, payload: &[u8]) -> Result<(), $crate::PostError> } };
    (am_bcopy $then:ident $to:tt) => { $crate::$then! { $to fn am_bcopy(&mut self, ep: $crate::EpId, id: $crate::AmId, header: &$crate::AmHeader, max_len: usize, pack: &mut dyn FnMut($crate::View<'_>) -> usize) -> Result<usize, $crate::PostError> } };
    (am_zcopy $then:ident $to:tt) => { $crate::$then! { $to fn am_zcopy(&mut self, ep: $crate::EpId, id: $crate::AmId, header: &$crate::AmHeader, payload: &[$crate::LocalSlice], token: $crate::Token) -> Result<$crate::Posted, $crate::PostError> } };
    (flush $then:ident $to:tt) => { $crate::$then! { $to fn flush(&mut self, ep: $crate::EpId, token: $crate::Token) -> Result<$crate::Posted, $crate::PostError> } };
    (flush_all $then:ident $to:tt) => { $crate::$then! { $to fn flush_all(&mut self, token: $crate::Token) -> Result<$crate::Posted, $crate::PostError> } };
    (fence $then:ident $to:tt) => { $crate::$then! { $to fn fence(&mut self) -> Result<(), $crate::PostError> } };
    (want_writable $then:ident $to:tt) => { $crate::$then! { $to fn want_writable(&mut self, ep: $crate::EpId) } };
    (progress $then:ident $to:tt) => { $crate::$then! { $to fn progress(&mut self, sink: &mut dyn $crate::Sink, budget: u32) -> u32 } };
    (check $then:ident $to:tt) => { $crate::$then! { $to fn check(&mut self, ep: $crate::EpId) -> Result<(), $crate::PostError> } };
    (invalidate $then:ident $to:tt) => { $crate::$then! { $to fn invalidate(&mut self, ep: $crate::EpId) } };
    // OneSided
    (put_short $then:ident $to:tt) => { $crate::$then! { $to fn put_short(&mut self, ep: $crate::EpId, bytes: &[u8], to: $crate::RemoteSlice) -> Result<(), $crate::PostError> } };
    (put_bcopy $then:ident $to:tt) => { $crate::$then! { $to fn put_bcopy(&mut self, ep: $crate::EpId, max_len: usize, pack: &mut dyn FnMut($crate::View<'_>) -> usize, to: $crate::RemoteSlice) -> Result<usize, $crate::PostError> } };
    (put_zcopy $then:ident $to:tt) => { $crate::$then! { $to fn put_zcopy(&mut self, ep: $crate::EpId, from: &[$crate::LocalSlice], to: $crate::RemoteSlice, token: $crate::Token) -> Result<$crate::Posted, $crate::PostError> } };
    (put_notify $then:ident $to:tt) => { $crate::$then! { $to fn put_notify(&mut self, ep: $crate::EpId, bytes: &[u8], to: $crate::RemoteSlice, id: $crate::AmId, header: &$crate::AmHeader) -> Result<(), $crate::PostError> } };
    (get_bcopy $then:ident $to:tt) => { $crate::$then! { $to fn get_bcopy(&mut self, ep: $crate::EpId, from: $crate::RemoteSlice, len: usize, unpack: &mut dyn FnMut($crate::View<'_>)) -> Result<(), $crate::PostError> } };
    (get_zcopy $then:ident $to:tt) => { $crate::$then! { $to fn get_zcopy(&mut self, ep: $crate::EpId, to: &[$crate::LocalSlice], from: $crate::RemoteSlice, token: $crate::Token) -> Result<$crate::Posted, $crate::PostError> } };
    (atomic $then:ident $to:tt) => { $crate::$then! { $to fn atomic(&mut self, ep: $crate::EpId, op: $crate::AtomicOp, width: $crate::AtomicWidth, at: $crate::RemoteSlice, token: $crate::Token) -> Result<Option<u64>, $crate::PostError> } };
    // Wakeup
    (doorbell $then:ident $to:tt) => { $crate::$then! { $to fn doorbell(&self) -> Option<&$crate::Doorbell> } };
    (arm $then:ident $to:tt) => { $crate::$then! { $to fn arm(&mut self, descriptor: bool) -> $crate::Armed } };
    (disarm $then:ident $to:tt) => { $crate::$then! { $to fn disarm(&mut self) } };
    (event_fd $then:ident $to:tt) => { $crate::$then! { $to fn event_fd(&mut self) -> Result<$crate::BorrowedFd<'_>, $crate::OpenError> } };
    // SignalSafe
    (progress_signal_safe $then:ident $to:tt) => { $crate::$then! { $to fn progress_signal_safe(&mut self, sink: &mut dyn $crate::SignalSink, budget: u32) -> u32 } };
    (can_post_signal_safe $then:ident $to:tt) => { $crate::$then! { $to fn can_post_signal_safe(&self, ep: $crate::EpId) -> bool } };
    (prepare $then:ident $to:tt) => { $crate::$then! { $to fn prepare(&mut self, bytes: $crate::LocalSlice) -> Result<$crate::PreparedId, $crate::MemError> } };
    (unprepare $then:ident $to:tt) => { $crate::$then! { $to fn unprepare(&mut self, prepared: $crate::PreparedId) } };
    (rkey_unpack_signal_safe $then:ident $to:tt) => { $crate::$then! { $to fn rkey_unpack_signal_safe(&mut self, ep: $crate::EpId, packed: &[u8]) -> Option<$crate::RkeyId> } };
    (get_prepared $then:ident $to:tt) => { $crate::$then! { $to fn get_prepared(&mut self, ep: $crate::EpId, prepared: $crate::PreparedId, to: $crate::LocalSlice, from: $crate::RemoteSlice, token: $crate::Token) -> Result<$crate::Posted, $crate::PostError> } };
    (lend_signal_safe $then:ident $to:tt) => { $crate::$then! { $to fn lend_signal_safe(&mut self, bytes: $crate::LocalSlice) -> Option<$crate::MemHandle> } };
}
