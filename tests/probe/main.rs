//! The tests' program: `launch` is a launcher with a bare command line, everything else is a rank
//! that behaves in the way its first argument says. It is not installed and not documented.

mod liar;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use bowline_base::job::JobMemory;
use bowline_launch::bootstrap::{Bootstrap, Need, Route, bootstrap};
use bowline_launch::run::{Bind, Host, OnFailure, RunOptions, run};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let mode = args.next().unwrap_or_default();
    let args: Vec<OsString> = args.collect();
    match mode.to_str() {
        Some("launch") => launch(args),
        Some("agent") => match std::env::var("BOWLINE_TEST_LIE") {
            Ok(lie) => liar::serve(&lie),
            Err(_) => ExitCode::from(bowline_launch::agent::serve() as u8),
        },
        Some("join") => join(&args),
        Some("leave-quietly") => leave_quietly(),
        Some("die") => die(&args),
        Some("outlive") => outlive(&args),
        Some("babble") => babble(),
        Some("cpus") => cpus(),
        Some("which-cpus") => which_cpus(),
        Some("child") => child(),
        Some("late") => late(),
        Some("stay") => stay(),
        _ => {
            eprintln!("no such mode: {mode:?}");
            ExitCode::from(99)
        }
    }
}

fn launch(args: Vec<OsString>) -> ExitCode {
    let mut options = RunOptions::new(1, "");
    options.area_bytes = 4096;
    let mut args = args.into_iter();
    let text = |arg: Option<OsString>| arg.and_then(|a| a.into_string().ok()).unwrap_or_default();
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("-n") => options.ranks = text(args.next()).parse().unwrap_or(0),
            Some("--label") => options.label = true,
            Some("--continue") => options.on_failure = OnFailure::Continue,
            Some("--area") => options.area_bytes = text(args.next()).parse().unwrap_or(0),
            Some("--timeout") => {
                let millis = text(args.next()).parse().unwrap_or(0);
                options.timeout = Some(Duration::from_millis(millis));
            }
            Some("--grace") => {
                let millis = text(args.next()).parse().unwrap_or(0);
                options.grace = Duration::from_millis(millis);
            }
            Some("--hosts") => match Host::list(&text(args.next())) {
                Ok(hosts) => options.hosts = hosts,
                Err(error) => {
                    eprintln!("bowline: {error}");
                    return ExitCode::from(2);
                }
            },
            Some("--agent-command") => options.agent_command = text(args.next()),
            Some("--agent-program") => options.agent_program = args.next(),
            Some("--host-timeout") => {
                let millis = text(args.next()).parse().unwrap_or(0);
                options.host_timeout = Duration::from_millis(millis);
            }
            Some("--bind") => {
                options.bind = Some(match text(args.next()).as_str() {
                    "core" => Bind::Core,
                    _ => Bind::None,
                });
            }
            _ => {
                options.program = arg;
                options.args = args.by_ref().collect();
            }
        }
    }
    let code = match run(&options) {
        Ok(report) => report.code,
        Err(error) => {
            eprintln!("bowline: {error}");
            error.code()
        }
    };
    ExitCode::from(code as u8)
}

fn boot(route: Route) -> Result<Bootstrap, ExitCode> {
    let mut need = Need::area(4096);
    need.route = route;
    bootstrap(&need).map_err(|error| {
        eprintln!("rank: {error}");
        ExitCode::from(3)
    })
}

/// Exchanges long values and memory with everybody, and leaves in order.
fn join(args: &[OsString]) -> ExitCode {
    let route = match args.first().and_then(|a| a.to_str()) {
        Some("proc") => Route::Proc,
        Some("pidfd") => Route::Pidfd,
        Some("socket") => Route::Socket,
        _ => Route::Any,
    };
    let mut boot = match boot(route) {
        Ok(boot) => boot,
        Err(code) => return code,
    };
    let value = |rank: u32| vec![rank as u8 + 1; 3000 + rank as usize];
    boot.kvs.put(&format!("test-{}", boot.rank), &value(boot.rank)).expect("put");
    let area = boot.job.area(boot.local_rank).expect("own area");
    area.copy_in(&boot.instance.to_ne_bytes());
    boot.kvs.barrier().expect("barrier");
    for rank in 0..boot.size {
        assert_eq!(boot.kvs.get(&format!("test-{rank}")).expect("get"), value(rank));
    }
    for (local, rank) in (0..).zip(&boot.locals) {
        let identity = boot.job.control(local).and_then(|c| c.identity()).expect("attached");
        assert_eq!(identity.world_rank, *rank);
        let mut instance = [0; 8];
        boot.job.area(local).expect("area").copy_out(&mut instance);
        assert_eq!(u64::from_ne_bytes(instance), identity.instance);
    }
    // Everybody has the same secret; what is compared may be seen by others.
    let trace = boot.secret.iter().fold(0u64, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte));
    boot.kvs.put(&format!("trace-{}", boot.rank), &trace.to_ne_bytes()).expect("put");
    boot.kvs.barrier().expect("barrier");
    for rank in 0..boot.size {
        assert_eq!(boot.kvs.get(&format!("trace-{rank}")).expect("get"), trace.to_ne_bytes());
    }
    assert_ne!(boot.secret, [0; 32]);
    let watched = boot.death_watch.as_ref().map_or(0, |watch| watch.watched());
    boot.kvs.barrier().expect("barrier");
    println!(
        "rank {} of {} local {} of {} watches {watched} by {:?}",
        boot.rank, boot.size, boot.local_rank, boot.local_size, boot.started_by
    );
    boot.finalize().expect("finalize");
    ExitCode::SUCCESS
}

