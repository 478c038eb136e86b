//! Programs that must not compile: an operation would outlive its buffer, or a type that is not
//! plain data would travel.
//!
//! Each file of `compile_fail` is a program. Where a line of it has a comment `//~ E0597 words`, the
//! compiler must refuse that line with this code (or without a code, if none stands there), in a
//! message with these words; `//~^` speaks of the line above. Every error must be named so: a file
//! without such a comment must compile. Only the compiler runs, on the library that this program was
//! linked with.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// An error: its line, its code, if it has one, and its message or some words of that.
#[derive(Clone, Debug)]
struct Refusal {
    line: usize,
    code: Option<String>,
    words: String,
}

impl Refusal {
    fn is_met_by(&self, said: &Self) -> bool {
        self.line == said.line && self.code == said.code && said.words.contains(&self.words)
    }
}

/// What the comments of a program ask for.
fn asked_for(text: &str) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((_, mark)) = line.split_once("//~") else { continue };
        let (line, mark) = match mark.strip_prefix('^') {
            Some(mark) => (index, mark),
            None => (index + 1, mark),
        };
        let (first, rest) = mark.trim().split_once(' ').expect("a comment `//~` has words");
        let is_code = first.len() == 5
            && first.strip_prefix('E').is_some_and(|rest| rest.parse::<u32>().is_ok());
        let (code, words) =
            if is_code { (Some(first.to_owned()), rest) } else { (None, mark.trim()) };
        refusals.push(Refusal { line, code, words: words.to_owned() });
    }
    refusals
}

/// Where cargo has put this program and the libraries below it.
fn libraries() -> PathBuf {
    let own = std::env::current_exe().expect("this program is a file");
    own.parent().expect("a file is in a directory").to_owned()
}

/// The library that was built last. None is older than the sources of this program, which cargo built
/// after it.
fn library(directory: &Path) -> PathBuf {
    let files = std::fs::read_dir(directory).expect("cargo's directory can be read").flatten();
    let ours = files.filter(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with("libbowline_mpi-") && name.ends_with(".rlib")
    });
    let built = |file: &std::fs::DirEntry| file.metadata().and_then(|data| data.modified()).ok();
    ours.max_by_key(built).expect("this program is linked with the library").path()
}

/// What the compiler says against a program.
fn refused(program: &Path, out: &Path) -> Vec<Refusal> {
    let (deps, library) = (libraries(), library(&libraries()));
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler)
        .args(["--edition=2024", "--error-format=json", "--emit=metadata", "--cap-lints=allow"])
        .arg("--extern")
        .arg(format!("bowline_mpi={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .arg("-o")
        .arg(out)
        .arg(program)
        .output()
        .expect("the compiler can be started");
    let text = String::from_utf8(output.stderr).expect("the compiler writes UTF-8");
    let mut refusals = Vec::new();
    for line in text.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            panic!("the compiler says of {}: {line}", program.display());
        };
        if message["level"] != "error" {
            continue;
        }
        let words = message["message"].as_str().expect("a message").to_owned();
        let spans = message["spans"].as_array().expect("a list of places");
        let place = spans.iter().find(|span| span["is_primary"] == true);
        // The last one counts the others.
        let Some(place) = place else {
            assert!(words.starts_with("aborting due to"), "{}: {words}", program.display());
            continue;
        };
        let line = line_of(place, program);
        let code = message["code"]["code"].as_str().map(str::to_owned);
        refusals.push(Refusal { line, code, words });
    }
    assert_eq!(output.status.success(), refusals.is_empty(), "{}: {text}", program.display());
    refusals
}

/// The line of the program that a place is in, or that a macro was called from which it is in.
fn line_of(place: &Value, program: &Path) -> usize {
    let mut place = place;
    while place["file_name"] != program.to_string_lossy().as_ref() {
        place = &place["expansion"]["span"];
        assert!(place.is_object(), "an error is in no line of {}", program.display());
    }
    place["line_start"].as_u64().expect("a line") as usize
}

/// What is wrong with a program, if something is.
fn judge(asked: &[Refusal], said: &[Refusal]) -> Result<(), String> {
    if let Some(missing) = asked.iter().find(|asked| !said.iter().any(|it| asked.is_met_by(it))) {
        return Err(format!("the compiler does not refuse line {}: {missing:?}", missing.line));
    }
    match said.iter().find(|it| !asked.iter().any(|asked| asked.is_met_by(it))) {
        Some(other) => Err(format!("it is refused for another reason: {other:?}")),
        None => Ok(()),
    }
}

#[test]
#[cfg_attr(bowline_sanitize, ignore = "under a sanitizer the compiler does not know its directory")]
fn unsound_programs_are_refused() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail");
    let out = tempfile::tempdir().expect("a directory for what compiles");
    let mut wrong = Vec::new();
    let (mut refused_ones, mut sound_ones) = (0, 0);
    for file in std::fs::read_dir(directory).expect("the programs are there").flatten() {
        let program = file.path();
        let text = std::fs::read_to_string(&program).expect("the program can be read");
        let asked = asked_for(&text);
        *if asked.is_empty() { &mut sound_ones } else { &mut refused_ones } += 1;
        let said = refused(&program, &out.path().join("out"));
        if let Err(why) = judge(&asked, &said) {
            wrong.push(format!("{}: {why}; the compiler: {said:#?}", program.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused_ones >= 24 && sound_ones >= 1, "{refused_ones}, {sound_ones}");
}

/// The judgement itself can fail in both directions.
#[test]
fn other_errors_than_those_asked_for_are_noticed() {
    let asked =
        asked_for("//! A.\nlet a = b; //~ E0597 `b` does not live\nc();\n//~^ d is missing\n");
    let said = |line, code: Option<&str>, words: &str| Refusal {
        line,
        code: code.map(str::to_owned),
        words: words.to_owned(),
    };
    let first = said(2, Some("E0597"), "`b` does not live long enough");
    let second = said(3, None, "d is missing");
    assert!(judge(&asked, &[first.clone(), second.clone()]).is_ok());
    assert!(judge(&asked, std::slice::from_ref(&first)).is_err(), "one is missing");
    assert!(judge(&[], std::slice::from_ref(&first)).is_err(), "one is too many");
    for other in [
        said(3, Some("E0597"), "`b` does not live long enough"),
        said(2, Some("E0505"), "`b` does not live long enough"),
        said(2, None, "`b` does not live long enough"),
        said(2, Some("E0597"), "`c` does not live long enough"),
    ] {
        assert!(judge(&asked, &[other, second.clone()]).is_err());
    }
}
