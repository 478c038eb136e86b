//! The library's constants and stubs, as source.

use std::fmt::Write as _;

use super::chapters::Chapters;
use super::facts::{Constant, Facts, Function, HANDLES, Passed};

/// Functions of the tools interface have no error handler: what they return is the error.
const TOOLS: &str = "MPI_T_";

/// Constants as the library uses them.
pub(super) fn constants(facts: &Facts) -> String {
    let mut text = String::from(
        "//! Constants of the standard ABI. Made by `cargo xtask abi`; do not edit.\n\n\
         use std::ffi::c_int;\n\n\
         use crate::handle::{Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, \
         Session, Win};\n\n",
    );
    for constant in &facts.constants {
        if let Some((kind, value)) = constant_in_rust(constant) {
            let name = &constant.name;
            let _ = writeln!(text, "pub(crate) const {name}: {kind} = {value};");
        }
    }
    classes(facts, &mut text);
    text
}

fn classes(facts: &Facts, text: &mut String) {
    text.push_str(
        "\n/// Names of the error classes.\n\
         pub(crate) const CLASSES: &[(c_int, &str)] = &[\n",
    );
    let error = |constant: &&Constant| {
        (constant.name.starts_with("MPI_ERR_") || constant.name.starts_with("MPI_T_ERR_"))
            && constant.name != "MPI_ERR_LASTCODE"
    };
    for constant in facts.constants.iter().filter(error) {
        let _ = writeln!(text, "    ({}, \"{}\"),", constant.name, constant.name);
    }
    text.push_str("];\n\n/// Names and values of the predefined datatypes.\n");
    text.push_str("pub(crate) const DATATYPES: &[(Datatype, &str)] = &[\n");
    for constant in facts.constants.iter().filter(|c| c.kind == "MPI_Datatype") {
        let _ = writeln!(text, "    ({}, \"{}\"),", constant.name, constant.name);
    }
    text.push_str("];\n");
}

fn opens_a_file(name: &str) -> bool {
    ["MPI_File_open", "MPI_File_delete", "MPI_Register_datarep", "MPI_Register_datarep_c"]
        .contains(&name)
}

fn constant_in_rust(constant: &Constant) -> Option<(&'static str, String)> {
    let value = &constant.value;
    if constant.kind == "int" || constant.kind.starts_with("enum") {
        return Some(("c_int", value.clone()));
    }
    if constant.kind == "alias" {
        // The aliases are all of datatypes.
        return Some(("Datatype", value.clone()));
    }
    if let Some((_, kind)) = HANDLES.iter().find(|(c, _)| *c == constant.kind) {
        let digits = value.trim_start_matches("0x").trim_start_matches('0');
        return Some((kind, format!("{kind}(0x{digits})")));
    }
    // Addresses.
    (constant.kind.ends_with('*') && !constant.kind.contains("_function"))
        .then(|| ("usize", value.clone()))
}

/// Definitions of the functions that no chapter has.
pub(super) fn stubs(facts: &Facts, chapters: &Chapters) -> String {
    let mut text = String::from(
        "//! Functions that no chapter has. Made by `cargo xtask abi`; do not edit.\n\n\
         use std::ffi::{c_int, c_void};\n\n\
         use crate::entry::{stub, tool_stub};\n\
         use crate::generated::constants::MPI_FILE_NULL;\n\
         use crate::handle::*;\n\n",
    );
    for function in &facts.functions {
        if !chapters.functions.contains_key(&function.name) {
            stub(function, &mut text);
        }
    }
    text
}

fn stub(function: &Function, text: &mut String) {
    let name = &function.name;
    let passed: Vec<Passed> =
        function.parameters.iter().map(|parameter| Passed::of_c(&parameter.kind)).collect();
    let list: Vec<String> =
        passed.iter().enumerate().map(|(n, passed)| format!("a{n}: {}", passed.rust())).collect();
    let list = list.join(", ");
    if name.starts_with(TOOLS) {
        let _ = writeln!(text, "tool_stub! {{ fn {name}({list}) }}");
        return;
    }
    let raises =
        |passed: &Passed| matches!(passed, Passed::Handle("Comm" | "Win" | "File" | "Session"));
    let object = match passed.iter().position(raises) {
        // What opens a file has no file yet: its errors go where those of no file go.
        _ if opens_a_file(name) => " on MPI_FILE_NULL".into(),
        Some(n) => format!(" on a{n}"),
        None => String::new(),
    };
    let when = if function.any_time { "any " } else { "" };
    let _ = writeln!(text, "stub! {{ {when}fn {name}({list}){object} }}");
}
