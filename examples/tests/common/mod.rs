//! Starting the example programs as jobs of real processes.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_launch::run::{OnFailure, RunOptions, run};
use serde_json::Value;

/// A launcher takes signals for its whole process, so there is one at a time.
static LAUNCHER: Mutex<()> = Mutex::new(());

/// How a job ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code of the job.
    pub(crate) code: i32,
    /// What it wrote to the file that `--json` named.
    pub(crate) json: Option<Value>,
}

impl Ended {
    /// What a job wrote that must have succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        self.json.expect("rank 0 writes its report")
    }
}

/// A job of an example.
#[derive(Debug)]
pub(crate) struct Job {
    ranks: u32,
    program: &'static str,
    args: Vec<OsString>,
    transports: Option<&'static str>,
    go_on: bool,
}

impl Job {
    pub(crate) fn new(ranks: u32, program: &'static str, args: &[&str]) -> Self {
        let args = args.iter().map(OsString::from).collect();
        Self { ranks, program, args, transports: None, go_on: false }
    }

    /// Over these transports.
    pub(crate) fn over(mut self, transports: &'static str) -> Self {
        self.transports = Some(transports);
        self
    }

    /// A death does not end the job.
    pub(crate) fn going_on(mut self) -> Self {
        self.go_on = true;
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(self) -> Ended {
        let _one = LAUNCHER.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().expect("a directory for the report");
        let path = directory.path().join("report.json");
        let config = bowline::config_from_env().expect("no setting in the environment is bad");
        let mut options = RunOptions::new(self.ranks, self.program);
        options.args = self.args;
        options.args.extend(["--json".into(), path.clone().into_os_string()]);
        options.area_bytes = bowline::stack::area_bytes(&config);
        options.timeout = Some(Duration::from_secs(120));
        if let Some(transports) = self.transports {
            options.env.push(("BOWLINE_TRANSPORTS".into(), transports.into()));
        }
        if self.go_on {
            options.on_failure = OnFailure::Continue;
        }
        let report = run(&options).expect("the job starts");
        let text = std::fs::read_to_string(&path).ok();
        let json = text.map(|text| serde_json::from_str(&text).expect("the report is JSON"));
        Ended { code: report.code, json }
    }
}

/// A file of `examples/data`.
pub(crate) fn data(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "data", name].iter().collect();
    path.to_str().expect("the path is a text").to_owned()
}