/// Ends with code 0 in the middle of the job.
fn leave_quietly() -> ExitCode {
    let boot = boot(Route::Any);
    std::mem::forget(boot);
    ExitCode::SUCCESS
}

/// One rank dies after everybody has joined; the others wait until they know.
fn die(args: &[OsString]) -> ExitCode {
    let victim: u32 = args[0].to_str().and_then(|a| a.parse().ok()).expect("a rank");
    let mut boot = match boot(Route::Any) {
        Ok(boot) => boot,
        Err(code) => return code,
    };
    // Hydra notifies the survivors by SIGUSR1, which would end them.
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    boot.kvs.barrier().expect("barrier");
    if boot.rank == victim {
        // SAFETY: raising a signal has no preconditions.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    let before = boot.job.death_generation();
    wait_for_death(&mut boot, victim);
    assert!(before == boot.job.death_generation() || before == 0);
    println!("rank {} knows that rank {victim} is dead", boot.rank);
    // The dead do not take part, so this must not hang.
    if boot.death_watch.is_none() {
        boot.kvs.barrier().expect("barrier");
    }
    boot.finalize().expect("finalize");
    ExitCode::SUCCESS
}

/// Returns when this rank knows that `victim` is dead.
fn wait_for_death(boot: &mut Bootstrap, victim: u32) {
    let here = boot.locals.iter().position(|rank| *rank == victim).map(|local| local as u32);
    let is_dead = |job: &JobMemory| match here {
        Some(local) => job.is_dead(local),
        None => job.dead_elsewhere().any(|rank| rank == victim),
    };
    while !is_dead(&boot.job) {
        std::thread::sleep(Duration::from_millis(2));
        if let Some(watch) = &mut boot.death_watch {
            watch.poll();
        }
    }
}

/// One rank waits to be ended from outside; the others wait until they know.
fn outlive(args: &[OsString]) -> ExitCode {
    let victim: u32 = args[0].to_str().and_then(|a| a.parse().ok()).expect("a rank");
    let mut boot = match boot(Route::Any) {
        Ok(boot) => boot,
        Err(code) => return code,
    };
    boot.kvs.barrier().expect("barrier");
    println!("ready");
    if boot.rank == victim {
        std::thread::sleep(Duration::from_secs(1000));
    }
    wait_for_death(&mut boot, victim);
    println!("rank {} knows that rank {victim} is dead", boot.rank);
    boot.kvs.barrier().expect("barrier");
    boot.finalize().expect("finalize");
    ExitCode::SUCCESS
}

/// Says to the process manager what is no request.
fn babble() -> ExitCode {
    use std::os::fd::FromRawFd;
    let fd = std::env::var("PMI_FD").ok().and_then(|fd| fd.parse().ok()).expect("PMI_FD");
    // SAFETY: the descriptor was inherited for this and nobody else owns it.
    let mut stream = unsafe { std::fs::File::from_raw_fd(fd) };
    stream.write_all(b"cmd=put \x00\xff\nmore\n").expect("write");
    std::thread::sleep(Duration::from_secs(1000));
    ExitCode::SUCCESS
}

/// Says how many processors it may use.
fn cpus() -> ExitCode {
    let set = rustix::thread::sched_getaffinity(None).expect("affinity");
    println!("{}", set.count());
    ExitCode::SUCCESS
}

/// Says which processors it may use.
fn which_cpus() -> ExitCode {
    let set = rustix::thread::sched_getaffinity(None).expect("affinity");
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    let cpus: Vec<String> = all.filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu.to_string()).collect();
    println!("{}", cpus.join(","));
    ExitCode::SUCCESS
}

/// A rank whose child believes that it is a rank too.
fn child() -> ExitCode {
    let boot = match boot(Route::Any) {
        Ok(boot) => boot,
        Err(code) => return code,
    };
    let own = std::env::current_exe().expect("own path");
    let status = std::process::Command::new(own).arg("join").status().expect("start");
    drop(boot);
    ExitCode::from(status.code().unwrap_or(98) as u8)
}

/// Rank 1 never joins, the others wait for it.
fn late() -> ExitCode {
    if std::env::var("PMI_RANK").as_deref() == Ok("1") {
        return ExitCode::SUCCESS;
    }
    join(&[])
}

/// Starts with few descriptors, takes nobody for dead meanwhile, and watches everybody as soon as there
/// are more.
fn stay() -> ExitCode {
    let mut boot = match boot(Route::Any) {
        Ok(boot) => boot,
        Err(code) => return code,
    };
    // SAFETY: ignoring a signal runs no code of ours; Hydra sends it to survivors.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    boot.kvs.barrier().expect("barrier");
    let poll = |boot: &mut Bootstrap| {
        let watch = boot.death_watch.as_mut().expect("no launcher of ours");
        watch.poll();
        watch.watched()
    };
    let starved = poll(&mut boot);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised)
        .expect("raise a soft limit");
    let all = boot.local_size as usize - 1;
    while poll(&mut boot) < all && boot.job.dead().next().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let watched = poll(&mut boot);
    boot.kvs.barrier().expect("barrier");
    let dead = boot.job.dead().count();
    println!("rank {}: {dead} dead, watches {watched}, at first {starved}", boot.rank);
    boot.finalize().expect("finalize");
    ExitCode::SUCCESS
}
