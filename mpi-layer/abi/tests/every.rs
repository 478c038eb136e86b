//! Calls with one wrong argument, made of the tables: every function that is implemented, each of its
//! arguments, each way in which that can be wrong.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Functions that are not called with wrong arguments, and why.
const NOT_CALLED: &[(&str, &str)] = &[
    ("MPI_Abort", "it ends the job"),
    ("MPI_Finalize", "it ends MPI"),
    ("MPI_Free_mem", "any address is taken for memory of the library"),
    ("MPI_Pcontrol", "it is variadic, and takes any level"),
];

/// Arguments that may be null, by name.
const MAY_BE_NULL: &[&str] = &[
    "status",
    "array_of_statuses",
    "extra_state",
    "argc",
    "argv",
    "location",
    // Functions for attributes may be the constants with the value null.
    "copy_fn",
    "delete_fn",
    "comm_copy_attr_fn",
    "comm_delete_attr_fn",
    "type_copy_attr_fn",
    "type_delete_attr_fn",
    "win_copy_attr_fn",
    "win_delete_attr_fn",
];

/// Arguments that may be null in one function.
const MAY_BE_NULL_IN: &[(&str, &str)] = &[
    ("MPI_Attr_put", "attribute_val"),
    ("MPI_Comm_set_attr", "attribute_val"),
    ("MPI_Type_set_attr", "attribute_val"),
];

/// Arguments with a meaning that the tables do not have.
const PASSED_OVER: &[(&str, &str)] = &[
    // Nothing is stored as long as nothing was set.
    ("MPI_Abi_get_fortran_booleans", "logical_true"),
    ("MPI_Abi_get_fortran_booleans", "logical_false"),
    // There is no such thing whatever the other argument is.
    ("MPI_Comm_remote_group", "group"),
    ("MPI_Comm_remote_size", "size"),
    ("MPI_Intercomm_merge", "newintracomm"),
    // The first rank gets nothing.
    ("MPI_Exscan", "recvbuf"),
    ("MPI_Exscan_c", "recvbuf"),
    ("MPI_Iexscan", "recvbuf"),
    ("MPI_Iexscan_c", "recvbuf"),
    ("MPI_Exscan_init", "recvbuf"),
    ("MPI_Exscan_init_c", "recvbuf"),
    // The null handle has a name.
    ("MPI_Comm_get_name", "comm"),
    ("MPI_Type_get_name", "datatype"),
    // With a capacity of nothing, only the length is reported.
    ("MPI_Info_get_string", "value"),
    ("MPI_Session_get_nth_pset", "pset_name"),
    // A status takes any number.
    ("MPI_Status_set_source", "source"),
    ("MPI_Status_set_tag", "tag"),
    // Functions that are null are not called.
    ("MPI_Grequest_start", "query_fn"),
    ("MPI_Grequest_start", "free_fn"),
    ("MPI_Grequest_start", "cancel_fn"),
];

/// A parameter of a function.
struct Parameter<'a> {
    kind: String,
    name: &'a str,
}

