//! PMI-1 with others: MPICH programs under our launcher, our ranks under Hydra and alone.
//!
//! Where MPICH is not installed, the tests say so and do nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use bowline_uct::conformance::skipped;

use crate::harness::{Job, probe};

fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skipped(format_args!("{program} is not installed"));
    }
    found
}

/// Compiles a program with MPICH; `None`, with the reason printed, when there is none.
fn mpich_program(dir: &Path, source: &str) -> Option<PathBuf> {
    let compiler = "mpicc.mpich";
    if !installed(compiler) {
        return None;
    }
    let (c, program) = (dir.join("program.c"), dir.join("program"));
    std::fs::write(&c, source).unwrap();
    let status = Command::new(compiler).arg(&c).arg("-o").arg(&program).status().unwrap();
    assert!(status.success(), "mpicc.mpich does not compile");
    Some(program)
}

#[test]
fn an_mpich_program_runs_under_our_launcher() {
    let dir = tempfile::tempdir().unwrap();
    let source = r#"
        #include <mpi.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            int rank, size, sum, appnum, *universe, flag;
            MPI_Init(&argc, &argv);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Comm_size(MPI_COMM_WORLD, &size);
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag);
            printf("rank %d of %d sum %d universe %d\n", rank, size, sum, flag ? *universe : -1);
            MPI_Finalize();
            return 0;
        }"#;
    let Some(program) = mpich_program(dir.path(), source) else {
        return;
    };
    let ended = Job::launch(&["-n", "3", program.to_str().unwrap()]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let line = |rank| format!("rank {rank} of 3 sum 3 universe 3");
    assert_eq!(ended.sorted_lines(), [line(0), line(1), line(2)]);
}

#[test]
fn an_mpich_program_may_abort_or_forget_to_finalise() {
    let dir = tempfile::tempdir().unwrap();
    let source = r#"
        #include <mpi.h>
        #include <stdlib.h>
        int main(int argc, char **argv) {
            int rank;
            MPI_Init(&argc, &argv);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 1 && argc > 1) _Exit(0);
            if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 9);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Finalize();
            return 0;
        }"#;
    let Some(program) = mpich_program(dir.path(), source) else {
        return;
    };
    let run = |words: &[&str]| {
        let mut job = Job::launch(&[&["-n", "3", program.to_str().unwrap()], words].concat());
        // With shared memory an ended MPICH program leaves its file in /dev/shm.
        job.command().env("MPIR_CVAR_NOLOCAL", "1");
        job.run()
    };
    let ended = run(&[]);
    assert_eq!(ended.code(), Some(9), "{ended:?}");
    assert!(ended.sentences()[0].contains("rank 1"), "{ended:?}");
    let ended = run(&["quietly"]);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.sentences()[0].contains("ended without finalising"), "{ended:?}");
}

#[test]
fn spawning_is_refused_to_an_mpich_program() {
    let dir = tempfile::tempdir().unwrap();
    let source = r#"
        #include <mpi.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            MPI_Comm other;
            MPI_Init(&argc, &argv);
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
            int error = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0,
                                       MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
            printf("spawn %s\n", error == MPI_SUCCESS ? "worked" : "refused");
            MPI_Finalize();
            return 0;
        }"#;
    let Some(program) = mpich_program(dir.path(), source) else {
        return;
    };
    let ended = Job::launch(&["-n", "2", program.to_str().unwrap()]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "spawn refused\nspawn refused\n", "{ended:?}");
}

#[test]
fn our_ranks_join_under_our_launcher() {
    let ended = Job::launch(&["-n", "4", probe(), "join"]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let line = |rank| format!("rank {rank} of 4 local {rank} of 4 watches 0 by Bowline");
    assert_eq!(ended.sorted_lines(), [line(0), line(1), line(2), line(3)]);
}

#[test]
fn our_ranks_join_under_hydra_by_every_route() {
    if !installed("mpiexec.hydra") {
        return;
    }
    for route in ["any", "proc", "pidfd", "socket"] {
        let mut job = Job::of("mpiexec.hydra");
        job.command().args(["-n", "4", probe(), "join", route]);
        let ended = job.run();
        assert_eq!(ended.code(), Some(0), "{route}: {ended:?}");
        let line = |rank| format!("rank {rank} of 4 local {rank} of 4 watches 3 by Foreign");
        assert_eq!(ended.sorted_lines(), [line(0), line(1), line(2), line(3)], "{route}");
    }
}

#[test]
fn under_hydra_our_ranks_notice_a_death_themselves() {
    if !installed("mpiexec.hydra") {
        return;
    }
    // Hydra ends the job when the dead rank's connection closes; shells hold it until everybody
    // has spoken. They write to files, since Hydra drops output when it ends a job.
    let dir = tempfile::tempdir().unwrap();
    let script = "\"$0\" die 1 > \"$1/$PMI_RANK\"; \
                  until [ -s \"$1/0\" ] && [ -s \"$1/2\" ]; do sleep 0.01; done";
    let mut job = Job::of("mpiexec.hydra");
    job.command().args(["-n", "3", "sh", "-c", script, probe()]).arg(dir.path());
    job.run();
    for rank in [0, 2] {
        let said = std::fs::read_to_string(dir.path().join(rank.to_string())).unwrap();
        assert_eq!(said, format!("rank {rank} knows that rank 1 is dead\n"));
    }
}

#[test]
fn the_innermost_launcher_counts() {
    if !installed("mpiexec.hydra") {
        return;
    }
    let ended = Job::launch(&["-n", "1", "mpiexec.hydra", "-n", "2", probe(), "join"]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let line = |rank| format!("rank {rank} of 2 local {rank} of 2 watches 1 by Foreign");
    assert_eq!(ended.sorted_lines(), [line(0), line(1)]);
    let mut job = Job::of("mpiexec.hydra");
    job.command().args(["-n", "1", probe(), "launch", "-n", "2", probe(), "join"]);
    let ended = job.run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let line = |rank| format!("rank {rank} of 2 local {rank} of 2 watches 0 by Bowline");
    assert_eq!(ended.sorted_lines(), [line(0), line(1)]);
}

#[test]
fn a_rank_that_nobody_started_is_a_world() {
    let mut job = Job::of(probe());
    job.command().arg("join");
    let ended = job.run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "rank 0 of 1 local 0 of 1 watches 0 by Alone\n");
}

#[test]
fn managers_that_are_not_spoken_to_are_named() {
    let mut job = Job::of(probe());
    job.command().arg("join").env("PMI_PORT", "host:1");
    let ended = job.run();
    assert_eq!(ended.code(), Some(3), "{ended:?}");
    assert!(ended.stderr.contains("PMI_PORT"), "{ended:?}");
    // A PMIx manager that is gone, or a machine without the library.
    let mut job = Job::of(probe());
    job.command().arg("join").env("PMIX_NAMESPACE", "gone").env("PMIX_RANK", "0");
    let ended = job.run();
    assert_eq!(ended.code(), Some(3), "{ended:?}");
    assert!(ended.stderr.contains("cannot join the job"), "{ended:?}");
}
