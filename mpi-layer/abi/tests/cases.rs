//! The tests: a program below `c` each, and what it must do.

use std::collections::BTreeSet;
use std::process::Command;

use crate::job::{
    Ended, LOST, alone, checked_job, compiled, cxx_job, job, job_with, library, started,
    surviving_job,
};

/// A test.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// All tests.
        pub(crate) fn all() -> Vec<Case> {
            vec![$(Case { name: stringify!($name), run: $name }),*]
        }
    };
}

cases! {
    every_function_is_there_under_both_names,
    the_library_has_the_name_of_the_abi,
    constants_and_types_are_those_of_the_abi,
    messages_pass_between_ranks,
    messages_of_every_mode_and_buffer,
    requests_complete_alone_and_together,
    persistent_requests_start_again,
    messages_are_looked_at_and_claimed,
    buffered_sends_have_space,
    generalised_requests_end_when_completed,
    a_loop_of_tests_gives_its_processor_away,
    long_messages_come_whole_by_every_protocol,
    rules_that_no_chapter_has,
    a_program_of_cxx_finds_its_types,
    the_start_and_the_end,
    calls_at_the_wrong_time_end_the_process,
    errors_go_to_their_handlers,
    errors_end_the_job_unless_something_else_is_said,
    a_program_can_have_error_codes_of_its_own,
    an_error_handler_may_leap_away,
    information_is_kept,
    a_recorded_job_has_every_message_once,
    attributes_are_copied_and_deleted,
    attributes_of_self_go_first_at_the_end,
    names_and_handles_as_numbers,
    statuses_are_read_and_written,
    an_aborted_job_has_its_code,
    a_tool_sees_calls_once,
    the_log_is_asked_for_by_a_variable,
    damaged_arguments_are_errors,
    every_wrong_argument_of_every_function_is_reported,
    names_of_before_the_abi_are_there_on_demand,
    a_rank_that_does_not_finalise_has_failed,
    an_error_of_the_end_goes_to_the_handler,
    sessions_come_and_go,
    a_forked_child_may_end_as_it_likes,
    nothing_unwinds_through_the_library,
    groups_are_sets_in_an_order,
    communicators_are_made_of_others,
    many_communicators_take_little_memory,
    no_memory_is_lost,
    checks_can_be_left_out,
    duplicates_are_made_in_the_background,
    topologies_say_who_is_beside_whom,
    neighbours_exchange_what_they_must,
    a_blocked_rank_moves_its_other_work_on,
    collectives_bring_what_they_must,
    random_collectives_bring_what_they_must,
    long_blocks_are_read_where_they_lie,
    collectives_in_the_background_bring_what_they_must,
    collectives_in_the_background_end_with_a_death,
    what_is_pending_beside_a_failure_stays,
    reductions_give_what_loops_give,
    operations_know_their_types,
    every_operation_on_every_type_by_every_reduction,
    datatypes_have_their_bounds_and_origins,
    packed_messages_are_unpacked,
    layouts_of_any_kind_travel,
}

/// A job that says `ok` once and nothing else, and ends well.
fn passes(ended: &Ended) {
    assert!(ended.code == Some(0) && ended.stdout == "ok\n", "{ended:#?}");
}

fn every_function_is_there_under_both_names() {
    let output = Command::new("nm").arg("-D").arg("--defined-only").arg(library()).output();
    let output = output.expect("nm, which comes with the compiler");
    let text = String::from_utf8(output.stdout).expect("names");
    let found: BTreeSet<&str> = text.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    let table = include_str!("../facts/functions.tsv");
    let mut wanted = BTreeSet::new();
    for line in table.lines().skip(1) {
        let name = line.split('\t').next().expect("a first field");
        wanted.extend([name.to_owned(), format!("P{name}")]);
    }
    assert_eq!(wanted.len(), 2 * 664);
    let missing: Vec<_> = wanted.iter().filter(|name| !found.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let more: Vec<_> = found.iter().filter(|name| !wanted.contains(**name)).collect();
    assert!(more.is_empty(), "names that are no functions of MPI: {more:?}");
}

fn the_library_has_the_name_of_the_abi() {
    let output = Command::new("readelf").arg("-d").arg(library()).output();
    let output = output.expect("readelf, which comes with the compiler");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("soname: [libmpi_abi.so.1]"), "{text}");
    assert!(text.contains("NODELETE"), "{text}");
}