/// The functions that a chapter has, by the page about them.
fn implemented() -> BTreeSet<&'static str> {
    let page = include_str!("../../../docs/mpi-coverage.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let fields = rows.filter_map(|row| row.split_once("` | "));
    fields.filter(|(_, chapter)| *chapter != "none yet").map(|(name, _)| name).collect()
}

fn parameters(text: &str) -> Vec<Parameter<'_>> {
    let one = |text: &'_ str| -> Option<(String, usize, usize)> {
        let end = text.find('[').unwrap_or(text.len());
        let start = text[..end].rfind([' ', '*'])? + 1;
        let kind = format!("{}{}", text[..start].trim_end(), &text[end..]);
        Some((kind, start, end))
    };
    let parts = text.split(',').map(str::trim);
    parts
        .filter_map(|part| {
            let (kind, start, end) = one(part)?;
            Some(Parameter {
                kind: kind.replace("const ", "").replace(' ', ""),
                name: &part[start..end],
            })
        })
        .collect()
}

/// A handle's kind: its type, the null one, one that was freed, one that is good, and the class.
const HANDLES: &[(&str, &str, &str, &str, &str)] = &[
    ("MPI_Comm", "MPI_COMM_NULL", "freed_comm", "comm_place", "MPI_ERR_COMM"),
    ("MPI_Group", "MPI_GROUP_NULL", "freed_group", "group_place", "MPI_ERR_GROUP"),
    ("MPI_Datatype", "MPI_DATATYPE_NULL", "freed_type", "type_place", "MPI_ERR_TYPE"),
    ("MPI_Op", "MPI_OP_NULL", "freed_op", "op_place", "MPI_ERR_OP"),
    ("MPI_Request", "MPI_REQUEST_NULL", "freed_request", "request_place", "MPI_ERR_REQUEST"),
    ("MPI_Info", "MPI_INFO_NULL", "freed_info", "info_place", "MPI_ERR_INFO"),
    (
        "MPI_Errhandler",
        "MPI_ERRHANDLER_NULL",
        "freed_handler",
        "handler_place",
        "MPI_ERR_ERRHANDLER",
    ),
    ("MPI_Session", "MPI_SESSION_NULL", "freed_session", "session_place", "MPI_ERR_SESSION"),
    ("MPI_Message", "MPI_MESSAGE_NULL", "MPI_MESSAGE_NULL", "message_place", "MPI_ERR_REQUEST"),
];

/// A communicator of the kind that a function wants.
fn communicator(function: &str) -> &'static str {
    let begins = |all: &[&str]| all.iter().any(|begin| function.starts_with(begin));
    let makes = function.ends_with("_create")
        || function.ends_with("_adjacent")
        || function.ends_with("_map");
    match makes {
        true => "MPI_COMM_WORLD",
        false if begins(&["MPI_Cart", "MPI_Neighbor_", "MPI_Ineighbor_"]) => "a_grid",
        false if begins(&["MPI_Graph"]) => "a_graph",
        false if begins(&["MPI_Dist_graph"]) => "a_dist_graph",
        false => "MPI_COMM_WORLD",
    }
}

/// An argument that is as it should be.
fn good(function: &str, at: usize, parameter: &Parameter<'_>) -> String {
    let Parameter { kind, name } = parameter;
    match (kind.as_str(), *name) {
        ("MPI_Comm", _) => communicator(function).into(),
        ("MPI_Datatype", _) => "MPI_INT".into(),
        ("MPI_Group", _) => "a_group".into(),
        ("MPI_Op", _) => "MPI_SUM".into(),
        ("MPI_Info", _) => "an_info".into(),
        ("MPI_Session", _) => "a_session".into(),
        ("MPI_Errhandler", _) if function.starts_with("MPI_Comm_set") => "a_handler".into(),
        ("MPI_Errhandler", _) => "MPI_ERRORS_RETURN".into(),
        ("MPI_Request", _) => "a_request".into(),
        ("MPI_File", _) => "MPI_FILE_NULL".into(),
        ("int", "comm_keyval" | "keyval") => "a_keyval".into(),
        ("int", "type_keyval") => "a_type_keyval".into(),
        ("int", "dest" | "source" | "root" | "tag" | "sendtag" | "recvtag" | "rank") => "0".into(),
        ("int", "direction") => "0".into(),
        ("int" | "MPI_Count" | "MPI_Aint", "outsize" | "insize") => "64".into(),
        ("int" | "MPI_Count" | "MPI_Aint", _) => "1".into(),
        ("int[]", "ranks" | "ranks1" | "displs" | "sdispls" | "rdispls") => "zeros".into(),
        ("int[]", "edges" | "neighbors" | "sources" | "destinations") => "zeros".into(),
        ("int[][3]", _) => "one_range".into(),
        ("int[]", _) => "ones".into(),
        ("MPI_Count[]" | "MPI_Aint[]", _) => "wide_ones".into(),
        ("MPI_Datatype[]", _) => "types".into(),
        ("char*", "pset_name") if function != "MPI_Session_get_nth_pset" => "\"mpi://SELF\"".into(),
        ("char*", "key" | "value" | "stringtag" | "string" | "comm_name" | "type_name")
            if !function.contains("_get") && function != "MPI_Error_string" =>
        {
            "\"x\"".into()
        }
        ("char*", "key" | "pset_name") if function != "MPI_Info_get_nthkey" => "\"x\"".into(),
        ("char[]" | "char*", "datarep") => "\"external32\"".into(),
        ("int*", "comm_keyval" | "keyval") => "&keyval_place".into(),
        ("int*", "type_keyval") => "&type_keyval_place".into(),
        (kind, _) if kind.ends_with("function*") || kind.ends_with("function_c*") => {
            "(void *)operation".into()
        }
        ("MPI_Request*" | "MPI_Request[]", _) => "request_place".into(),
        (kind, _) => match HANDLES.iter().find(|handle| kind == format!("{}*", handle.0)) {
            Some((_, _, _, place, _)) => format!("&{place}"),
            None => format!("(void *)memory[{at}]"),
        },
    }
}

/// Ways in which an argument can be wrong, and the classes of the error.
fn wrong(function: &str, parameter: &Parameter<'_>) -> Vec<(String, &'static str)> {
    let Parameter { kind, name } = parameter;
    let mut all: Vec<(String, &'static str)> = Vec::new();
    let pair = |all: &[&str], class| -> Vec<(String, &'static str)> {
        all.iter().map(|text| ((*text).to_owned(), class)).collect()
    };
    for &(handle, null, freed, _, class) in HANDLES {
        let strays = ["(void *)0", "(void *)0xfff", "(void *)0x7fffffff0123", "(void *)-1L"];
        let others =
            if handle == "MPI_Comm" { "(void *)MPI_INT" } else { "(void *)MPI_COMM_WORLD" };
        if kind == handle {
            all.extend(pair(&strays, class));
            all.extend(pair(&[others, freed], class));
            // Where no information is an answer, and a request that is none, other rules hold.
            if !matches!(handle, "MPI_Info" | "MPI_Request") {
                all.extend(pair(&[null], class));
            }
        }
        let consumes =
            ["free", "finalize", "disconnect", "Wait", "Test", "Cancel", "Start", "commit"];
        let consumes = consumes.iter().any(|word| function.contains(word))
            || function.starts_with("MPI_Mrecv")
            || function.starts_with("MPI_Imrecv");
        let by_address = *kind == format!("{handle}*") || *kind == format!("{handle}[]");
        if by_address
            && (consumes && !function.contains("keyval") || kind.ends_with("[]"))
            && *name != "newtype"
        {
            if handle == "MPI_Request"
                && (function.starts_with("MPI_Imrecv") || function.starts_with("MPI_Comm"))
            {
                continue;
            }
            let lists = [others, freed].map(|text| format!("({handle}[2]){{{text}, {text}}}"));
            all.extend(lists.map(|text| (text, class)));
        }
    }
    match (kind.as_str(), *name) {
        ("int" | "MPI_Count", "count" | "sendcount" | "recvcount" | "incount" | "outcount") => {
            all.push(("-1".into(), "MPI_ERR_COUNT, MPI_ERR_ARG"));
        }
        ("int", "n") if function.starts_with("MPI_Group") => all.push(("-1".into(), "MPI_ERR_ARG")),
        ("int", "dest" | "source") => {
            all.extend(pair(&["-7", "99999", "-2147483647"], "MPI_ERR_RANK"));
        }
        ("int", "root") => all.extend(pair(&["-7", "99999", "MPI_PROC_NULL"], "MPI_ERR_ROOT")),
        ("int", "tag" | "sendtag" | "recvtag") => {
            all.extend(pair(&["-5", "-2147483647"], "MPI_ERR_TAG"));
        }
        ("int", "comm_keyval" | "keyval" | "type_keyval") => {
            all.extend(pair(&["MPI_KEYVAL_INVALID", "77777", "-1"], "MPI_ERR_KEYVAL"));
        }
        ("void*", "buf" | "sendbuf" | "recvbuf" | "inbuf" | "inoutbuf" | "outbuf") => {
            all.push(("(void *)0".into(), "MPI_ERR_BUFFER, MPI_ERR_ARG"));
        }
        (kind, name) if kind.ends_with(['*', ']']) => {
            let legal = MAY_BE_NULL.contains(&name) || MAY_BE_NULL_IN.contains(&(function, name));
            if !legal {
                all.push((
                    "(void *)0".into(),
                    "MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE",
                ));
            }
        }
        _ => {}
    }
    all
}

/// Whose handler takes an error of one argument.
fn handler(function: &str, parameters: &[Parameter<'_>], bad: usize) -> &'static str {
    if function.starts_with("MPI_File") {
        // Files return errors where nothing else was said.
        let made = function.contains("create_errhandler");
        return if made { "OF_SELF" } else { "NOBODYS" };
    }
    if matches!(function, "MPI_Comm_create_from_group" | "MPI_Session_init") {
        return if parameters[bad].kind == "MPI_Errhandler" { "OF_SELF" } else { "NOBODYS" };
    }
    let mut others = parameters.iter().enumerate().filter(|(at, _)| *at != bad);
    let first = others.find(|(_, p)| matches!(p.kind.as_str(), "MPI_Comm" | "MPI_Session"));
    match first {
        // The second of two communicators is not the one whose handler is asked.
        Some((_, parameter)) if parameter.name == "comm2" => "OF_SELF",
        Some((_, parameter)) if parameter.kind == "MPI_Comm" => "OF_WORLD",
        Some(_) => "OF_SESSION",
        None => "OF_SELF",
    }
}

/// All calls, as C.
pub(crate) fn calls() -> (String, usize) {
    let implemented = implemented();
    let (mut text, mut count) = (String::new(), 0);
    for line in include_str!("../facts/functions.tsv").lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[function, returns, list, ..] = &fields[..] else { continue };
        let called = implemented.contains(function) && returns == "int";
        if !called
            || function.ends_with("toint")
            || NOT_CALLED.iter().any(|(other, _)| *other == function)
        {
            continue;
        }
        let parameters = parameters(list);
        let right: Vec<String> =
            parameters.iter().enumerate().map(|(at, p)| good(function, at, p)).collect();
        for (bad, parameter) in parameters.iter().enumerate() {
            if PASSED_OVER.contains(&(function, parameter.name)) {
                continue;
            }
            for (value, classes) in wrong(function, parameter) {
                let mut arguments = right.clone();
                arguments[bad].clone_from(&value);
                let handler = handler(function, &parameters, bad);
                let arguments = arguments.join(", ");
                let name = parameter.name;
                let shown = value.replace('"', "'");
                writeln!(
                    text,
                    "TRY({handler}, \"{function}, {name} is {shown}\", {function}({arguments}), {classes});"
                )
                .expect("it is a string");
                count += 1;
            }
        }
    }
    (text, count)
}
