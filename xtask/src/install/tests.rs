//! A directory as `install` makes it, from what cargo has built beside this program: the wrappers'
//! answers, a program made by them that runs, and build systems that find them.

use std::collections::BTreeMap;
use std::process::Output;

use super::*;

/// A directory of its own, which goes when this is dropped.
struct Installed(PathBuf);

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What cargo has built, if it has built all of it.
fn built() -> Option<Built> {
    let program = std::env::current_exe().unwrap();
    let built = Built::tested(program.parent()?.parent()?);
    let all = built.library.exists() && built.launcher.exists();
    if !all {
        skipped("bowline and libmpi_abi.so are not built (cargo test --workspace --no-run)");
    }
    all.then_some(built)
}

/// Says that a test is not run, where the ladder finds it.
fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    eprintln!("{test} is not run: {why}");
    if let Some(file) = std::env::var_os("TEST_SKIPS") {
        use std::io::Write as _;
        let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
        file.and_then(|mut file| file.write_all(format!("{test}\t{why}\n").as_bytes())).unwrap();
    }
}

/// Whether a program can be started.
fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Installs into a directory for the test `name`.
fn installed(name: &str) -> Option<Installed> {
    let prefix = std::env::temp_dir().join(format!("bowline-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&prefix);
    std::fs::create_dir_all(&prefix).unwrap();
    let made = Installed(prefix.canonicalize().unwrap());
    lay_out(&root(), &built()?, &made.0).unwrap();
    Some(made)
}

/// A command of the directory, in an environment that chooses no compiler.
fn command(made: &Installed, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(made.0.join("bin").join(name));
    for prefix in ["BOWLINE", "MPICH", "OMPI"] {
        command.env_remove(format!("{prefix}_CC")).env_remove(format!("{prefix}_CXX"));
    }
    command.args(args).current_dir(&made.0);
    command
}

#[track_caller]
fn said(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out.trim_end().to_owned()
}

fn files(directory: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else {
            let bytes = std::fs::read(&path).unwrap();
            into.insert(path, bytes);
        }
    }
}

#[test]
fn installing_again_changes_nothing() {
    let Some(made) = installed("again") else { return };
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    files(&made.0, &mut before);
    lay_out(&root(), &built().unwrap(), &made.0).unwrap();
    files(&made.0, &mut after);
    assert!(before == after, "{:?} and then {:?}", before.keys(), after.keys());
    for file in ["bin/mpirun", "bin/mpic++", "lib/libmpi_abi.so", "lib/pkgconfig/bowline-mpi.pc"] {
        assert!(after.contains_key(&made.0.join(file)), "{file} is missing");
    }
}

#[test]
fn the_wrappers_say_what_they_do() {
    let Some(made) = installed("wrappers") else { return };
    let p = made.0.display();
    let link = format!("-L{p}/lib -Wl,--enable-new-dtags -Wl,-rpath,{p}/lib -lmpi_abi");
    for (name, args, expected) in [
        ("mpicc", &["-show"][..], format!("cc -I{p}/include {link}")),
        ("mpicc", &["-showme"], format!("cc -I{p}/include {link}")),
        ("mpicc", &["-show", "-c", "a.c"], format!("cc -c a.c -I{p}/include")),
        ("mpicc", &["-O2", "a.c", "-show"], format!("cc -O2 a.c -I{p}/include {link}")),
        ("mpicc", &["-cc=x y", "-show", "-E"], format!("x y -E -I{p}/include")),
        ("mpicc", &["-showme:compile"], format!("-I{p}/include")),
        ("mpicc", &["--showme:link"], link.clone()),
        ("mpicc", &["-showme:incdirs"], format!("{p}/include")),
        ("mpicc", &["-showme:libdirs"], format!("{p}/lib")),
        ("mpicc", &["-showme:libs"], "mpi_abi".into()),
        ("mpicc", &["-compile_info"], format!("cc -I{p}/include")),
        ("mpicxx", &["-link_info"], format!("c++ -I{p}/include {link}")),
        ("mpic++", &["-showme:command"], "c++".into()),
        ("mpiCC", &["-cxx=g++", "-showme:command"], "g++".into()),
    ] {
        assert_eq!(said(&mut command(&made, name, args)), expected, "{name} {args:?}");
    }
    for (name, variable) in [("mpicc", "CC"), ("mpicxx", "CXX")] {
        for prefix in ["BOWLINE", "MPICH", "OMPI"] {
            let mut asked = command(&made, name, &["-showme:command"]);
            asked.env(format!("{prefix}_{variable}"), "mine -x");
            assert_eq!(said(&mut asked), "mine -x");
        }
    }
    let unknown = command(&made, "mpicc", &["-showme:all"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(1));
    let version = said(&mut command(&made, "mpicc", &["--version"]));
    assert!(!version.is_empty());
}

/// In C and in C++.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("%d of %d, %s\n", rank, size, WHAT);
    MPI_Finalize();
    return 0;
}
"#;

/// Starts three ranks of two programs and checks that all were there.
#[track_caller]
fn runs(made: &Installed, one: &str, other: &str) {
    let parts = ["-n", "2", one, ":", "-n", "1", other];
    let out = said(&mut command(made, "mpiexec", &parts));
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of 3, a b", "1 of 3, a b", "2 of 3, a b"]);
}

#[test]
fn programs_are_made_and_run_also_after_a_move() {
    let Some(made) = installed("programs") else { return };
    for file in ["p.c", "p.cpp"] {
        std::fs::write(made.0.join(file), PROGRAM).unwrap();
    }
    // A value with blanks and quotes reaches the compiler whole.
    let what = "-DWHAT=\"a b\"";
    said(&mut command(&made, "mpicc", &[what, "-Wall", "-Werror", "p.c", "-o", "in-c"]));
    if is_there("c++") {
        said(&mut command(&made, "mpicxx", &[what, "-Wall", "-Werror", "-c", "p.cpp"]));
        said(&mut command(&made, "mpicxx", &["p.o", "-o", "in-cpp"]));
        runs(&made, "./in-c", "./in-cpp");
    } else {
        skipped("a C++ program is not made: there is no c++ (Debian: g++)");
    }

    let moved = Installed(made.0.with_extension("moved"));
    let _ = std::fs::remove_dir_all(&moved.0);
    std::fs::rename(&made.0, &moved.0).unwrap();
    // The run path of what was linked before leads nowhere; the launcher knows where the library is.
    runs(&moved, "./in-c", "./in-c");
    said(&mut command(&moved, "mpicc", &[what, "p.c", "-o", "in-c"]));
    runs(&moved, "./in-c", "./in-c");
}

#[test]
fn pkg_config_knows_the_library() {
    let Some(made) = installed("package") else { return };
    let mut asked = Command::new("pkg-config");
    asked.args(["--cflags", "--libs", "bowline-mpi"]);
    asked.env("PKG_CONFIG_PATH", made.0.join("lib/pkgconfig"));
    if !is_there("pkg-config") {
        return skipped("pkg-config is not installed (Debian: pkg-config)");
    }
    let said = said(&mut asked);
    assert!(said.contains("-lmpi_abi") && said.contains("/include"), "{said}");
}

#[test]
fn cmake_finds_mpi() {
    let Some(made) = installed("cmake") else { return };
    if !is_there("cmake") || !is_there("c++") {
        return skipped("cmake or c++ is not installed (Debian: cmake g++)");
    }
    let project = "cmake_minimum_required(VERSION 3.10)\nproject(p C CXX)\n\
        find_package(MPI REQUIRED)\nforeach(l C CXX)\nmessage(STATUS \"${l}=${MPI_${l}_FOUND}\")\n\
        endforeach()\nadd_executable(in-c p.c)\ntarget_link_libraries(in-c MPI::MPI_C)\n\
        target_compile_definitions(in-c PRIVATE WHAT=\"a b\")\n";
    std::fs::write(made.0.join("CMakeLists.txt"), project).unwrap();
    std::fs::write(made.0.join("p.c"), PROGRAM).unwrap();
    let mut cmake = Command::new("cmake");
    cmake.args(["-S", ".", "-B", "build"]).current_dir(&made.0);
    cmake.arg(format!("-DMPI_HOME={}", made.0.display()));
    let out = said(&mut cmake);
    assert!(out.contains("C=TRUE") && out.contains("CXX=TRUE"), "{out}");
    said(Command::new("cmake").args(["--build", "build"]).current_dir(&made.0));
    runs(&made, "build/in-c", "build/in-c");
}
