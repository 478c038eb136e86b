//! Who may depend on whom. The law is one table; `ARCHITECTURE.md` says why it is so.
//!
//! It reads what manifests declare, for every target and feature, so that an edge cannot hide
//! behind a `cfg`. What the crates do with each other is not its business.

use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, Package};

use super::Finding;

/// A crate of the workspace and the crates of the workspace that it may name.
struct Layer {
    name: &'static str,
    /// By normal and build dependencies.
    may: &'static [&'static str],
    /// By dev-dependencies, beside `may`.
    tests_may: &'static [&'static str],
}

const fn layer(
    name: &'static str,
    may: &'static [&'static str],
    tests_may: &'static [&'static str],
) -> Layer {
    Layer { name, may, tests_may }
}

const BASE: &str = "bowline-base";
const UCT: &str = "bowline-uct";
const UCP: &str = "bowline-ucp";
const MODEL: &str = "bowline-model";

/// The layer law, from the ground up. A dev-dependency names a higher layer only where a layer
/// is tested through the one above it: the tests of ucp and of MPI want real transports.
const LAW: &[Layer] = &[
    layer(BASE, &[], &[]),
    layer(UCT, &[BASE], &[]),
    // Models name nothing that communicates.
    layer(MODEL, &[], &[]),
    // Providers know the contract and not each other. Their tests run its conformance suite,
    // which is a feature of uct.
    layer("bowline-self", &[UCT, BASE], &[]),
    layer("bowline-shm", &[UCT, BASE], &[]),
    layer("bowline-tcp", &[UCT, BASE], &[]),
    layer("libfabric-sys", &[], &[]),
    layer("bowline-ofi", &[UCT, BASE, "libfabric-sys"], &[]),
    layer("bowline-verbs", &[UCT, BASE], &[]),
    layer("bowline-sim", &[UCT, BASE], &[]),
    // An interface over those of others, which its tests open.
    layer(
        "bowline-multirail",
        &[UCT, BASE, MODEL],
        &["bowline-sim", "bowline-tcp", "bowline-verbs"],
    ),
    // A transport over another one, which it is given; its tests need some, and the engine above.
    layer(
        "bowline-receive-queue",
        &[UCT, BASE],
        &["bowline-self", "bowline-shm", "bowline-tcp", "bowline-ofi", "bowline-sim", UCP],
    ),
    // The engine names no provider; its tests need some.
    layer(
        UCP,
        &[UCT, BASE, MODEL],
        &[
            "bowline-self",
            "bowline-shm",
            "bowline-tcp",
            "bowline-sim",
            "bowline-multirail",
            "bowline-receive-queue",
        ],
    ),
    layer("bowline-mpi-derive", &[], &[]),
    // Its tests need real transports, and the words of the conformance suite for what they leave out.
    layer("bowline-mpi", &[UCP, BASE, MODEL, "bowline-mpi-derive"], &["bowline", UCT]),
    layer("bowline-launch", &[BASE], &[]),
    layer(
        "bowline",
        &[
            BASE,
            UCT,
            UCP,
            "bowline-self",
            "bowline-shm",
            "bowline-tcp",
            "bowline-ofi",
            "bowline-verbs",
            "bowline-sim",
            "bowline-multirail",
            "bowline-receive-queue",
            "bowline-mpi",
            MODEL,
            "bowline-launch",
        ],
        &["bowline-mpi-derive", "bowline-bench"],
    ),
    // The C library: it starts a rank as any program does, and calls the core of the MPI layer.
    layer("bowline-mpi-abi", &["bowline", "bowline-mpi", BASE], &["bowline-launch", UCT]),
    // The command opens transports one by one to describe them, and fits models to what it measures.
    layer(
        "bowline-cli",
        &[
            "bowline",
            MODEL,
            BASE,
            "bowline-self",
            "bowline-shm",
            "bowline-tcp",
            "bowline-ofi",
            "bowline-launch",
        ],
        &[UCT],
    ),
    layer("bowline-bench", &[BASE], &[]),
    // Measures the engine's queues by themselves and over transports.
    layer(
        "bowline-bench-queues",
        &[
            BASE,
            UCT,
            UCP,
            "bowline-self",
            "bowline-shm",
            "bowline-tcp",
            "bowline-sim",
            "bowline-receive-queue",
            "bowline-bench",
        ],
        &[],
    ),
    // Programs that use the layers as anybody would; their tests start jobs.
    layer("bowline-examples", &["bowline", BASE], &["bowline-launch"]),
    // Tests across layers; the program that they start is a bare launcher and a bare rank.
    layer("bowline-tests", &["bowline-launch", BASE], &["bowline", MODEL, UCT]),
    // Measures the modes of progress over transports.
    layer(
        "bowline-bench-progress",
        &[
            BASE,
            UCT,
            UCP,
            "bowline-shm",
            "bowline-sim",
            "bowline-receive-queue",
            "bowline-mpi",
            "bowline",
            "bowline-bench",
        ],
        &[],
    ),
    // Tasks of the workspace; nothing that is shipped depends on them.
    layer("xtask", &["bowline-bench", MODEL], &[]),
];

