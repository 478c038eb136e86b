//! The entry from a C program into a chapter, as macros.
//!
//! ```ignore
//! mpi! {
//!     /// What a reader should know.
//!     fn MPI_Comm_size(comm: Comm, size: Out<c_int>) on comm |mpi| {
//!         size.set(mpi.comm(comm)?.comm.size())
//!     }
//!     any fn MPI_Initialized(flag: Out<c_int>) {
//!         flag.set(library::was_started().into())
//!     }
//! }
//! ```
//! `any` is for functions that may be called at any time; all others end the job with a sentence where
//! MPI does not run, and get the library's state under the name between the bars. `on` names the
//! argument whose error handler takes errors; without it that is `MPI_COMM_SELF`'s. A body ends with
//! `Result<(), Fault>`; one with `-> T` (`any` only) ends with the value. A block after `short` says whether it
//! has done all there is to do, or fails; if not, it has done nothing, and the body does it.
//!
//! Each function has two symbols: `PMPI_X` has the body and `MPI_X` jumps to it, so that a tool may
//! define `MPI_X` itself. Nothing in the library calls either. A panic does not leave the library: it
//! ends the process with a sentence.

use std::ffi::c_int;
use std::marker::PhantomData;

use crate::fault::{Object, fault};
use crate::generated::constants::{
    MPI_ERR_UNSUPPORTED_OPERATION, MPI_T_ERR_CANNOT_INIT, MPI_T_ERR_NOT_INITIALIZED,
};

use crate::raise::raise;

/// A function that has a name.
pub(crate) trait Named {
    const NAME: &'static str;
}

/// Ends the process when it is dropped, which happens when a panic goes through a function of MPI. It has
/// no contents: a call without a panic has nothing to do for it.
pub(crate) struct Border<N: Named>(pub(crate) PhantomData<N>);

impl<N: Named> Drop for Border<N> {
    #[inline]
    fn drop(&mut self) {
        unwinds(N::NAME);
    }
}

#[cold]
#[inline(never)]
fn unwinds(name: &str) -> ! {
    // A panic has said what happened; else it is an exception out of a function of the program's.
    crate::library::say(&format!(
        "bowline: {name}: something unwinds through the library; the process ends"
    ));
    std::process::abort();
}

/// Runs a function, out of which no panic comes.
macro_rules! inside {
    ($name:ident, $act:expr) => {{
        struct Here;
        impl $crate::entry::Named for Here {
            const NAME: &'static str = stringify!($name);
        }
        let border = $crate::entry::Border::<Here>(std::marker::PhantomData);
        let value = $act;
        std::mem::forget(border);
        value
    }};
}

/// What a function returns: success, or what the handler of an object says.
macro_rules! outcome {
    ($name:ident($($arg:ident),*), $outcome:expr, $($object:ident)?) => {
        match $outcome {
            Ok(()) => $crate::generated::constants::MPI_SUCCESS,
            Err(fault) => {
                let object = $crate::entry::object!($($object)?);
                // Copies, so that the arguments themselves can stay in registers.
                let arguments = move |_text: &mut String| {
                    $($crate::shown::argument(_text, stringify!($arg), &$arg);)*
                };
                $crate::raise::raise(fault, object, stringify!($name), &arguments)
            }
        }
    };
}

/// Defines functions of MPI.
macro_rules! mpi {
    () => {};
    ($(#[$meta:meta])* any fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $returns:ty
        $body:block $($rest:tt)*) => {
        $crate::entry::symbols! { $name($($arg: $type),*) -> $returns {
            let run = || -> $returns { $body };
            $crate::entry::inside!($name, run())
        } }
        $crate::entry::mpi! { $($rest)* }
    };
    ($(#[$meta:meta])* any fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(on $object:ident)?
        $body:block $($rest:tt)*) => {
        $crate::entry::symbols! { $name($($arg: $type),*) -> std::ffi::c_int {
            let run = || -> Result<(), $crate::fault::Fault> { $body };
            let outcome = $crate::entry::inside!($name, run());
            $crate::entry::outcome!($name($($arg),*), outcome, $($object)?)
        } }
        $crate::entry::mpi! { $($rest)* }
    };
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(on $object:ident)?
        |$mpi:ident| $body:block $($rest:tt)*) => {
        $crate::entry::symbols! { $name($($arg: $type),*) -> std::ffi::c_int {
            let $mpi = $crate::library::enter(stringify!($name));
            let run = || -> Result<(), $crate::fault::Fault> { $body };
            let outcome = $crate::entry::inside!($name, run());
            $crate::entry::outcome!($name($($arg),*), outcome, $($object)?)
        } }
        $crate::entry::mpi! { $($rest)* }
    };
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(on $object:ident)?
        |$mpi:ident| short $short:block $body:block $($rest:tt)*) => {
        $crate::entry::symbols! { $name($($arg: $type),*) -> std::ffi::c_int {
            let $mpi = $crate::library::enter(stringify!($name));
            let short = || -> Result<bool, $crate::fault::Fault> { $short };
            let failed = match $crate::entry::inside!($name, short()) {
                Ok(true) => return $crate::generated::constants::MPI_SUCCESS,
                Ok(false) => None,
                Err(fault) => Some(fault),
            };
            // Apart, so that the short path keeps nothing for it.
            #[allow(clippy::too_many_arguments, reason = "those of the function, and one")]
            #[inline(never)]
            fn other(failed: Option<$crate::fault::Fault>, $($arg: $type),*) -> std::ffi::c_int {
                let $mpi = $crate::library::enter(stringify!($name));
                let run = || -> Result<(), $crate::fault::Fault> { $body };
                let outcome = match failed {
                    Some(fault) => Err(fault),
                    None => $crate::entry::inside!($name, run()),
                };
                $crate::entry::outcome!($name($($arg),*), outcome, $($object)?)
            }
            other(failed, $($arg),*)
        } }
        $crate::entry::mpi! { $($rest)* }
    };
}

