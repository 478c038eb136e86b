//! Command lines as people type them for MPICH, Open MPI and Intel MPI, and wrong ones.

use super::*;
use bowline_launch::run::Bind;

fn read(line: &str) -> Result<Asked> {
    parse(parse::quoted(line).unwrap().into_iter().map(OsString::from))
}

#[track_caller]
fn job(line: &str) -> Job {
    match read(line) {
        Ok(Asked::Job(job)) => *job,
        other => panic!("{line}: {other:?}"),
    }
}

#[track_caller]
fn error(line: &str) -> String {
    format!("{:#}", read(line).expect_err(line))
}

fn pairs(env: &[(OsString, OsString)]) -> Vec<String> {
    env.iter().map(|(n, v)| format!("{}={}", n.display(), v.display())).collect()
}

#[track_caller]
fn places(line: &str) -> String {
    let hosts = hosts(&job(line)).unwrap_or_else(|error| panic!("{line}: {error:#}"));
    let host = |host: &Host| match host.slots {
        Some(slots) => format!("{}:{slots}", host.name),
        None => host.name.clone(),
    };
    hosts.iter().map(host).collect::<Vec<_>>().join(",")
}

#[test]
fn no_name_stands_for_two_options() {
    let mut seen = std::collections::HashSet::new();
    for form in table::OPTIONS.iter().flat_map(|known| known.forms) {
        assert!(seen.insert(form), "-{form} is in the table twice");
        assert!(!form.starts_with('-') && !form.contains('='), "{form}");
    }
}

#[test]
fn every_spelling_of_the_number_of_ranks() {
    for line in ["-n 4 a", "-np 4 a", "--np 4 a", "--n=4 a", "-c 4 a", "-n 4 -- a"] {
        assert_eq!(job(line).programs[0].ranks, Some(4), "{line}");
    }
    assert_eq!(job("a").programs[0].ranks, None);
}

#[test]
fn mpich_lines() {
    let job = job("-l -genv A 1 -genvall -n 2 -env B 2 -wdir /tmp ./a -n 9 : -n 3 -env C=x=y ./b");
    assert!(job.label && job.words.is_empty(), "{:?}", job.words);
    let [a, b] = &job.programs[..] else { panic!("{:?}", job.programs) };
    assert_eq!((a.ranks, b.ranks), (Some(2), Some(3)));
    assert_eq!(a.words, ["./a", "-n", "9"]);
    assert_eq!(b.words, ["./b"]);
    assert_eq!(a.directory.as_deref(), Some(Path::new("/tmp")));
    assert_eq!(b.directory, None);
    assert_eq!(pairs(&job.env), ["A=1"]);
    assert_eq!((pairs(&a.env), pairs(&b.env)), (vec!["B=2".into()], vec!["C=x=y".into()]));
}

#[test]
fn open_mpi_lines() {
    let job =
        job("--allow-run-as-root --oversubscribe --bind-to none --map-by slot --mca btl self,sm \
         -x A=1 --tag-output --timeout 5 -np 2 --wdir /tmp a --flag");
    assert!(job.oversubscribe && job.label);
    assert_eq!(job.bind, Some(Bind::None));
    assert_eq!(pairs(&job.env), ["A=1"]);
    assert_eq!(job.timeout.map(|limit| limit.as_secs()), Some(5));
    assert_eq!(job.programs[0].words, ["a", "--flag"]);
    // What is not followed is reported, each with its name.
    assert_eq!(job.words.len(), 2, "{:?}", job.words);
    assert!(job.words[0].starts_with("--map-by") && job.words[1].starts_with("--mca"));
}

#[test]
fn intel_lines() {
    let job = job("-prepend-rank -genv I_MPI_DEBUG 5 -bootstrap fork -ppn 2 -hosts a,b -n 4 ./a");
    assert!(job.label);
    assert_eq!((job.per_host, job.agent_command.as_deref()), (Some(2), Some("env")));
    assert_eq!(pairs(&job.env), ["I_MPI_DEBUG=5"]);
}

#[test]
fn hosts_of_all_programs_and_of_each() {
    assert_eq!(places("-n 4 -hosts a,b x"), "a,b");
    assert_eq!(places("-n 3 --host a,a,b x"), "a:2,b");
    assert_eq!(places("-n 4 -ppn 2 -hosts a,b x"), "a:2,b:2");
    assert_eq!(places("-n 5 --oversubscribe --host a:1,b:1 x"), "a:3,b:3");
    let most = "a:4294967295,b:1";
    assert_eq!(places(&format!("-n 5 --oversubscribe --host {most} x")), most);
    assert_eq!(places("-n 2 -host a x : -n 1 -host b y"), "a:2,b:1");
    assert_eq!(places("-n 2 -host a x : -n 3 -host a,b y"), "a:4,b:1");
    assert_eq!(places("-n 2 -host localhost x"), "");
    assert_eq!(places("-n 2 -launcher fork -host localhost x"), "localhost");
    let apart = job("-n 1 -host a x : -n 1 y : -n 1 -host b z");
    assert!(hosts(&apart).unwrap_err().to_string().contains("each program"));
    let many = job("-n 3 -host a:2 x : -n 1 -host b y");
    assert!(hosts(&many).unwrap_err().to_string().contains("slots"));
}

#[test]
fn programs_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("programs");
    std::fs::write(&file, "# two\n-n 2 ./a 'one word'\n\n-n 1 -env B 2 ./b :\n").unwrap();
    for form in ["-configfile", "--app"] {
        let job = job(&format!("-l {form} {}", file.display()));
        assert!(job.label);
        assert_eq!(job.programs[0].words, ["./a", "one word"]);
        assert_eq!(
            (job.programs[1].ranks, pairs(&job.programs[1].env)),
            (Some(1), vec!["B=2".into()])
        );
        assert_eq!(job.programs.len(), 2);
    }
    std::fs::write(&file, "# none\n").unwrap();
    assert!(error(&format!("-configfile {}", file.display())).contains("names no program"));
    std::fs::write(&file, "-n 1 a\n-frobnicate b\n").unwrap();
    assert!(error(&format!("-configfile {}", file.display())).contains("line 2"));
}

#[test]
fn wrong_lines_are_named() {
    for (line, expected) in [
        ("", "program is missing"),
        ("-n 2", "program is missing"),
        ("-n 2 a :", "behind the last"),
        (": a", "program is missing"),
        ("a : : b", "program is missing"),
        ("-n", "wants a value"),
        ("-genv A", "wants two values"),
        ("-n 0 a", "from 1 on"),
        ("-n x a", "from 1 on"),
        ("-frobnicate a", "unknown option `-frobnicate`"),
        ("--label=yes a", "takes no value"),
        ("-genv =x a", "a name and a value"),
        ("-host a,,b x", "as a host"),
        ("-f /no/such/file x", "/no/such/file"),
        ("-genvnone a", "env -i"),
        ("--stdin all a", "rank 0"),
        ("-launcher slurm a", "agent-command"),
        ("--timeout soon a", "--timeout soon"),
    ] {
        let error = error(line);
        assert!(error.contains(expected), "`{line}` says: {error}");
    }
}

#[test]
fn help_and_version_come_first() {
    assert!(matches!(read("--help"), Ok(Asked::Help)));
    assert!(matches!(read("-n 2 -version"), Ok(Asked::Version)));
    assert!(matches!(read("-V"), Ok(Asked::Version)));
    assert!(help("mpirun").contains("-hostfile, -f"));
}