fn constants_and_types_are_those_of_the_abi() {
    passes(&alone("abi.c", &[]));
}

fn messages_pass_between_ranks() {
    passes(&job(4, "messages.c", &[]));
}

fn messages_of_every_mode_and_buffer() {
    [1, 2, 3].into_iter().for_each(|ranks| passes(&job(ranks, "modes.c", &[])));
}

fn requests_complete_alone_and_together() {
    [1, 2, 4].into_iter().for_each(|ranks| passes(&job(ranks, "requests.c", &[])));
}

fn persistent_requests_start_again() {
    [1, 2, 3].into_iter().for_each(|ranks| passes(&job(ranks, "persistent.c", &[])));
}

fn messages_are_looked_at_and_claimed() {
    [1, 2, 4].into_iter().for_each(|ranks| passes(&job(ranks, "probes.c", &[])));
}

fn buffered_sends_have_space() {
    [2, 3].into_iter().for_each(|ranks| passes(&job(ranks, "buffered.c", &[])));
}

fn generalised_requests_end_when_completed() {
    [1, 2].into_iter().for_each(|ranks| passes(&job(ranks, "general.c", &[])));
}

fn a_loop_of_tests_gives_its_processor_away() {
    // Whether or not this machine has a processor for each rank.
    let few = [("BOWLINE_WAIT_SPINS", "4"), ("BOWLINE_WAIT_SPINS_SHARED", "4")];
    passes(&job_with(2, "yields.c", &[], &few));
}

fn long_messages_come_whole_by_every_protocol() {
    // With twelve, some have no ring at the others.
    for (ranks, scheme) in [(1, "auto"), (2, "auto"), (2, "copy"), (3, "get"), (12, "copy")] {
        passes(&job_with(ranks, "long.c", &[], &[("BOWLINE_RNDV_SCHEME", scheme)]));
    }
}

fn the_start_and_the_end() {
    passes(&job(3, "environment.c", &[]));
    passes(&alone("environment.c", &[]));
}

fn calls_at_the_wrong_time_end_the_process() {
    for (when, expected) in [
        ("before", "bowline: MPI_Comm_rank was called before MPI_Init"),
        ("after", "bowline: MPI_Barrier was called after MPI_Finalize"),
        ("twice", "MPI_Init: MPI_ERR_OTHER: MPI was started before"),
        ("again", "MPI_Init: MPI_ERR_OTHER: MPI was started before"),
    ] {
        let ended = alone("wrong_time.c", &[when]);
        assert!(ended.code.is_some_and(|code| code != 0), "{when}: {ended:#?}");
        assert!(ended.stderr.contains(expected), "{when}: {ended:#?}");
        assert_eq!(ended.stdout, "written before\n", "{when}: {ended:#?}");
    }
    passes(&alone("wrong_time.c", &["allowed"]));
}

fn errors_go_to_their_handlers() {
    passes(&job(2, "handlers.c", &[]));
}

fn errors_end_the_job_unless_something_else_is_said() {
    for how in ["default", "fatal", "abort"] {
        let ended = job(2, "fatal.c", &[how]);
        // The class is the job's code: MPI_ERR_RANK.
        assert_eq!(ended.code, Some(6), "{how}: {ended:#?}");
        let sentence = "bowline: rank 1: MPI_Send: MPI_ERR_RANK: rank 77 is not in";
        assert!(ended.stderr.contains(sentence), "{how}: {ended:#?}");
        let arguments =
            "count=1, datatype=MPI_INT, dest=77, tag=0, comm=MPI_COMM_WORLD); the job ends\n";
        assert!(ended.stderr.contains(arguments), "{how}: {ended:#?}");
    }
    // MPI_ERR_COMM, by the handler of MPI_COMM_SELF.
    let ended = job(2, "fatal.c", &["null"]);
    assert_eq!(ended.code, Some(5), "{ended:#?}");
}

