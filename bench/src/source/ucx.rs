//! UCX through its own `ucx_perftest`: a server on the first CPU and a client on the second.
//!
//! What it shows: for latency tests the median one-way latency of the run; for bandwidth tests
//! only the mean over the run (its percentile there is that of the posting loop), which stands in
//! for the median. It does not check payloads. Its "MB/s" are 2^20 bytes, so that bandwidth is
//! computed from the time per message here.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Measured, Role, Source};
use crate::BenchError;
use crate::command::{Launch, Running, shorten};
use crate::context::Context;
use crate::metric::{Metric, Sample, Test};
use crate::plan::{Comparison, Stage};
use crate::traffic::Meter;
use crate::venv::{Package, site_packages};

/// One build of UCX.
#[derive(Debug)]
struct Ucx {
    id: &'static str,
    what: Comparison,
    package: Option<Package>,
    program: PathBuf,
    libraries: Option<String>,
}

/// Debian's package and the wheel.
pub(super) fn all(what: Comparison) -> impl Iterator<Item = Box<dyn Source>> {
    let wheel = Package { name: "libucx-cu12", version: "1.22.0", dependencies: true };
    [("ucx-debian", None), ("ucx-wheel", Some(wheel))].into_iter().map(move |(id, package)| {
        let program = PathBuf::from("ucx_perftest");
        Box::new(Ucx { id, what, package, program, libraries: None }) as Box<dyn Source>
    })
}

impl Ucx {
    /// The transports it may use.
    fn transports(&self) -> &'static str {
        match self.what {
            Comparison::Networks => "self,tcp",
            _ => "self,sm",
        }
    }

    fn launch(&self, context: &Context, cpus: &[usize]) -> Launch {
        let mut launch = Launch::new(&self.program, context.time_limit)
            .env("UCX_TLS", self.transports())
            .env("UCX_WARN_UNUSED_ENV_VARS", "n")
            .cpus(cpus)
            .remedy("install UCX's tools (Debian: ucx-utils)");
        if let Some(libraries) = &self.libraries {
            launch = launch.env("LD_LIBRARY_PATH", libraries.as_str());
        }
        launch
    }

    fn figure(&self, context: &Context, metric: Metric) -> Result<Sample, BenchError> {
        let port = free_port()?;
        // A side with the words `more`; the server is the first side.
        let launch = |side: usize, more: Vec<String>| -> Result<Launch, BenchError> {
            let mut launch = self
                .launch(context, &context.cpus[side..=side])
                .args(["-p".to_owned(), port.to_string()])
                .args(more);
            if let Some(device) = metric.wire.device() {
                launch = launch.env("UCX_NET_DEVICES", device);
            }
            Ok(match context.hosts(metric.wire)? {
                Some(hosts) => hosts.on(side, launch),
                None => launch,
            })
        };
        let (address, tables) = match context.hosts(metric.wire)? {
            Some(hosts) => (hosts.addresses[0].as_str(), hosts.tcp_tables(0)),
            None => ("127.0.0.1", ["/proc/net/tcp", "/proc/net/tcp6"].map(str::to_owned)),
        };
        let meter = Meter::start(context, metric.wire)?;
        let mut server = launch(0, Vec::new())?.start()?;
        if !wait_for_listener(&mut server, port, &tables) {
            let remedy = match server.finish() {
                Ok(output) => shorten(&output.stdout, 200),
                Err(error) => error.to_string(),
            };
            return Err(BenchError::Missing { what: "a listening server".to_owned(), remedy });
        }
        let mut words = [address, "-f", "-v"].map(str::to_owned).to_vec();
        words.extend(test_arguments(metric, context.budget));
        let output = launch(1, words)?.run()?;
        if let Some(meter) = meter {
            let ways = if metric.window() > 1 { 1 } else { 2 };
            let messages = ways * metric.iterations(context.budget);
            meter.check("ucx_perftest", [(metric, messages)])?;
        }
        parse(&output.stdout, metric).ok_or_else(|| BenchError::NoFigure {
            program: "ucx_perftest".to_owned(),
            metric: metric.to_string(),
            output: shorten(output.stdout.trim(), 200),
        })
    }
}

impl Source for Ucx {
    fn id(&self) -> &'static str {
        self.id
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn prepare(&mut self, context: &Context) -> Result<String, BenchError> {
        let mut info = PathBuf::from("ucx_info");
        if let Some(package) = self.package {
            let packages = site_packages(&package.environment(context)?)?;
            let root = packages.join("libucx");
            self.program = root.join("bin/ucx_perftest");
            info = root.join("bin/ucx_info");
            // The executables carry no run path, and the wheel's other libraries lie beside it.
            self.libraries = Some(format!(
                "{}:{}",
                root.join("lib").display(),
                packages.join("libucx_cu12.libs").display()
            ));
        }
        let mut launch = self.launch(context, &context.cpus).args(["-v"]);
        launch.program = info;
        let output = launch.run()?;
        let version = output.stdout.lines().find(|line| line.contains("ersion"));
        let version = version.unwrap_or("UCX").trim_start_matches(['#', ' ']);
        Ok(format!("{version}; UCX_TLS={}", self.transports()))
    }

