//! A distributed sample sort of the lines of a file.
//!
//! ```text
//!   read own range ─► sort ─► samples of all ─► exchange lines ─► merge ─► write own part
//! ```
//! The result is what `LC_ALL=C sort` gives: lines in order of their bytes, every line ended by a
//! newline. A rank holds its share of the file once, twice during the exchange.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bowline::mpi::{Sum, World};

use super::{Ranks, lines, parts, progress, sample};
use crate::start::{RankResult, together};

/// Samples that each rank takes for every rank of the job.
const OVERSAMPLING: u64 = 32;

/// Sort the lines of a file, as `LC_ALL=C sort` does.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  bowline demo sort examples/data/words.txt -n 4 --output sorted.txt")]
pub(crate) struct Args {
    /// The file; any bytes.
    file: PathBuf,
    /// Where the sorted lines go. May be FILE itself.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    pub(super) ranks: Ranks,
}

impl Args {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let file = File::open(&self.file).with_context(|| cannot("read", &self.file))?;
        if !file.metadata()?.is_file() {
            bail!("{}: it is not a regular file", cannot("read", &self.file));
        }
        match fs::metadata(&self.output) {
            Ok(known) if !known.is_file() => {
                bail!("{}: it is not a regular file", cannot("write", &self.output))
            }
            _ => Ok(()),
        }
    }
}

fn cannot(act: &str, path: &Path) -> String {
    format!("cannot {act} {}", path.display())
}

/// The work of one rank.
pub(super) fn sort(world: &World, args: &Args) -> RankResult {
    let (rank, ranks) = (world.rank() as u32, world.size() as u32);
    let size = fs::metadata(&args.file).map_or(0, |file| file.len());
    let bar = progress::bar(world, "reading", size / u64::from(ranks), true);
    let text = lines::read_part(&args.file, rank.into(), ranks.into(), |bytes| bar.inc(bytes));
    let text = together(world, text.with_context(|| cannot("read", &args.file)))?;

    bar.set_message("sorting");
    let mut sorted: Vec<&[u8]> = lines::lines(&text).collect();
    sorted.sort_unstable();
    let (outgoing, counts) = divide(world, &sorted, text.len() as u64)?;
    drop(sorted);
    drop(text);

    bar.set_message("exchanging");
    let (incoming, counts) = parts::exchange(world, &outgoing, &counts)?;
    drop(outgoing);
    bar.finish_and_clear();
    write(world, args, &incoming, &counts)
}

/// Cuts this rank's sorted lines into one share for each rank: the lines' bytes and the length
/// of each share.
fn divide(world: &World, sorted: &[&[u8]], bytes: u64) -> RankResult<(Vec<u8>, Vec<usize>)> {
    let (rank, ranks) = (world.rank() as u32, world.size() as usize);
    let mut total = [0];
    world.allreduce(&[bytes], &mut total, Sum)?;
    let stride = (total[0] / (OVERSAMPLING * (ranks * ranks) as u64)).max(1);
    let mine = sample::pack(&sample::samples(sorted, rank, stride));
    let all = parts::collect_all(world, &mine)?;
    let mut all = sample::unpack(&all).context("another rank sent damaged samples")?;

    let mut outgoing = Vec::with_capacity(bytes as usize);
    let mut counts = Vec::with_capacity(ranks);
    let mut begin = 0;
    for end in sample::shares(sorted, rank, &mut all, ranks) {
        let before = outgoing.len();
        for line in &sorted[begin..end] {
            outgoing.extend_from_slice(line);
            outgoing.push(b'\n');
        }
        counts.push(outgoing.len() - before);
        begin = end;
    }
    Ok((outgoing, counts))
}

/// Writes the merged lines of this rank behind those of the lower ranks. The output appears under
/// its name when it is whole.
fn write(world: &World, args: &Args, incoming: &[u8], counts: &[usize]) -> RankResult {
    let mut sizes = vec![0; world.size() as usize];
    world.allgather(&[incoming.len() as u64], &mut sizes)?;
    let mut creator = [std::process::id()];
    world.bcast(&mut creator, 0)?;
    let own = world.rank() as usize;
    let output = fs::canonicalize(&args.output).unwrap_or_else(|_| args.output.clone());
    let mut partial = output.clone().into_os_string();
    partial.push(format!(".partial-{}", creator[0]));
    let partial = PathBuf::from(partial);

    let created = if own == 0 { create(&partial, sizes.iter().sum()) } else { Ok(()) };
    together(world, created.with_context(|| cannot("write", &args.output)))?;
    let bar = progress::bar(world, "writing", incoming.len() as u64, true);
    let before: u64 = sizes[..own].iter().sum();
    let starts = parts::starts(counts);
    let runs = starts.iter().zip(counts).map(|(start, count)| &incoming[*start..start + count]);
    let written = open_at(&partial, before).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        sample::merge(runs, &mut out, |bytes| bar.inc(bytes))?;
        out.flush()
    });
    bar.finish_and_clear();
    let written = together(world, written.with_context(|| cannot("write", &args.output)));
    if own == 0 {
        if written.is_err() {
            // What went wrong has been reported; the remains are not the user's business.
            let _ = fs::remove_file(&partial);
        } else {
            fs::rename(&partial, &output).with_context(|| cannot("write", &args.output))?;
        }
    }
    written
}

fn create(path: &Path, length: u64) -> std::io::Result<()> {
    File::create(path)?.set_len(length)
}

fn open_at(path: &Path, position: u64) -> std::io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.seek(SeekFrom::Start(position))?;
    Ok(file)
}
