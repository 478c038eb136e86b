//! The tests by name, and what is fixed about each: how it counts, on which layer it stands, which
//! payloads it carries.

use clap::ValueEnum;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Test {
    /// Two cache lines, one per direction, each written by one side and polled by the other.
    RawLat,
    /// Copies into and out of shared memory.
    RawBw,
    /// Active messages on the bare transport.
    UctLat,
    /// Active messages.
    AmLat,
    /// Active messages, in windows.
    AmBw,
    /// Bytes of a stream, each message received whole.
    StreamLat,
    /// The same, in windows.
    StreamBw,
    /// Puts into memory that the target polls.
    PutLat,
    /// Puts, in windows.
    PutBw,
    /// Gets.
    GetLat,
    /// Gets, in windows.
    GetBw,
    /// Atomic fetch-and-add.
    FaddLat,
    /// Atomic compare-and-swap.
    CswapLat,
    /// Tagged messages.
    TagLat,
    /// Tagged messages, in windows.
    TagBw,
    /// Short tagged messages, in windows.
    TagRate,
    /// Tagged messages whose receives are posted before they are sent.
    TagPostedLat,
    /// The same, in windows.
    TagPostedBw,
    /// Tagged messages that are received when they have come.
    TagLateLat,
    /// The same, in windows.
    TagLateBw,
    /// MPI send and receive.
    MpiLat,
    /// MPI nonblocking sends and receives, in windows.
    MpiBw,
    /// MPI send, and a receive when a probe has found the message.
    MpiLateLat,
    /// The same with nonblocking sends, in windows.
    MpiLateBw,
    /// Short MPI messages, in windows.
    MpiRate,
    /// MPI barrier.
    Barrier,
    /// MPI allreduce: a sum of 64-bit integers.
    Allreduce,
    /// MPI broadcast from one rank after the other.
    Bcast,
    /// MPI reduction of 64-bit integers to one rank after the other.
    Reduce,
    /// MPI allgather; the size is that of one rank's block.
    Allgather,
    /// MPI alltoall; the size is that of one block.
    Alltoall,
    /// From the start of a job to its end, with init and finalize between.
    Init,
    /// A rank is killed while the others receive from it: until the last one has its error.
    DeathRecv,
    /// The same while they are in a barrier.
    DeathBarrier,
    /// The same while they are in an allreduce.
    DeathAllreduce,
    /// The same while they fetch a message of 64 MiB from it.
    DeathBulk,
    /// The same when they have waited so long that they sleep.
    DeathAsleep,
}

/// How a test counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Round trips, or operations of two ranks.
    Latency,
    /// Windows of messages.
    Windows,
    /// Operations of all ranks.
    Collective,
    /// Whole jobs.
    Jobs,
    /// Deaths, each in a job of its own.
    Deaths,
}

/// On which layer a test stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Memory, a transport, or the protocol engine.
    Below,
    /// MPI.
    Mpi,
    /// The launcher.
    Launcher,
}

/// The layer and transport that messages take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// Memory shared between ranks.
    Shm,
    /// TCP, over loopback where the ranks are on one host.
    Tcp,
    /// libfabric, by the provider that `BOWLINE_OFI_PROVIDER` names; in builds that have it.
    Ofi,
    /// RDMA devices, in builds that have them.
    Verbs,
    /// The queue of a rank to itself.
    #[value(name = "self")]
    Itself,
}