    fn offers(&self, metric: Metric) -> bool {
        name_of(metric.test).is_some()
    }

    fn measure(&self, context: &Context, _: Stage, metrics: &[Metric]) -> Measured {
        metrics.iter().map(|&metric| (metric, self.figure(context, metric))).collect()
    }
}

/// What `ucx_perftest` calls a test.
fn name_of(test: Test) -> Option<&'static str> {
    Some(match test {
        Test::PutLat => "ucp_put_lat",
        Test::PutBw => "ucp_put_bw",
        // One program for both; the window makes the difference.
        Test::GetLat | Test::GetBw => "ucp_get",
        Test::FaddLat => "ucp_fadd",
        Test::CswapLat => "ucp_cswap",
        Test::AmLat => "ucp_am_lat",
        Test::AmBw => "ucp_am_bw",
        Test::StreamLat => "stream_lat",
        Test::StreamBw => "stream_bw",
        Test::TagLat | Test::TagLateLat => "tag_lat",
        Test::TagRate | Test::TagBw | Test::TagLateBw => "tag_bw",
        _ => return None,
    })
}

/// Test name, size, window, iterations and warm-up. `ucx_perftest` wants iterations, not a time.
fn test_arguments(metric: Metric, budget: Duration) -> Vec<String> {
    let name = name_of(metric.test).unwrap_or_default();
    let iterations = metric.iterations(budget);
    let mut arguments: Vec<String> = ["-t", name, "-s"].map(str::to_owned).into();
    arguments.extend([metric.size.to_string(), "-n".to_owned(), iterations.to_string()]);
    arguments.extend(["-w".to_owned(), (iterations / 5).max(10).to_string()]);
    if matches!(metric.test, Test::TagLateLat | Test::TagLateBw) {
        // Receives wait for a probe to find the message.
        arguments.push("-U".to_owned());
    }
    // One at a time where each is waited for; round trips wait by themselves.
    let waited = matches!(metric.test, Test::GetLat | Test::FaddLat | Test::CswapLat);
    if metric.window() > 1 || waited {
        arguments.extend(["-O".to_owned(), metric.window().to_string()]);
    }
    arguments
}

/// The last data line of the CSV output: iterations, percentile, average and overall time in us.
fn parse(stdout: &str, metric: Metric) -> Option<Sample> {
    let line = stdout.lines().rev().find(|line| {
        line.trim_start().starts_with(|first: char| first.is_ascii_digit()) && line.contains(',')
    })?;
    let column = if metric.window() > 1 { 3 } else { 1 };
    let micros: f64 = line.split(',').nth(column)?.trim().parse().ok()?;
    (micros > 0.0).then(|| Sample::single(micros * 1e3))
}

/// A TCP port of the loopback interface that was free a moment ago.
fn free_port() -> Result<u16, BenchError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|source| BenchError::Start {
            program: "ucx_perftest".to_owned(),
            source,
            remedy: "a loopback TCP port is needed to bring its two sides together".to_owned(),
        })
}

/// Waits until somebody listens on `port`, by the `tables` of connections: connecting to find out would be taken for the client.
fn wait_for_listener(server: &mut Running, port: u16, tables: &[String]) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline && !server.has_ended() {
        let listens = tables
            .iter()
            .filter_map(|table| fs::read_to_string(table).ok())
            .any(|table| is_listening(&table, port));
        if listens {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Whether a row of `/proc/net/tcp` has this local port and the state LISTEN (0A).
fn is_listening(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().is_some_and(|local| local.ends_with(&suffix));
        local && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_lines_parse_by_kind_of_test() {
        let text = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,a,b\n\
                    \u{20}500,0.395,0.495,0.485,15.42,15.42,2021429,2021429\n";
        let parsed = |metric| parse(text, metric).map(|sample| sample.median_ns.round());
        assert_eq!(parsed(Metric::pair(Test::TagLat, 8)), Some(395.0));
        assert_eq!(parsed(Metric::pair(Test::TagBw, 8192)), Some(485.0));
        assert_eq!(parse("nothing", Metric::pair(Test::TagLat, 8)), None);
    }

    #[test]
    fn listeners_are_found_by_port_and_state() {
        let table =
            "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A x\n";
        assert!(is_listening(table, 8080));
        assert!(!is_listening(table, 8081));
        assert!(!is_listening(&table.replace(" 0A ", " 01 "), 8080));
    }

    #[test]
    fn windows_go_to_bandwidth_tests_only() {
        let budget = Duration::from_millis(100);
        let bw = test_arguments(Metric::pair(Test::TagBw, 4 << 20), budget);
        assert_eq!(bw[bw.len() - 2..], ["-O", "8"]);
        assert!(!test_arguments(Metric::pair(Test::TagLat, 8), budget).contains(&"-O".to_owned()));
    }
}
