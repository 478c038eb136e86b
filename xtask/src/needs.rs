//! What the tests need of the machine beside a Rust toolchain, and how to get it.
//!
//! Nothing is installed here: on a machine of its own `.ci/run` does that. What is missing is
//! named together with the one command that brings it.

use std::path::PathBuf;

/// A program that tests or benches start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// The program.
    pub(crate) program: &'static str,
    /// The Debian packages that bring it; recommended ones are not installed by themselves.
    pub(crate) package: &'static str,
    /// What it is for.
    pub(crate) why: &'static str,
}

/// What `cargo test` needs.
pub(crate) const OF_TESTS: &[Need] = &[
    Need { program: "cc", package: "gcc", why: "links programs" },
    Need {
        program: "mpiexec.hydra",
        package: "mpich",
        why: "another process manager, under which our PMI client is tested",
    },
    Need {
        program: "mpicc.mpich",
        package: "mpich libmpich-dev",
        why: "builds the foreign programs on which our PMI server is tested",
    },
];

/// What the instruction counts need.
pub(crate) const OF_INSTRUCTIONS: &[Need] =
    &[Need { program: "valgrind", package: "valgrind", why: "counts instructions" }];

/// Those of `needs` that `PATH` does not have.
pub(crate) fn missing(needs: &[Need]) -> Vec<Need> {
    needs.iter().copied().filter(|need| find(need.program).is_none()).collect()
}

/// What is missing and the command that installs it.
pub(crate) fn explain(missing: &[Need]) -> String {
    let mut text = String::from("missing on this machine:\n");
    for Need { program, why, .. } in missing {
        text.push_str(&format!("  {program}: {why}\n"));
    }
    let mut packages: Vec<&str> = Vec::new();
    for package in missing.iter().flat_map(|need| need.package.split(' ')) {
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    text.push_str(&format!(
        "install it with: apt-get update && apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    ));
    text
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|p| p.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_command() {
        let there = Need { program: "sh", package: "dash", why: "is everywhere" };
        let gone = Need { program: "no-such-program", package: "nothing", why: "tests" };
        let twice = Need { package: "more nothing", ..gone };
        let missing = missing(&[there, gone, twice]);
        assert_eq!(missing.len(), 2);
        let text = explain(&missing);
        assert!(text.contains("no-such-program: tests"), "{text}");
        assert!(
            text.ends_with("apt-get install -y --no-install-recommends nothing more"),
            "{text}"
        );
    }
}