/// The name of a value on the command line.
pub(crate) fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Test {
    /// How the test counts.
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::RawBw | Self::AmBw | Self::PutBw | Self::GetBw => Kind::Windows,
            Self::StreamBw | Self::TagPostedBw | Self::TagLateBw | Self::MpiLateBw => Kind::Windows,
            Self::TagBw | Self::TagRate | Self::MpiBw | Self::MpiRate => Kind::Windows,
            Self::Barrier | Self::Allreduce | Self::Bcast | Self::Alltoall => Kind::Collective,
            Self::Reduce | Self::Allgather => Kind::Collective,
            Self::Init => Kind::Jobs,
            Self::DeathRecv | Self::DeathBarrier | Self::DeathAllreduce => Kind::Deaths,
            Self::DeathBulk | Self::DeathAsleep => Kind::Deaths,
            _ => Kind::Latency,
        }
    }

    /// On which layer it stands.
    pub(crate) const fn layer(self) -> Layer {
        match self {
            Self::MpiLat | Self::MpiBw | Self::MpiRate => Layer::Mpi,
            Self::MpiLateLat | Self::MpiLateBw => Layer::Mpi,
            Self::Barrier | Self::Allreduce | Self::Bcast | Self::Alltoall => Layer::Mpi,
            Self::Reduce | Self::Allgather => Layer::Mpi,
            _ => match self.kind() {
                Kind::Jobs | Kind::Deaths => Layer::Launcher,
                _ => Layer::Below,
            },
        }
    }

    /// Whether windows of short messages are sent before the one before is answered, as programs of
    /// `ucp`'s peers do; those of MPI's wait.
    pub(crate) const fn runs_ahead(self) -> bool {
        matches!(self, Self::TagBw | Self::TagRate | Self::AmBw | Self::StreamBw)
    }

    /// Whether no receive is started before its message has come.
    pub(crate) const fn receives_late(self) -> bool {
        matches!(self, Self::TagLateLat | Self::TagLateBw | Self::MpiLateLat | Self::MpiLateBw)
    }

    /// Whether memory is measured that ranks share, without any transport.
    pub(crate) const fn is_bare_memory(self) -> bool {
        matches!(self, Self::RawLat | Self::RawBw)
    }

    /// Whether there is no payload to choose.
    const fn carries_nothing(self) -> bool {
        matches!(self, Self::Barrier) || matches!(self.kind(), Kind::Jobs | Kind::Deaths)
    }

    /// The payload where nobody says anything, bytes.
    pub(crate) const fn default_size(self) -> usize {
        match self {
            _ if self.carries_nothing() => 0,
            Self::RawBw | Self::AmBw | Self::StreamBw | Self::PutBw => 1 << 20,
            Self::GetBw | Self::TagBw | Self::TagPostedBw | Self::MpiBw => 1 << 20,
            Self::TagLateBw | Self::MpiLateBw => 1 << 20,
            _ => 8,
        }
    }

    /// Whether one rank can play both sides.
    pub(crate) const fn works_alone(self) -> bool {
        matches!(self, Self::UctLat | Self::AmLat | Self::StreamLat | Self::TagLat | Self::MpiLat)
    }

    /// What is wrong with a payload of `size` bytes, if anything.
    pub(crate) fn refuse_size(self, size: usize) -> Option<&'static str> {
        match self {
            Self::RawLat | Self::FaddLat | Self::CswapLat if size != 8 => {
                Some("works on one word: 8 is the only size")
            }
            _ if self.carries_nothing() && size != 0 => Some("has no payload: 0 is the only size"),
            Self::Allreduce | Self::Reduce if size == 0 || !size.is_multiple_of(8) => {
                Some("adds 64-bit integers: sizes are multiples of 8")
            }
            Self::PutLat if size < 8 => Some("polls a word: sizes begin with 8"),
            Self::StreamLat | Self::StreamBw if size == 0 => {
                Some("has no message of nothing in a stream: sizes begin with 1")
            }
            Self::RawBw | Self::PutBw | Self::GetBw | Self::GetLat if size == 0 => {
                Some("needs something to move: sizes begin with 1")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        assert_eq!(name_of(&Test::RawLat), "raw_lat");
        assert_eq!(name_of(&Transport::Itself), "self");
    }

    #[test]
    fn every_test_accepts_its_default_size() {
        for test in Test::value_variants() {
            assert_eq!(test.refuse_size(test.default_size()), None, "{}", name_of(test));
        }
    }
}