fn a_program_can_have_error_codes_of_its_own() {
    passes(&job(1, "codes.c", &[]));
}

fn an_error_handler_may_leap_away() {
    passes(&alone("leap.c", &[]));
}

fn a_recorded_job_has_every_message_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("job").to_str().expect("a name").to_owned();
    passes(&job_with(3, "recorded.c", &[], &[("BOWLINE_RECORD", &name)]));
    for rank in 0..3 {
        let text = std::fs::read_to_string(format!("{name}.{rank}")).expect("a record");
        let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        assert_eq!(count(&format!("\"send\":{},", (rank + 1) % 3)), 10, "{text}");
        assert_eq!(count(&format!("\"recv\":{},\"comm\":0,", (rank + 2) % 3)), 10, "{text}");
        assert_eq!((count("\"send\":"), count("\"recv\":")), (10, 10), "{text}");
        // The split gathers, and the end has a barrier.
        assert_eq!((count("\"coll\":"), count("\"later\":true")), (4 + 2, 1), "{text}");
        assert_eq!((count("\"coll\":\"bcast\""), count("\"done\":0}")), (1, 1), "{text}");
        assert_eq!(count("\"generation\":"), 3, "world, self and the half: {text}");
        assert!(text.lines().last().is_some_and(|line| line.starts_with("{\"end\":")), "{text}");
    }
}

fn information_is_kept() {
    passes(&job(2, "info.c", &["first", "second"]));
}

fn attributes_are_copied_and_deleted() {
    passes(&job(2, "attributes.c", &[]));
}

fn attributes_of_self_go_first_at_the_end() {
    let ended = alone("last_words.c", &[]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.stdout, "third 1 0\nsecond 1 0\nfirst 1 0\nend 1 1\n", "{ended:#?}");
}

fn names_and_handles_as_numbers() {
    passes(&job(2, "names.c", &[]));
}

fn statuses_are_read_and_written() {
    passes(&job(2, "status.c", &[]));
}

fn an_aborted_job_has_its_code() {
    for (code, expected) in [("7", 7), ("256", 1), ("0", 1), ("-1", 255)] {
        let ended = job(3, "abort.c", &[code]);
        assert_eq!(ended.code, Some(expected), "{code}: {ended:#?}");
        assert!(ended.stdout.contains("written without an end"), "{code}: {ended:#?}");
        assert!(!ended.stdout.contains("at exit"), "{code}: {ended:#?}");
        assert_eq!(alone("abort.c", &[code]).code, Some(expected), "{code}");
    }
}

fn a_tool_sees_calls_once() {
    passes(&job(2, "tool.c", &[]));
}

fn the_log_is_asked_for_by_a_variable() {
    let quiet = job_with(1, "codes.c", &[], &[("BOWLINE_LOG", "warn")]);
    assert_eq!(quiet.stderr, "", "{quiet:#?}");
    let loud = job_with(1, "codes.c", &[], &[("BOWLINE_LOG", "mpi_abi=debug")]);
    assert!(loud.stderr.contains("MPI_ERR_ARG"), "{loud:#?}");
    passes(&loud);
}

fn damaged_arguments_are_errors() {
    passes(&job(2, "damage.c", &[]));
}

fn every_wrong_argument_of_every_function_is_reported() {
    let (calls, count) = crate::every::calls();
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("calls.h"), calls).expect("a file");
    let include = format!("-I{}", directory.path().display());
    let program = compiled("every.c", &[&include]);
    let ended = started(&program);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.stdout, format!("{count} calls\n"), "{ended:#?}");
    assert!(count > 2000, "there are but {count}");
    println!("{count} calls with a wrong argument");
}