/// The object whose handler takes a function's errors.
macro_rules! object {
    () => {
        $crate::fault::Object::Own
    };
    ($object:ident) => {
        $crate::fault::Object::from($object)
    };
}

/// The two symbols of a function.
macro_rules! symbols {
    ($name:ident($($arg:ident: $type:ty),*) -> $returns:ty $body:block) => {
        const _: () = {
            /// The function.
            ///
            /// # Safety
            /// The caller is a C program, which keeps the rules of the standard for the arguments.
            // SAFETY: no other function has this name: `cargo xtask abi` refuses a second one.
            #[unsafe(export_name = concat!("P", stringify!($name)))]
            #[inline(never)]
            unsafe extern "C-unwind" fn entry($($arg: $type),*) -> $returns $body

            /// Its other name.
            ///
            /// # Safety
            /// As for the function.
            // SAFETY: as above.
            #[unsafe(export_name = stringify!($name))]
            unsafe extern "C-unwind" fn jump($($arg: $type),*) -> $returns {
                // SAFETY: the caller keeps the rules for the same arguments.
                unsafe { entry($($arg),*) }
            }
        };
    };
}

/// Defines a function that the library does not have.
macro_rules! stub {
    (any fn $name:ident($($arg:ident: $type:ty),*) $(on $object:ident)?) => {
        $crate::entry::symbols! { $name($($arg: $type),*) -> std::ffi::c_int {
            $(let _ = $arg;)*
            $crate::entry::unsupported($crate::entry::object!($($object)?), stringify!($name))
        } }
    };
    (fn $name:ident($($arg:ident: $type:ty),*) $(on $object:ident)?) => {
        $crate::entry::symbols! { $name($($arg: $type),*) -> std::ffi::c_int {
            $(let _ = $arg;)*
            let mpi = $crate::library::enter(stringify!($name));
            let object = $crate::entry::object!($($object)?);
            // A wrong communicator is one whatever the function would do with it.
            if let $crate::fault::Object::Comm(comm) = object
                && let Err(fault) = mpi.comm(comm)
            {
                return $crate::raise::raise(fault, object, stringify!($name), &|_| {});
            }
            $crate::entry::unsupported(object, stringify!($name))
        } }
    };
}

/// Defines a function of the tools interface that the library does not have.
macro_rules! tool_stub {
    (fn $name:ident($($arg:ident: $type:ty),*)) => {
        $crate::entry::symbols! { $name($($arg: $type),*) -> std::ffi::c_int {
            $(let _ = $arg;)*
            $crate::entry::no_tools(stringify!($name))
        } }
    };
}

pub(crate) use {inside, mpi, object, outcome, stub, symbols, tool_stub};

/// What a function does that the library does not have.
#[cold]
#[inline(never)]
pub(crate) fn unsupported(object: Object, name: &'static str) -> c_int {
    let text = "this version of Bowline does not have the function";
    raise(fault(MPI_ERR_UNSUPPORTED_OPERATION, text), object, name, &|_| {})
}

/// What a function of the tools interface returns: the interface cannot be started, so that nothing of
/// it works.
#[cold]
#[inline(never)]
pub(crate) fn no_tools(name: &'static str) -> c_int {
    if name == "MPI_T_init_thread" { MPI_T_ERR_CANNOT_INIT } else { MPI_T_ERR_NOT_INITIALIZED }
}
