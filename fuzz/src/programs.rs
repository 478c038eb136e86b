//! What people write and ranks have recorded: programs of the simulator, tables of algorithms, and records of jobs.

use bowline_model::coll::tuned::Tuned;
use bowline_model::fennel::file;
use bowline_model::fennel::job::{BlockRow, Job, Lengths, RankRecord};
use bowline_model::fennel::machine::Machine;
use bowline_model::fennel::network::{Fixed, Pipelined};
use bowline_model::fennel::program::Program;
use bowline_model::fennel::source::{Stated, StepSource, Stopped, Walk};

fn run(program: &Program) {
    let mut machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
    match machine.run(program, &mut []) {
        Ok(time) => assert!(time >= 0.0, "{time}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A program file. What is read can be written, and is read the same again.
pub(crate) fn programs(bytes: &[u8]) {
    match file::read(bytes) {
        Ok(program) => {
            let written = file::write(&program).expect("what was read can be written");
            let again = file::read(written.as_bytes()).expect("what was written can be read");
            assert_eq!(again.tasks(), program.tasks());
            run(&program);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A table of algorithms. What is read is written and read the same again, and each cell is found.
pub(crate) fn tables(bytes: &[u8]) {
    match Tuned::parse(bytes) {
        Ok(table) => {
            let again = Tuned::parse(table.to_string().as_bytes());
            assert_eq!(again.as_ref(), Ok(&table));
            assert!(!table.of_job(8).of(4, 1).to_string().is_empty());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Records of ranks, one behind the other: each begins with its first line.
pub(crate) fn records(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parts: Vec<String> = Vec::new();
    for line in text.lines() {
        match parts.last_mut() {
            Some(last) if !line.starts_with("{\"format\"") => {
                last.push_str(line);
                last.push('\n');
            }
            _ => parts.push(format!("{line}\n")),
        }
    }
    let ranks: Result<Vec<_>, _> = parts.iter().map(|part| RankRecord::parse(part)).collect();
    let job = ranks.and_then(Job::new).and_then(|job| {
        assert!(job.time() >= 0.0 && job.counts().computing >= 0.0);
        // Collectives in which nobody does anything.
        job.program(&mut |call| {
            // What simulates calls takes this for granted.
            let complete = match &call.lengths {
                Lengths::Even => true,
                Lengths::Members(all) => all.len() == call.ranks as usize,
                Lengths::Pairs(rows) => {
                    rows.len() == call.ranks as usize
                        && rows.iter().all(|row| match row {
                            BlockRow::Same(_) => true,
                            BlockRow::Each(all) => all.len() == rows.len(),
                        })
                }
                other => panic!("this target does not know {other:?}"),
            };
            assert!(complete, "{:?}", call.lengths);
            let nothing = |_: &mut Walk<'_>, _| Ok::<(), Stopped>(());
            Ok(Box::new(Stated::new(call.ranks, nothing)) as Box<dyn StepSource>)
        })
    });
    match job {
        Ok(program) => run(&program),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
