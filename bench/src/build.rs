//! The benchmark program that runs on MPI peers: its sources travel inside this crate, and it is
//! compiled once per peer and version of the sources into the cache directory.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::BenchError;
use crate::command::Launch;
use crate::context::Context;
use crate::error::file;

const SOURCES: [(&str, &str); 6] = [
    ("mpibench.h", include_str!("../peers/mpibench.h")),
    ("mpibench.c", include_str!("../peers/mpibench.c")),
    ("p2p.c", include_str!("../peers/p2p.c")),
    ("coll.c", include_str!("../peers/coll.c")),
    ("layouts.c", include_str!("../peers/layouts.c")),
    ("versus.c", include_str!("../peers/versus.c")),
];

/// Compiles the program with `mpicc` for the peer `id`; returns the executable.
pub(crate) fn mpibench(context: &Context, id: &str, mpicc: &Path) -> Result<PathBuf, BenchError> {
    let mut hasher = DefaultHasher::new();
    (SOURCES, mpicc).hash(&mut hasher);
    let sources = context.cache.join(format!("mpibench-{:016x}", hasher.finish()));
    let program = sources.join(format!("mpibench-{id}"));
    if program.is_file() {
        return Ok(program);
    }
    context.progress.note(&format!("compiling the benchmark program for {id}"));
    fs::create_dir_all(&sources).map_err(file("create", &sources))?;
    for (name, text) in SOURCES {
        let path = sources.join(name);
        fs::write(&path, text).map_err(file("write", path))?;
    }
    let objects = SOURCES
        .iter()
        .filter(|(name, _)| name.ends_with(".c"))
        .map(|(name, _)| sources.join(name).to_string_lossy().into_owned());
    // Compiled under another name first, so that a broken-off build is not taken for a program.
    let unfinished = sources.join(format!("mpibench-{id}.tmp"));
    Launch::new(mpicc, Duration::from_secs(120))
        .args(["-O2", "-std=gnu11", "-o"])
        .args([unfinished.to_string_lossy()])
        .args(objects)
        .remedy("install the peer's compiler wrapper (Debian: libmpich-dev) and a C compiler")
        .run()?;
    fs::rename(&unfinished, &program).map_err(file("rename", unfinished))?;
    Ok(program)
}
