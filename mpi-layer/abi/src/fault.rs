//! Errors on their way to an error handler.
//!
//! A function of a chapter ends with a [`Fault`]: the class, a sentence, and the object whose handler is
//! called if it is another than the function's own. [`raise`] makes the call of the handler of it, as
//! the last thing of the function: nothing is borrowed, locked or left to drop then, since a handler may
//! call MPI, free the object, or never return.

use std::borrow::Cow;
use std::ffi::c_int;
use std::fmt;

use bowline_mpi::MpiError;

use crate::arg::Out;
use crate::errhandler::{Action, action_of, action_without_object, initial_action};
use crate::errors;
use crate::generated::constants::{MPI_ERR_IN_STATUS, MPI_ERR_OTHER, MPI_SUCCESS};
use crate::handle::{Comm, Errhandler, File, Session, Win};
use crate::library;

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

            impl From<Out<$kind>> for Object {
                #[inline]
                fn from(handle: Out<$kind>) -> Self {
                    handle.get().map_or(Self::Own, Self::$kind)
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

/// Why a function failed. One word, so that the way without an error is short.
pub(crate) struct Fault(Box<Inner>);

struct Inner {
    code: c_int,
    text: Cow<'static, str>,
    object: Option<Object>,
    /// What is done with it, where that was decided when it was made.
    action: Option<Action>,
    /// Whether the program asked for the call of the handler, which is then no failure.
    asked: bool,
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

    /// The same, for the handler of an object that nobody can name when it is called: a function of the
    /// program's gets the null handle.
    pub(crate) fn by(mut self, errhandler: Errhandler) -> Self {
        self.0.action = action_without_object(errhandler);
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

    /// All that there is to say of the error of a call.
    fn sentence(&self, name: &str, arguments: &dyn Fn(&mut String)) -> String {
        let mut shown = String::new();
        arguments(&mut shown);
        let inner = &self.0;
        let text = format!("{name}: {}: {}", errors::code_name(inner.code), inner.text);
        match shown.is_empty() {
            true => text,
            false => format!("{text}, in {name}({shown})"),
        }
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

/// Gives an error to its handler; what it returns is what the function returns. `arguments` writes those
/// of the call.
#[cold]
#[inline(never)]
pub(crate) fn raise(
    fault: Fault,
    object: Object,
    name: &'static str,
    arguments: &dyn Fn(&mut String),
) -> c_int {
    let object = fault.0.object.unwrap_or(object);
    let code = fault.0.code;
    if !fault.0.asked {
        tracing::debug!("{}", fault.sentence(name, arguments));
        errors::remember(code, name, &fault.0.text);
    }
    let action = fault.0.action.or_else(|| action_of(object)).unwrap_or_else(own_action);
    let result = if fault.0.asked { MPI_SUCCESS } else { code };
    match action {
        Action::Return => result,
        Action::Call(call) => {
            drop(fault);
            call.run(code);
            result
        }
        Action::End => {
            let text = fault.sentence(name, arguments);
            library::end(errors::class_of(code).unwrap_or(MPI_ERR_OTHER), &text)
        }
    }
}

/// What happens with an error of no object.
fn own_action() -> Action {
    action_of(Object::Own).unwrap_or_else(initial_action)
}