/// Checks every edge between two crates of the workspace, and that the readme lists each crate.
pub(super) fn check(metadata: &Metadata, root: &Path, findings: &mut Vec<Finding>) {
    let packages = metadata.workspace_packages();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap_or_default();
    let ours: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    for package in &packages {
        let manifest = manifest_of(package, root);
        for edge in &package.dependencies {
            let dev = edge.kind == DependencyKind::Development;
            if ours.contains(&edge.name.as_str()) {
                if let Err(why) = allowed(&package.name, &edge.name, dev) {
                    findings.push(Finding::error(&manifest, 0, why));
                }
            } else if edge.path.is_some() {
                let why = format!("{} is a path outside of the workspace", edge.name);
                findings.push(Finding::error(&manifest, 0, why));
            }
        }
        if !LAW.iter().any(|layer| layer.name == package.name.as_str()) {
            let why = format!("{} has no place in the layer law; give it one", package.name);
            findings.push(Finding::error(&manifest, 0, why));
        }
        if !readme.contains(&format!("| `{}` |", package.name)) {
            let why = format!("{} is not in the table of layers", package.name);
            findings.push(Finding::error("README.md", 0, why));
        }
    }
}

fn manifest_of(package: &Package, root: &Path) -> String {
    let path = package.manifest_path.as_std_path();
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn allowed(from: &str, to: &str, dev: bool) -> Result<(), String> {
    let Some(layer) = LAW.iter().find(|layer| layer.name == from) else {
        // Said once, for the crate.
        return Ok(());
    };
    // A crate's own tests may ask it for a feature.
    if layer.may.contains(&to) || dev && (layer.tests_may.contains(&to) || from == to) {
        return Ok(());
    }
    let kind = if dev { "dev-dependency" } else { "dependency" };
    let may = if layer.may.is_empty() { "nothing of ours".into() } else { layer.may.join(", ") };
    Err(format!("forbidden {kind} {from} -> {to}; {from} may name {may}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_in_examples() {
        assert!(allowed("bowline-uct", "bowline-base", false).is_ok());
        assert!(allowed("bowline-base", "bowline-uct", false).is_err());
        assert!(allowed("bowline-base", "bowline-uct", true).is_err());
        assert!(allowed("bowline-shm", "bowline-self", false).is_err());
        assert!(allowed("bowline-shm", "bowline-self", true).is_err());
        assert!(allowed("bowline-ucp", "bowline-shm", false).is_err());
        assert!(allowed("bowline-ucp", "bowline-shm", true).is_ok());
        assert!(allowed("bowline-mpi", "bowline-uct", false).is_err());
        assert!(allowed("bowline-bench", "bowline", false).is_err());
    }

    #[test]
    fn the_law_has_no_cycle() {
        // Each layer names only layers above it in the table.
        for (at, layer) in LAW.iter().enumerate() {
            for name in layer.may {
                let below = LAW.iter().position(|other| other.name == *name);
                assert!(below.is_some_and(|b| b < at), "{} -> {name}", layer.name);
            }
        }
    }
}
