//! Chapter: error classes, codes and their texts.

use std::ffi::c_int;

use crate::generated::constants::*;

/// The name of a class as C programs write it.
pub(crate) fn class_name(class: c_int) -> &'static str {
    let known = CLASSES.iter().find(|(value, _)| *value == class);
    known.map_or("an error of the program's own", |&(_, name)| name)
}

/// Keeps the sentence of an error for whoever asks for the text of its code.
pub(crate) fn remember(_code: c_int, _name: &'static str, _text: &str) {}
