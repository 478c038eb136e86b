//! From a fault to the error handler of its object.

use std::ffi::c_int;

use crate::fault::{Action, Fault, Object};
use crate::generated::constants::{MPI_ERR_OTHER, MPI_SUCCESS};
use crate::library;
use crate::library::codes;
use crate::library::handlers::{action_of, initial_action};

impl Fault {
    /// All that there is to say of the error of a call.
    fn sentence(&self, name: &str, arguments: &dyn Fn(&mut String)) -> String {
        let mut shown = String::new();
        arguments(&mut shown);
        let inner = &self.0;
        let text = format!("{name}: {}: {}", codes::code_name(inner.code), inner.text);
        match shown.is_empty() {
            true => text,
            false => format!("{text}, in {name}({shown})"),
        }
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
        codes::remember(code, name, &fault.0.text);
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
            library::end(codes::class_of(code).unwrap_or(MPI_ERR_OTHER), &text)
        }
    }
}

/// What happens with an error of no object.
fn own_action() -> Action {
    action_of(Object::Own).unwrap_or_else(initial_action)
}
