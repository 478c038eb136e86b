//! The tables of facts, read.

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The three tables.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) constants: Vec<Constant>,
    pub(super) functions: Vec<Function>,
    pub(super) callbacks: Vec<Callback>,
}

/// A constant of the interface.
#[derive(Debug)]
pub(super) struct Constant {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) value: String,
}

/// A function of the interface.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) returns: String,
    pub(super) parameters: Vec<Parameter>,
    /// Whether it may be called before the start and after the end of MPI.
    pub(super) any_time: bool,
}

/// A parameter, as C writes it: `const int`, `counts`, `[]`.
#[derive(Debug)]
pub(super) struct Parameter {
    /// The whole, as it stands in a prototype.
    pub(super) text: String,
    /// The type without the name, with `*` and `[]` kept.
    pub(super) kind: String,
    pub(super) name: String,
}

/// The type of a function that the program hands over.
#[derive(Debug)]
pub(super) struct Callback {
    pub(super) name: String,
    pub(super) returns: String,
    pub(super) parameters: String,
}

impl Facts {
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let constants = rows::<3>(&directory.join("constants.tsv"))?
            .into_iter()
            .map(|[name, kind, value]| Constant { name, kind, value })
            .collect();
        let functions = rows::<4>(&directory.join("functions.tsv"))?
            .into_iter()
            .map(|[name, returns, parameters, when]| {
                ensure!(["any", "running"].contains(&&*when), "{name}: when is {when:?}");
                let parameters = parameters.split(',').filter_map(parameter).collect();
                Ok(Function { name, returns, parameters, any_time: when == "any" })
            })
            .collect::<Result<_>>()?;
        let callbacks = rows::<3>(&directory.join("callbacks.tsv"))?
            .into_iter()
            .map(|[name, returns, parameters]| Callback { name, returns, parameters })
            .collect();
        Ok(Self { constants, functions, callbacks })
    }

    /// A function of the table.
    pub(super) fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }
}

fn rows<const N: usize>(path: &Path) -> Result<Vec<[String; N]>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    // The first line names the columns.
    let rows = text.lines().skip(1).map(|line| {
        let fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let count = fields.len();
        fields.try_into().map_err(|_| {
            anyhow::anyhow!("{}: {count} fields where {N} belong: {line:?}", path.display())
        })
    });
    rows.collect()
}

/// `None` for the list of no parameters.
fn parameter(text: &str) -> Option<Parameter> {
    let text = text.trim();
    if text.is_empty() || text == "void" {
        return None;
    }
    if text == "..." {
        return Some(Parameter { text: text.into(), kind: text.into(), name: String::new() });
    }
    let (front, brackets) = text.find('[').map_or((text, ""), |at| text.split_at(at));
    let start = front.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    let (kind, name) = front.split_at(start);
    Some(Parameter {
        text: text.into(),
        kind: format!("{}{brackets}", kind.trim()),
        name: name.into(),
    })
}

/// What a value is in the calling convention, as far as a check by eye of a table can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    Int,
    /// `MPI_Count`, `MPI_Offset`.
    Long,
    /// `MPI_Aint`.
    Address,
    Double,
    /// A handle of this kind, by its name in Rust.
    Handle(&'static str),
    Pointer,
    Variadic,
}

/// Handles: their names in C, and in the library.
pub(super) const HANDLES: &[(&str, &str)] = &[
    ("MPI_Comm", "Comm"),
    ("MPI_Datatype", "Datatype"),
    ("MPI_Errhandler", "Errhandler"),
    ("MPI_File", "File"),
    ("MPI_Group", "Group"),
    ("MPI_Info", "Info"),
    ("MPI_Message", "Message"),
    ("MPI_Op", "Op"),
    ("MPI_Request", "Request"),
    ("MPI_Session", "Session"),
    ("MPI_Win", "Win"),
];

impl Passed {
    /// Of a type in C.
    pub(super) fn of_c(kind: &str) -> Self {
        if kind.contains('*') || kind.contains('[') {
            return Self::Pointer;
        }
        match kind.trim_start_matches("const ") {
            "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => Self::Int,
            "MPI_Count" | "MPI_Offset" => Self::Long,
            "MPI_Aint" => Self::Address,
            "double" => Self::Double,
            "..." => Self::Variadic,
            kind => HANDLES
                .iter()
                .find(|(c, _)| *c == kind)
                .map_or(Self::Pointer, |&(_, rust)| Self::Handle(rust)),
        }
    }

    /// Of a type in the library's source.
    pub(super) fn of_rust(kind: &str) -> Self {
        match kind {
            "c_int" => Self::Int,
            "Count" | "Offset" => Self::Long,
            "Aint" => Self::Address,
            "c_double" => Self::Double,
            kind => HANDLES
                .iter()
                .find(|(_, rust)| *rust == kind)
                .map_or(Self::Pointer, |&(_, rust)| Self::Handle(rust)),
        }
    }

    /// The type in the library's source.
    pub(super) const fn rust(self) -> &'static str {
        match self {
            Self::Int => "c_int",
            Self::Long => "Count",
            Self::Address => "Aint",
            Self::Double => "c_double",
            Self::Handle(name) => name,
            Self::Pointer | Self::Variadic => "*const c_void",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_taken_apart() {
        let parts = |text| parameter(text).map(|p| (p.kind, p.name));
        assert_eq!(parts("void"), None);
        assert_eq!(parts("const int counts[]"), Some(("const int[]".into(), "counts".into())));
        assert_eq!(parts("int ranges[][3]"), Some(("int[][3]".into(), "ranges".into())));
        assert_eq!(parts("char ***argv"), Some(("char ***".into(), "argv".into())));
        assert_eq!(parts("MPI_Comm comm"), Some(("MPI_Comm".into(), "comm".into())));
        assert_eq!(Passed::of_c("const int[]"), Passed::Pointer);
        assert_eq!(Passed::of_c("MPI_Win"), Passed::Handle("Win"));
        assert_eq!(Passed::of_c("MPI_T_enum"), Passed::Pointer);
        assert_eq!(Passed::of_rust("Out<c_int>"), Passed::Pointer);
    }
}
