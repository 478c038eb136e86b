//! Error classes, codes and their texts.
//!
//! An error of the library has its class as its code. The text of a class names the last error of the
//! class as well, since the code cannot. Classes and codes of the program are above the last of the
//! standard. All may be used at any time in any thread, so they are behind a lock.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_base::sync::atomic::{AtomicI32, Ordering};

use crate::fault::{Fault, fault};
use crate::generated::constants::*;

/// A class or a code of the program.
#[derive(Debug)]
pub(crate) struct Own {
    /// The class; a class has itself.
    pub(crate) class: c_int,
    pub(crate) text: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Codes {
    pub(crate) own: BTreeMap<c_int, Own>,
    /// The last error's sentence by class.
    last: BTreeMap<c_int, String>,
}

static CODES: Mutex<Codes> = Mutex::new(Codes { own: BTreeMap::new(), last: BTreeMap::new() });

/// The largest class or code in use: what the attribute `MPI_LASTUSEDCODE` points to.
static LAST_USED: AtomicI32 = AtomicI32::new(MPI_ERR_LASTCODE);

pub(crate) fn codes() -> MutexGuard<'static, Codes> {
    CODES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the program finds the largest class or code in use.
pub(crate) fn last_used() -> *const c_int {
    LAST_USED.as_ptr()
}

/// The class of a code; `None` when it is no code.
pub(crate) fn class_of(code: c_int) -> Option<c_int> {
    if code == MPI_SUCCESS || CLASSES.iter().any(|&(class, _)| class == code) {
        return Some(code);
    }
    codes().own.get(&code).map(|own| own.class)
}

/// The name of a code as C programs write it.
pub(crate) fn code_name(code: c_int) -> String {
    match CLASSES.iter().find(|(value, _)| *value == code) {
        Some(&(_, name)) => name.to_owned(),
        None => format!("error {code}"),
    }
}

/// Keeps the sentence of an error for a caller that asks for the text of its code.
pub(crate) fn remember(code: c_int, name: &'static str, text: &str) {
    codes().last.insert(code, format!("{name}: {text}"));
}

/// The text of a code; `None` when it is no code.
pub(crate) fn text_of(code: c_int) -> Option<Vec<u8>> {
    if code == MPI_SUCCESS {
        return Some(b"MPI_SUCCESS: no error".to_vec());
    }
    let codes = codes();
    if let Some(own) = codes.own.get(&code) {
        return Some(own.text.clone());
    }
    let &(_, name) = CLASSES.iter().find(|(class, _)| *class == code)?;
    let text = match codes.last.get(&code) {
        Some(last) => format!("{name}: {}; the last one: {last}", meaning(code)),
        None => format!("{name}: {}", meaning(code)),
    };
    Some(text.into_bytes())
}

impl Codes {
    /// Takes in a class, or a code of a class.
    pub(crate) fn add(&mut self, class: Option<c_int>) -> c_int {
        let last = self.own.last_key_value().map_or(MPI_ERR_LASTCODE, |(&code, _)| code);
        let code = last + 1;
        self.own.insert(code, Own { class: class.unwrap_or(code), text: Vec::new() });
        self.publish();
        code
    }

    pub(crate) fn publish(&self) {
        let last = self.own.last_key_value().map_or(MPI_ERR_LASTCODE, |(&code, _)| code);
        // Relaxed: a number for the program, which publishes nothing else.
        LAST_USED.store(last, Ordering::Relaxed);
    }

    /// What has a text cannot be removed before that is.
    pub(crate) fn check_without_text(&mut self, code: c_int) -> Result<(), Fault> {
        if self.own(code)?.text.is_empty() {
            return Ok(());
        }
        Err(fault(MPI_ERR_ARG, format!("{code} has a text still; remove that first")))
    }

    /// A class or code of the program.
    pub(crate) fn own(&mut self, code: c_int) -> Result<&mut Own, Fault> {
        let foreign = || fault(MPI_ERR_ARG, format!("{code} is no class or code of the program's"));
        self.own.get_mut(&code).ok_or_else(foreign)
    }
}

/// What a class means.
fn meaning(class: c_int) -> &'static str {
    match class {
        MPI_ERR_BUFFER => "a buffer is not valid",
        MPI_ERR_COUNT => "a count is not valid",
        MPI_ERR_TYPE => "a datatype is not valid here",
        MPI_ERR_TAG => "a tag is not valid",
        MPI_ERR_COMM => "a communicator is not valid",
        MPI_ERR_RANK => "a rank is not valid",
        MPI_ERR_REQUEST => "a request is not valid here",
        MPI_ERR_ROOT => "a root is not valid",
        MPI_ERR_GROUP => "a group is not valid",
        MPI_ERR_OP => "an operation is not valid here",
        MPI_ERR_TOPOLOGY => "a topology is not valid",
        MPI_ERR_DIMS => "a number of dimensions is not valid",
        MPI_ERR_ARG => "an argument is not valid",
        MPI_ERR_TRUNCATE => "a message is longer than its receive buffer",
        MPI_ERR_OTHER => "an error that no other class names",
        MPI_ERR_INTERN => "an error inside the library",
        MPI_ERR_PENDING => "an operation is not complete",
        MPI_ERR_IN_STATUS => "the errors are in the statuses",
        MPI_ERR_ERRHANDLER => "an error handler is not valid here",
        MPI_ERR_KEYVAL => "a key of attributes is not valid",
        MPI_ERR_INFO => "an information handle is not valid here",
        MPI_ERR_INFO_KEY => "a key is empty or too long",
        MPI_ERR_INFO_NOKEY => "the key is not there",
        MPI_ERR_INFO_VALUE => "a value is too long",
        MPI_ERR_NO_MEM => "there is no more memory",
        MPI_ERR_WIN => "a window is not valid",
        MPI_ERR_FILE => "a file handle is not valid",
        MPI_ERR_SESSION => "a session is not valid",
        MPI_ERR_PROC_ABORTED => "a process has ended that the call needs",
        MPI_ERR_VALUE_TOO_LARGE => "a result does not fit where it is to go",
        MPI_ERR_UNSUPPORTED_OPERATION => "the library does not have it",
        MPI_ERR_ABI => "a setting of the ABI is not valid or comes too late",
        _ => "an error of this class",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_itself_and_a_text() {
        for &(class, name) in CLASSES {
            assert_eq!(class_of(class), Some(class));
            assert_eq!(code_name(class), name);
            let text = String::from_utf8(text_of(class).unwrap()).unwrap();
            assert!(text.starts_with(name), "{text}");
        }
        assert_eq!(class_of(MPI_ERR_LASTCODE + 100_000), None);
        assert_eq!(text_of(-1), None);
    }
}
