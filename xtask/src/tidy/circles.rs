//! The top-level modules of a crate use each other without circles: who reads one has to know those below it and no
//! others.
//!
//! A module uses another one where a path names it, from the root of the crate (`crate::other`) or upwards
//! (`super::other`), in code that is not for tests; a name that the root takes from a module stands for that module. The
//! root itself is no module here: it puts the others together. What `*` brings in is not followed. Paths within macros count as far as they begin with
//! `crate`. There are no exceptions: what two modules need of each other goes to a third one below both, or is given to
//! the lower one as a value or a parameter.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use cargo_metadata::{Metadata, TargetKind};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

use super::Finding;
use super::source::is_test_path;
use crate::workspace::TextFile;

/// What the modules of one crate use.
#[derive(Debug, Default)]
struct Graph {
    /// By module: the modules that it uses.
    uses: BTreeMap<String, BTreeSet<String>>,
    /// By name: the module from which the root takes it.
    names: BTreeMap<String, String>,
}

/// Checks the library of every package, or its program where it has none.
pub(super) fn check(
    metadata: &Metadata,
    root: &Path,
    files: &[TextFile],
    findings: &mut Vec<Finding>,
) {
    for package in &metadata.packages {
        let is_library = |kind: &TargetKind| matches!(kind, TargetKind::Lib | TargetKind::CDyLib);
        let of_kind = |kind: &dyn Fn(&TargetKind) -> bool| {
            package.targets.iter().find(|target| target.kind.iter().any(kind))
        };
        let is_program = |kind: &TargetKind| matches!(kind, TargetKind::Bin);
        let Some(target) = of_kind(&is_library).or_else(|| of_kind(&is_program)) else { continue };
        let Ok(below) = target.src_path.as_std_path().strip_prefix(root) else { continue };
        let below = below.to_string_lossy().replace('\\', "/");
        let Some((directory, _)) = below.rsplit_once('/') else { continue };
        let of_crate: Vec<_> = files
            .iter()
            .filter_map(|file| {
                let inner = file.path.strip_prefix(directory)?.strip_prefix('/')?;
                let taken = inner.ends_with(".rs") && !is_test_path(inner);
                taken.then_some((inner, file.text.as_str()))
            })
            .collect();
        for message in messages(&graph(&of_crate)) {
            findings.push(Finding::error(&below, 0, message));
        }
    }
}

/// What is wrong with a crate's graph.
fn messages(graph: &Graph) -> Vec<String> {
    let message = |module: &String| {
        let circle = circle(graph, module)?.join(" -> ");
        Some(format!(
            "`{module}` is on a circle of imports: {circle}; let one of them be used by the others and use none of them"
        ))
    };
    graph.uses.keys().filter_map(message).collect()
}

/// The shortest circle through a module, if there is one; it begins and ends there.
fn circle<'g>(graph: &'g Graph, module: &'g str) -> Option<Vec<&'g str>> {
    let mut from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut next = VecDeque::from([module]);
    while let Some(at) = next.pop_front() {
        for used in graph.uses.get(at).into_iter().flatten() {
            if used == module {
                let mut path = vec![module, at];
                while path[path.len() - 1] != module {
                    path.push(from[path[path.len() - 1]]);
                }
                path.reverse();
                return Some(path);
            }
            if !from.contains_key(used.as_str()) {
                from.insert(used, at);
                next.push_back(used);
            }
        }
    }
    None
}

/// Reads the files of a crate, each with its path below the directory of the root.
fn graph(files: &[(&str, &str)]) -> Graph {
    let mut graph = Graph::default();
    let mut parsed = Vec::new();
    let mut of_tests = BTreeSet::new();
    for (path, text) in files {
        // What does not parse is the compiler's to refuse.
        let Ok(file) = syn::parse_file(text) else { continue };
        let module = module_of(path);
        if file.attrs.iter().any(is_test) {
            of_tests.insert(module);
            continue;
        }
        for item in &file.items {
            if let Item::Mod(ItemMod { ident, attrs, content: None, .. }) = item
                && attrs.iter().any(is_test)
            {
                of_tests.insert([&module[..], &[ident.to_string()]].concat());
            }
        }
        parsed.push((module, file));
    }
    let is_of_tests =
        |module: &[String]| (1..=module.len()).any(|length| of_tests.contains(&module[..length]));
    parsed.retain(|(module, _)| !is_of_tests(module));
    for (module, _) in parsed.iter().filter(|(module, _)| !module.is_empty()) {
        graph.uses.entry(module[0].clone()).or_default();
    }
    for (_, file) in parsed.iter().filter(|(module, _)| module.is_empty()) {
        for item in &file.items {
            if let Item::Use(item) = item {
                expand(&item.tree, &mut Vec::new(), &mut |path, name| {
                    let path = match path {
                        [first, rest @ ..] if first == "self" || first == "crate" => rest,
                        path => path,
                    };
                    if let ([module, _, ..], Some(name)) = (path, name)
                        && graph.uses.contains_key(module)
                    {
                        graph.names.insert(name.to_owned(), module.clone());
                    }
                });
            }
        }
    }
    for (module, file) in &parsed {
        if let Some(top) = module.first() {
            let mut reader = Reader { module: module.clone(), used: BTreeSet::new() };
            reader.visit_file(file);
            for name in reader.used {
                let used = match graph.uses.contains_key(&name) {
                    true => Some(name),
                    false => graph.names.get(&name).cloned(),
                };
                if let Some(used) = used.filter(|used| used != top) {
                    graph.uses.entry(top.clone()).or_default().insert(used);
                }
            }
        }
    }
    graph
}

