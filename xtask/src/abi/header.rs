//! The header `mpi.h`.

use std::fmt::Write as _;

use super::facts::{Constant, Facts, HANDLES, Parameter};

const START: &str = "\
/* mpi.h: the C interface of MPI 5.0 with the types and values of its standard ABI.
 *
 * Made by `cargo xtask abi` from tables of facts; do not edit. A program that is compiled with it runs
 * with every library of that ABI: link with -lmpi_abi.
 */
#ifndef BOWLINE_MPI_H
#define BOWLINE_MPI_H

#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

/* The ABI that this header describes. */
#define MPI_ABI 1

/* Numbers that depend on the machine. */
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef MPI_Offset MPI_Count;

/* What is known of a message. The fields of the standard come first; the rest is the library's. */
typedef struct MPI_Status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_Status;

/* Handles: addresses of types that nobody defines, so that the compiler distinguishes them. */
";

const TOOLS: &[&str] = &[
    "MPI_T_enum",
    "MPI_T_cvar_handle",
    "MPI_T_pvar_handle",
    "MPI_T_pvar_session",
    "MPI_T_event_registration",
    "MPI_T_event_instance",
];

const FORTRAN: &str = "
/* Conversions between handles of C and of Fortran by the names that programs from before the ABI use.
 * They are not in the ABI, so a program asks for them: -DBOWLINE_MPI_FINT. */
#ifdef BOWLINE_MPI_FINT
typedef int MPI_Fint;
#define MPI_F_STATUS_IGNORE ((MPI_Fint *)0)
#define MPI_F_STATUSES_IGNORE ((MPI_Fint *)0)
";

const END: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

/// The header's text.
pub(super) fn text(facts: &Facts) -> String {
    let mut text = START.to_owned();
    for name in HANDLES.iter().map(|&(name, _)| name).chain(TOOLS.iter().copied()) {
        let tag = name.trim_start_matches("MPI_");
        let _ = writeln!(text, "typedef struct MPI_ABI_{tag} *{name};");
    }
    for name in ["MPI_T_cb_safety", "MPI_T_source_order"] {
        enumeration(facts, name, &mut text);
    }
    text.push_str("\n/* Functions that a program hands over. */\n");
    for callback in &facts.callbacks {
        let (returns, name, parameters) = (&callback.returns, &callback.name, &callback.parameters);
        let _ = writeln!(text, "typedef {returns} ({name})({parameters});");
    }
    // Names of callbacks from before MPI-4 that programs still use.
    for kind in ["Comm", "File", "Win"] {
        let _ = writeln!(text, "typedef MPI_{kind}_errhandler_function MPI_{kind}_errhandler_fn;");
    }
    text.push_str("\n/* Constants. */\n");
    for constant in &facts.constants {
        define(constant, &mut text);
    }
    for prefix in ["MPI_", "PMPI_"] {
        let _ = write!(text, "\n/* Functions, {prefix}. */\n");
        for function in &facts.functions {
            let parameters: Vec<String> = function.parameters.iter().map(declared).collect();
            let parameters =
                if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
            let name = function.name.trim_start_matches("MPI_");
            let _ = writeln!(text, "{} {prefix}{name}({parameters});", function.returns);
        }
    }
    fortran(&mut text);
    text.push_str(END);
    text
}

/// A parameter in a prototype. Weights are pointers, which is the same type: compilers take an array for memory that is
/// there, and warn of programs that give `MPI_UNWEIGHTED`.
fn declared(parameter: &Parameter) -> String {
    match parameter.kind.strip_suffix("[]") {
        Some(of) if parameter.name.ends_with("weights") => format!("{of} *{}", parameter.name),
        _ => parameter.text.clone(),
    }
}

fn enumeration(facts: &Facts, name: &str, text: &mut String) {
    let kind = format!("enum {name}");
    let _ = write!(text, "\ntypedef enum {name} {{\n");
    for constant in facts.constants.iter().filter(|constant| constant.kind == kind) {
        let _ = writeln!(text, "    {} = {},", constant.name, constant.value);
    }
    let _ = writeln!(text, "}} {name};");
}

fn define(constant: &Constant, text: &mut String) {
    let Constant { name, kind, value } = constant;
    let value = match kind.as_str() {
        "int" | "enum" if value.starts_with('-') => format!("({value})"),
        "int" | "enum" | "alias" => value.clone(),
        // In the enumeration.
        kind if kind.starts_with("enum ") => return,
        kind => format!("(({kind}){value})"),
    };
    let _ = writeln!(text, "#define {name} {value}");
}

fn fortran(text: &mut String) {
    text.push_str(FORTRAN);
    for (name, _) in HANDLES {
        let short = if *name == "MPI_Datatype" { "MPI_Type" } else { name };
        for prefix in ["", "P"] {
            let name = format!("{prefix}{short}");
            let _ = writeln!(text, "#define {name}_c2f(handle) {name}_toint(handle)");
            let _ = writeln!(text, "#define {name}_f2c(number) {name}_fromint(number)");
        }
    }
    text.push_str("#endif\n");
}
