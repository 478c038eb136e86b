//! Python environments below the cache directory, one per peer, made once and then reused.
//!
//! Only an environment whose stamp names the wanted package counts as installed, and the stamp is
//! written last: an installation that broke off is repeated.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::BenchError;
use crate::command::Launch;
use crate::context::Context;
use crate::error::file;

const STAMP: &str = ".bowline-peer";
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// One package of the Python package index in an environment of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package {
    /// The package's name, also the environment's.
    pub(crate) name: &'static str,
    /// The version that the peer's settings were found with.
    pub(crate) version: &'static str,
    /// Whether the declared dependencies are wanted.
    pub(crate) dependencies: bool,
}

impl Package {
    /// The environment's directory, after installing it if it is not there.
    pub(crate) fn environment(self, context: &Context) -> Result<PathBuf, BenchError> {
        let dir = context.cache.join(format!("v-{}", self.name));
        let wanted = format!("{}=={}", self.name, self.version);
        if fs::read_to_string(dir.join(STAMP)).is_ok_and(|stamp| stamp.trim() == wanted) {
            return Ok(dir);
        }
        if !context.install {
            return Err(BenchError::Missing {
                what: format!("the Python package {wanted}"),
                remedy: "run without --no-install".to_owned(),
            });
        }
        self.install(context, &dir, &wanted)?;
        Ok(dir)
    }

    fn install(self, context: &Context, dir: &Path, wanted: &str) -> Result<(), BenchError> {
        context.progress.note(&format!("installing {wanted} into {}", dir.display()));
        fs::create_dir_all(&context.cache).map_err(file("create", &context.cache))?;
        Launch::new("python3", TIME_LIMIT)
            .args(["-m", "venv", "--clear"])
            .args([dir.to_string_lossy()])
            .remedy("install Python 3 with its venv module (Debian: python3-venv)")
            .run()?;
        let mut pip = Launch::new(dir.join("bin/python3"), TIME_LIMIT)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .remedy("the environment has no interpreter; remove it and run again");
        if !self.dependencies {
            pip = pip.args(["--no-deps"]);
        }
        pip.args([wanted]).run()?;
        let stamp = dir.join(STAMP);
        fs::write(&stamp, wanted).map_err(file("write", &stamp))
    }
}

/// The directory of an environment's Python packages.
pub(crate) fn site_packages(environment: &Path) -> Result<PathBuf, BenchError> {
    let lib = environment.join("lib");
    let mut found: Vec<PathBuf> = fs::read_dir(&lib)
        .map_err(file("list", &lib))?
        .filter_map(|entry| Some(entry.ok()?.path().join("site-packages")))
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found.pop().ok_or_else(|| BenchError::Missing {
        what: format!("site-packages below {}", lib.display()),
        remedy: "remove the environment and run again".to_owned(),
    })
}
