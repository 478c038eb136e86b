//! How the arguments of a call are shown in a sentence about it: handles of the ABI by their names, all
//! else by its value. Nothing that an address leads to is read: it may be what is wrong.

use std::ffi::{c_double, c_int, c_void};
use std::fmt::Write as _;

use crate::arg::{In, Out, Text, TextOut};
use crate::generated::constants::*;
use crate::handle::{
    Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win,
};

/// Handles that are no datatypes. No value stands for two of them.
const HANDLES: &[(usize, &str)] = &[
    (MPI_OP_NULL.0, "MPI_OP_NULL"),
    (MPI_SUM.0, "MPI_SUM"),
    (MPI_MIN.0, "MPI_MIN"),
    (MPI_MAX.0, "MPI_MAX"),
    (MPI_PROD.0, "MPI_PROD"),
    (MPI_BAND.0, "MPI_BAND"),
    (MPI_BOR.0, "MPI_BOR"),
    (MPI_BXOR.0, "MPI_BXOR"),
    (MPI_LAND.0, "MPI_LAND"),
    (MPI_LOR.0, "MPI_LOR"),
    (MPI_LXOR.0, "MPI_LXOR"),
    (MPI_MINLOC.0, "MPI_MINLOC"),
    (MPI_MAXLOC.0, "MPI_MAXLOC"),
    (MPI_REPLACE.0, "MPI_REPLACE"),
    (MPI_NO_OP.0, "MPI_NO_OP"),
    (MPI_COMM_NULL.0, "MPI_COMM_NULL"),
    (MPI_COMM_WORLD.0, "MPI_COMM_WORLD"),
    (MPI_COMM_SELF.0, "MPI_COMM_SELF"),
    (MPI_GROUP_NULL.0, "MPI_GROUP_NULL"),
    (MPI_GROUP_EMPTY.0, "MPI_GROUP_EMPTY"),
    (MPI_WIN_NULL.0, "MPI_WIN_NULL"),
    (MPI_FILE_NULL.0, "MPI_FILE_NULL"),
    (MPI_SESSION_NULL.0, "MPI_SESSION_NULL"),
    (MPI_MESSAGE_NULL.0, "MPI_MESSAGE_NULL"),
    (MPI_MESSAGE_NO_PROC.0, "MPI_MESSAGE_NO_PROC"),
    (MPI_INFO_NULL.0, "MPI_INFO_NULL"),
    (MPI_INFO_ENV.0, "MPI_INFO_ENV"),
    (MPI_ERRHANDLER_NULL.0, "MPI_ERRHANDLER_NULL"),
    (MPI_ERRORS_ARE_FATAL.0, "MPI_ERRORS_ARE_FATAL"),
    (MPI_ERRORS_ABORT.0, "MPI_ERRORS_ABORT"),
    (MPI_ERRORS_RETURN.0, "MPI_ERRORS_RETURN"),
    (MPI_REQUEST_NULL.0, "MPI_REQUEST_NULL"),
];

/// An argument.
pub(crate) trait Shown {
    fn show(&self, text: &mut String);
}

/// Writes `name=value` behind what is there.
pub(crate) fn argument(text: &mut String, name: &str, value: &impl Shown) {
    if !text.is_empty() {
        text.push_str(", ");
    }
    // Names that a keyword of Rust has taken.
    text.push_str(name.trim_start_matches("r#"));
    text.push('=');
    value.show(text);
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(
            impl Shown for $number {
                fn show(&self, text: &mut String) {
                    // Writing to a string does not fail.
                    let _ = write!(text, "{self}");
                }
            }
        )*
    };
}

numbers!(c_int, i64, isize, c_double);

macro_rules! handles {
    ($($handle:ty),*) => {
        $(
            impl Shown for $handle {
                fn show(&self, text: &mut String) {
                    match HANDLES.iter().find(|(value, _)| *value == self.0) {
                        Some((_, name)) => text.push_str(name),
                        None => address(self.0, text),
                    }
                }
            }
        )*
    };
}

handles!(Comm, Errhandler, File, Group, Info, Message, Op, Request, Session, Win);

impl Shown for Datatype {
    fn show(&self, text: &mut String) {
        match DATATYPES.iter().find(|(value, _)| value == self) {
            Some((_, name)) => text.push_str(name),
            None => address(self.0, text),
        }
    }
}

fn address(value: usize, text: &mut String) {
    // Writing to a string does not fail.
    let _ = match value {
        0 => write!(text, "NULL"),
        value => write!(text, "{value:#x}"),
    };
}

impl<T> Shown for *const T {
    fn show(&self, text: &mut String) {
        address(self.addr(), text);
    }
}

impl Shown for *mut c_void {
    fn show(&self, text: &mut String) {
        address(self.addr(), text);
    }
}

impl<T: Copy> Shown for In<T> {
    fn show(&self, text: &mut String) {
        address(self.address().addr(), text);
    }
}

impl<T: Copy> Shown for Out<T> {
    fn show(&self, text: &mut String) {
        address(self.address().addr(), text);
    }
}

impl Shown for Text {
    fn show(&self, text: &mut String) {
        address(self.addr(), text);
    }
}

impl Shown for TextOut {
    fn show(&self, text: &mut String) {
        address(self.addr(), text);
    }
}

/// A function of the program's.
impl<F> Shown for Option<F> {
    fn show(&self, text: &mut String) {
        text.push_str(if self.is_some() { "a function" } else { "NULL" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_by_name() {
        let mut text = String::new();
        argument(&mut text, "count", &-1);
        argument(&mut text, "datatype", &MPI_INT);
        argument(&mut text, "comm", &MPI_COMM_WORLD);
        argument(&mut text, "newcomm", &Out::<Comm>::NULL);
        argument(&mut text, "group", &Group(0x1234));
        let expected =
            "count=-1, datatype=MPI_INT, comm=MPI_COMM_WORLD, newcomm=NULL, group=0x1234";
        assert_eq!(text, expected);
    }
}