/// The modules from the root to the one that a file is.
fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" => Vec::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

/// Whether an attribute keeps its item out of everything but tests.
fn is_test(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let tokens = list.tokens.to_string().replace(' ', "");
    list.path.is_ident("cfg") && (tokens == "test" || tokens.starts_with("all(test"))
}

/// Every path of a tree of imports, with the name that it has from then on; `*` gives none.
fn expand(tree: &UseTree, before: &mut Vec<String>, act: &mut dyn FnMut(&[String], Option<&str>)) {
    let (ident, name) = match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            expand(&path.tree, before, act);
            before.pop();
            return;
        }
        UseTree::Group(group) => {
            group.items.iter().for_each(|item| expand(item, before, act));
            return;
        }
        UseTree::Glob(_) => return act(before, None),
        UseTree::Name(name) => (&name.ident, &name.ident),
        UseTree::Rename(rename) => (&rename.ident, &rename.rename),
    };
    before.push(ident.to_string());
    act(before, Some(&name.to_string()));
    before.pop();
}

/// Collects what a file names at the root of its crate.
struct Reader {
    module: Vec<String>,
    used: BTreeSet<String>,
}

impl Reader {
    fn path(&mut self, path: &[String]) {
        let mut depth = self.module.len();
        let mut rest = path;
        match rest {
            [first, tail @ ..] if first == "crate" || first == "$crate" => {
                depth = 0;
                rest = tail;
            }
            _ => {
                let ups = rest.iter().take_while(|part| *part == "super").count();
                if ups == 0 {
                    return;
                }
                depth = depth.saturating_sub(ups);
                rest = &rest[ups..];
            }
        }
        if let (0, [name, ..]) = (depth, rest) {
            self.used.insert(name.clone());
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => path.push(ident.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == ':' => continue,
                other => {
                    self.path(&std::mem::take(&mut path));
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
            // An identifier that follows another one without `::` begins a new path.
            if path.last().is_some_and(|last| last == "crate" || last == "super")
                && path.len() > 1
                && path[path.len() - 2] != "super"
            {
                path.drain(..path.len() - 1);
            }
        }
        self.path(&path);
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !attributes.iter().any(is_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        expand(&item.tree, &mut Vec::new(), &mut |path, _| self.path(path));
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.path(&names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'a syn::Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(files: &[(&str, &str)]) -> Vec<(String, Vec<String>)> {
        let all = graph(files).uses.into_iter();
        all.map(|(module, used)| (module, used.into_iter().collect())).collect()
    }

    fn of(all: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
        let name = |name: &&str| (*name).to_owned();
        all.iter().map(|(module, used)| (name(module), used.iter().map(name).collect())).collect()
    }

    #[test]
    fn paths_from_the_root_and_upwards_name_modules() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use b::Name; use crate::c::{Other as Third};"),
            ("a.rs", "use crate::{Name, b::X}; fn f() { crate::Third::g() }"),
            ("b.rs", "use super::c; mod inner { use super::super::a; }"),
            ("b/deep.rs", "use super::inner; use super::super::c::x; use self::a;"),
            ("c.rs", "fn f() -> u8 { println!(\"{}\", crate::a::value()); 0 }"),
        ];
        let expected: [(&str, &[&str]); 3] =
            [("a", &["b", "c"]), ("b", &["a", "c"]), ("c", &["a"])];
        assert_eq!(uses(&files), of(&expected));
    }

    #[test]
    fn tests_do_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod oracle;"),
            (
                "a.rs",
                "#[cfg(test)] mod checks; #[cfg(test)] use crate::b; #[cfg(test)] mod t { use crate::b; }",
            ),
            ("a/checks.rs", "use crate::b;"),
            ("b.rs", "use crate::a;"),
            ("oracle.rs", "use crate::a;"),
        ];
        assert_eq!(uses(&files), of(&[("a", &[]), ("b", &["a"])]));
    }

    #[test]
    fn circles_are_found() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::x;"),
            ("b.rs", "use crate::c::x;"),
            ("c.rs", "use crate::a::x; use crate::d::x;"),
            ("d.rs", ""),
        ];
        let graph = graph(&files);
        assert_eq!(circle(&graph, "a"), Some(vec!["a", "b", "c", "a"]));
        assert_eq!(circle(&graph, "d"), None);
        let found = messages(&graph);
        assert_eq!(found.len(), 3, "a, b and c");
        assert!(found[0].contains("a -> b -> c -> a"), "{found:?}");
    }
}