fn names_of_before_the_abi_are_there_on_demand() {
    let program = compiled("fint.c", &["-DBOWLINE_MPI_FINT"]);
    let output = Command::new(program).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{output:?}");
    assert!(output.status.success(), "{output:?}");
}

fn a_rank_that_does_not_finalise_has_failed() {
    let ended = job(2, "unfinished.c", &["exit"]);
    assert!(ended.code.is_some_and(|code| code != 0), "{ended:#?}");
    assert!(ended.stderr.contains("ended without finalising"), "{ended:#?}");
}

fn an_error_of_the_end_goes_to_the_handler() {
    for how in ["returns", "calls"] {
        let ended = surviving_job(2, "bereaved.c", &[how]);
        assert_eq!(ended.stdout, "ok\n", "{how}: {ended:#?}");
        assert!(!ended.stderr.contains("the process ends"), "{how}: {ended:#?}");
    }
}

fn a_forked_child_may_end_as_it_likes() {
    for how in ["child-exits", "child-finalises"] {
        passes(&job(2, "unfinished.c", &[how]));
    }
}

fn nothing_unwinds_through_the_library() {
    let ended = alone("unwind.c", &[]);
    // A signal.
    assert_eq!(ended.code, None, "{ended:#?}");
    assert!(ended.stderr.contains("bowline: MPI_Comm_dup: something unwinds"), "{ended:#?}");
}

fn sessions_come_and_go() {
    for how in ["alone", "around", "beside", "elsewhere"] {
        passes(&job(2, "sessions.c", &[how]));
        passes(&alone("sessions.c", &[how]));
    }
    let ended = job(2, "sessions.c", &["forgotten"]);
    assert!(ended.stderr.contains("ended without finalising"), "{ended:#?}");
    let ended = alone("sessions.c", &["fatal"]);
    assert!(ended.stderr.contains("MPI_Session_get_nth_pset: MPI_ERR_ARG"), "{ended:#?}");
    assert_eq!(ended.code, Some(13), "{ended:#?}");
}

fn groups_are_sets_in_an_order() {
    passes(&job(4, "groups.c", &[]));
}

fn communicators_are_made_of_others() {
    passes(&job(4, "communicators.c", &[]));
}

