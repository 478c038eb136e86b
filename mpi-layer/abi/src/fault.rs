//! Errors, from the call to an error handler.
//!
//! A function of a chapter ends with a [`Fault`]: the class, a sentence, and the object whose handler is
//! called if it is another than the function's own. [`raise`](crate::raise::raise) makes the call of the handler of it, as
//! the last thing of the function: nothing is borrowed, locked or left to drop then, since a handler may
//! call MPI, free the object, or never return.

use std::borrow::Cow;
use std::ffi::c_int;
use std::fmt;

use bowline_mpi::MpiError;

use crate::generated::constants::MPI_ERR_IN_STATUS;
use crate::handle::{Comm, Errhandler, File, Session, Win};

/// The object whose error handler takes an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    /// None: `MPI_COMM_SELF`, or what stands in for it where there is none yet or any more.
    Own,
    Comm(Comm),
    Win(Win),
    File(File),
    Session(Session),
    /// A handler for an object that is being made.
    Handler(Errhandler),
}

macro_rules! objects {
    ($($kind:ident),*) => {
        $(
            impl From<$kind> for Object {
                #[inline]
                fn from(handle: $kind) -> Self {
                    Self::$kind(handle)
                }
            }

        )*
    };
}

objects!(Comm, Win, File, Session);

impl From<Errhandler> for Object {
    fn from(errhandler: Errhandler) -> Self {
        Self::Handler(errhandler)
    }
}

/// A handler of a program. The arguments behind the two are the library's to choose; it gives none.
pub(crate) type Function<T> = unsafe extern "C-unwind" fn(*mut T, *mut c_int, ...);

/// What is done with an error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// The function returns its code.
    Return,
    /// The job ends. `MPI_ERRORS_ABORT` would be content with the processes of a communicator;
    /// launchers end jobs only.
    End,
    /// A function of the program is called.
    Call(Call),
}

/// A call of a program's handler.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Comm(Function<Comm>, Comm),
    Win(Function<Win>, Win),
    File(Function<File>, File),
    Session(Function<Session>, Session),
}

impl Call {
    /// Calls it. The caller holds nothing that must be given back.
    pub(crate) fn run(self, mut code: c_int) {
        // SAFETY: the program gave these as handlers of this kind of object; the two addresses are of
        // locals, which outlive the call.
        unsafe {
            match self {
                Self::Comm(function, mut handle) => function(&mut handle, &mut code),
                Self::Win(function, mut handle) => function(&mut handle, &mut code),
                Self::File(function, mut handle) => function(&mut handle, &mut code),
                Self::Session(function, mut handle) => function(&mut handle, &mut code),
            }
        }
    }
}

/// Why a function failed. One word, so that a call without an error is cheap.
pub(crate) struct Fault(pub(crate) Box<Inner>);

pub(crate) struct Inner {
    pub(crate) code: c_int,
    pub(crate) text: Cow<'static, str>,
    pub(crate) object: Option<Object>,
    /// What is done with it, where that was decided when it was made.
    pub(crate) action: Option<Action>,
    /// Whether the program asked for the call of the handler, which is then no failure.
    pub(crate) asked: bool,
}

/// An error of a class, or of a code of the program's own, with a sentence.
#[cold]
#[inline(never)]
pub(crate) fn fault(code: c_int, text: impl Into<Cow<'static, str>>) -> Fault {
    Fault(Box::new(Inner { code, text: text.into(), object: None, action: None, asked: false }))
}

impl Fault {
    /// The same, for the handler of another object than the function's.
    #[allow(dead_code, reason = "for chapters to come")]
    pub(crate) fn on(mut self, object: impl Into<Object>) -> Self {
        self.0.object = Some(object.into());
        self
    }

    /// The same, with what is done with it, for an object that nobody can name by then.
    pub(crate) fn with_action(mut self, action: Option<Action>) -> Self {
        self.0.action = action;
        self
    }

    /// The same, for a function that reports the errors of several operations in their statuses.
    pub(crate) fn in_status(mut self) -> Self {
        self.0.code = MPI_ERR_IN_STATUS;
        self
    }

    /// The same, as the program's wish that the handler be called.
    pub(crate) fn asked_for(mut self) -> Self {
        self.0.asked = true;
        self
    }

    /// The error's code.
    #[allow(dead_code, reason = "for chapters to come")]
    pub(crate) fn code(&self) -> c_int {
        self.0.code
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "error {}: {}", self.0.code, self.0.text)
    }
}

impl From<MpiError> for Fault {
    #[cold]
    #[inline(never)]
    fn from(error: MpiError) -> Self {
        fault(error.class() as c_int, error.to_string())
    }
}

impl From<Box<MpiError>> for Fault {
    #[cold]
    #[inline(never)]
    fn from(error: Box<MpiError>) -> Self {
        Self::from(*error)
    }
}