fn many_communicators_take_little_memory() {
    let ended = job(2, "many.c", &["20000", "2000", "print"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let (figures, end) = ended.stdout.split_once('\n').expect("two lines");
    println!("{figures}");
    assert_eq!(end, "ok\n", "{ended:#?}");
}

fn duplicates_are_made_in_the_background() {
    passes(&job(3, "idup.c", &[]));
}

fn a_blocked_rank_moves_its_other_work_on() {
    passes(&job(4, "advance.c", &[]));
}

fn checks_can_be_left_out() {
    passes(&job(1, "checks.c", &["checked"]));
    passes(&job_with(1, "checks.c", &["unchecked"], &[("BOWLINE_MPI_CHECKS", "0")]));
}

fn rules_that_no_chapter_has() {
    for ranks in [1, 2, 4] {
        passes(&job(ranks, "rules.c", &[]));
    }
}

fn a_program_of_cxx_finds_its_types() {
    if !crate::job::has_cxx() {
        println!("skipped: there is no compiler of C++, c++");
        return;
    }
    for ranks in [1, 3] {
        let ended = cxx_job(ranks, "templates.cpp");
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(ended.stdout, "ok\n".repeat(ranks as usize), "{ended:#?}");
    }
}

fn no_memory_is_lost() {
    let Some(ended) = checked_job(2, "leak.c") else {
        println!("valgrind is not installed: whether memory is lost is not checked");
        return;
    };
    assert_eq!(ended.code, Some(LOST), "the tool has to find what is lost: {ended:#?}");
    assert!(ended.stderr.contains("100 bytes in 1 blocks are definitely lost"), "{ended:#?}");
    let programs = [
        (4, "messages.c"),
        (2, "rules.c"),
        (2, "requests.c"),
        (2, "persistent.c"),
        (2, "probes.c"),
        (2, "buffered.c"),
        (1, "general.c"),
        (4, "groups.c"),
        (4, "communicators.c"),
        (3, "idup.c"),
        (2, "attributes.c"),
        (2, "names.c"),
        (2, "collectives.c"),
        (2, "later.c"),
        (2, "reductions.c"),
        (2, "operations.c"),
        (2, "datatypes.c"),
        (2, "layouts.c"),
        (2, "pack.c"),
        (2, "status.c"),
    ];
    for (ranks, file) in programs {
        let ended = checked_job(ranks, file).expect("it was there");
        // It may say that it does not know a call of the system, which harms nothing.
        assert!(ended.code == Some(0) && ended.stdout == "ok\n", "{file}: {ended:#?}");
    }
}

/// Ranks of the jobs in which collectives are tested: powers of two, others, and one alone.
const SIZES: [u32; 6] = [1, 2, 3, 4, 5, 8];

fn collectives_bring_what_they_must() {
    SIZES.iter().for_each(|&ranks| passes(&job(ranks, "collectives.c", &[])));
}

fn topologies_say_who_is_beside_whom() {
    [1, 2, 6].into_iter().for_each(|ranks| passes(&job(ranks, "topologies.c", &[])));
}

fn neighbours_exchange_what_they_must() {
    [1, 2, 3, 5].into_iter().for_each(|ranks| passes(&job(ranks, "neighbors.c", &[])));
}

fn random_collectives_bring_what_they_must() {
    for (ranks, seed) in [(1, "1"), (2, "2"), (2, "3"), (3, "4"), (4, "5"), (5, "6"), (8, "7")] {
        passes(&job(ranks, "random.c", &[seed, "3000"]));
    }
    passes(&job_with(4, "random.c", &["8", "500"], &[("BOWLINE_PROGRESS", "thread")]));
}

fn collectives_in_the_background_bring_what_they_must() {
    SIZES.iter().for_each(|&ranks| passes(&job(ranks, "later.c", &[])));
    [1, 3, 4].into_iter().for_each(|ranks| passes(&job(ranks, "large.c", &[])));
}

fn long_blocks_are_read_where_they_lie() {
    for ranks in [3, 8] {
        passes(&job(ranks, "reads.c", &["other-lengths"]));
    }
    // Where the system forbids it, all goes through slots.
    passes(&job_with(3, "reads.c", &["other-lengths"], &[("BOWLINE_SHM_CMA", "no")]));
    let ended = surviving_job(4, "reads.c", &["death"]);
    assert_eq!(ended.stdout, "ok\n", "{ended:#?}");
}

fn collectives_in_the_background_end_with_a_death() {
    for ranks in [2, 4] {
        let ended = surviving_job(ranks, "deserted.c", &[]);
        assert_eq!(ended.stdout, "ok\n", "{ended:#?}");
    }
}

fn what_is_pending_beside_a_failure_stays() {
    let ended = surviving_job(3, "pending.c", &[]);
    assert_eq!(ended.stdout, "ok\n", "{ended:#?}");
}

fn reductions_give_what_loops_give() {
    SIZES.iter().for_each(|&ranks| passes(&job(ranks, "reductions.c", &[])));
}

fn operations_know_their_types() {
    [1, 3].iter().for_each(|&ranks| passes(&job(ranks, "operations.c", &[])));
}

fn every_operation_on_every_type_by_every_reduction() {
    [1, 3].iter().for_each(|&ranks| passes(&job(ranks, "predefined.c", &[])));
}

fn datatypes_have_their_bounds_and_origins() {
    passes(&job(1, "datatypes.c", &[]));
}

fn packed_messages_are_unpacked() {
    passes(&job(1, "pack.c", &[]));
}

fn layouts_of_any_kind_travel() {
    passes(&job(2, "layouts.c", &[]));
}
