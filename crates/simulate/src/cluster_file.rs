//! Cluster files: TOML, with the units in the names of the keys.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use crate::cluster::{Barrier, Cluster, DeviceSpeed, HostSpeed, LinkSpeed, ServerHosts};
use crate::error::{Result, SimulateError};

/// Maximum size of a file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterTable {
    name: String,
    hosts: Option<Spanned<i64>>,
    #[serde(default)]
    servers: Servers,
    #[serde(default)]
    barrier: BarrierName,
    straggling_percent: Option<Spanned<f64>>,
    device: DeviceTable,
    host: HostTable,
    network: LinkTable,
    local: Option<LinkTable>,
    input: Option<InputTable>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Servers {
    #[default]
    BesideWorkers,
    OwnHosts,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum BarrierName {
    None,
    #[default]
    Turns,
    Tokens,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DeviceKind {
    Gpu,
    Cpu,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceTable {
    kind: DeviceKind,
    per_worker: Option<Spanned<i64>>,
    gflops: Spanned<f64>,
    gbytes_per_second: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTable {
    gbytes_per_second: Spanned<f64>,
    copy_gbytes_per_second: Option<Spanned<f64>>,
    tasks_at_full_speed: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    latency_us: Spanned<f64>,
    gbits_per_second: Spanned<f64>,
    call_us: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputTable {
    images_per_second: Spanned<f64>,
}

/// Bandwidth between tasks of one host without the table `local`, in bytes a second.
const LOCAL_BANDWIDTH: f64 = 10e9;
/// Bandwidth between a host and its GPUs without `copy_gbytes_per_second`, in bytes a second.
const COPY_BANDWIDTH: f64 = 10e9;

/// Clusters of the report, with the constants that its measurements on up to 16 GPUs give, and one of CPUs.
const NAMED: [(&str, &str); 4] = [
    ("daint", include_str!("../clusters/daint.toml")),
    ("p2.xlarge", include_str!("../clusters/p2_xlarge.toml")),
    ("p2.8xlarge", include_str!("../clusters/p2_8xlarge.toml")),
    ("xeon-32x40", include_str!("../clusters/xeon_32x40.toml")),
];

impl Cluster {
    /// Cluster by its name: `daint`, `p2.xlarge`, `p2.8xlarge` of the report; `xeon-32x40`, 32 hosts of 40 cores.
    pub fn named(name: &str) -> Option<Cluster> {
        let (name, text) = NAMED.iter().find(|(known, _)| *known == name)?;
        Cluster::parse(text, name).ok()
    }

    /// Reads a cluster file.
    ///
    /// # Errors
    /// [`SimulateError::Read`]; [`SimulateError::File`] with the line of a mistake.
    pub fn read(path: &Path) -> Result<Cluster> {
        let failed = |source| SimulateError::Read {
            path: path.to_owned(),
            source,
        };
        let size = fs::metadata(path).map_err(failed)?.len();
        if size > MAX_BYTES {
            let text = format!("it has {size} bytes; a cluster file has {MAX_BYTES} at most");
            return Err(failed(std::io::Error::other(text)));
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        Cluster::parse(&text, &path.display().to_string())
    }

    /// Parses the text of a cluster file; `origin` names it in errors.
    ///
    /// # Errors
    /// [`SimulateError::File`].
    ///
    /// ```
    /// use thalweg_simulate::Cluster;
    ///
    /// let text = r#"
    ///     name = "eight workstations"
    ///     device = { kind = "gpu", gflops = 5000, gbytes_per_second = 400 }
    ///     host = { gbytes_per_second = 8 }
    ///     network = { latency_us = 30, gbits_per_second = 10 }
    /// "#;
    /// let cluster = Cluster::parse(text, "cluster.toml")?;
    /// assert_eq!(cluster.network.bandwidth, 1.25e9);
    ///
    /// let wrong = text.replace("= 10 }", "= -10 }");
    /// let error = Cluster::parse(&wrong, "cluster.toml").unwrap_err();
    /// assert_eq!(error.to_string(), "cluster.toml, line 5: network.gbits_per_second is -10: give a number above 0");
    /// # Ok::<(), thalweg_simulate::SimulateError>(())
    /// ```
    pub fn parse(text: &str, origin: &str) -> Result<Cluster> {
        let source = Source { text, origin };
        let table: ClusterTable = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            source.error(at, e.message().to_owned())
        })?;
        let device = &table.device;
        let per_worker = source.count("device.per_worker", device.per_worker.as_ref())?;
        let host = &table.host;
        let positive = |name, value: &Option<Spanned<f64>>, default| match value {
            Some(value) => source.positive(name, value),
            None => Ok(default),
        };
        let local = match &table.local {
            Some(local) => source.link("local", local)?,
            None => LinkSpeed {
                latency: 0.0,
                bandwidth: LOCAL_BANDWIDTH,
                call: 0.0,
            },
        };
        let input = match &table.input {
            Some(input) => {
                Some(source.positive("input.images_per_second", &input.images_per_second)?)
            }
            None => None,
        };
        let straggling = match &table.straggling_percent {
            Some(percent) => source.within("straggling_percent", percent, 100.0)? / 100.0,
            None => 0.0,
        };
        Ok(Cluster {
            hosts: source.count("hosts", table.hosts.as_ref())?,
            servers: match table.servers {
                Servers::BesideWorkers => ServerHosts::Workers,
                Servers::OwnHosts => ServerHosts::Own,
            },
            device: DeviceSpeed {
                gpu: matches!(device.kind, DeviceKind::Gpu),
                per_worker: per_worker.unwrap_or(1),
                flops: 1e9 * source.positive("device.gflops", &device.gflops)?,
                bandwidth: 1e9
                    * source.positive("device.gbytes_per_second", &device.gbytes_per_second)?,
            },
            host: HostSpeed {
                bandwidth: 1e9
                    * source.positive("host.gbytes_per_second", &host.gbytes_per_second)?,
                copy_bandwidth: 1e9
                    * positive(
                        "host.copy_gbytes_per_second",
                        &host.copy_gbytes_per_second,
                        COPY_BANDWIDTH / 1e9,
                    )?,
                tasks_at_full_speed: positive(
                    "host.tasks_at_full_speed",
                    &host.tasks_at_full_speed,
                    1.0,
                )?,
            },
            network: source.link("network", &table.network)?,
            local,
            barrier: match table.barrier {
                BarrierName::None => Barrier::None,
                BarrierName::Turns => Barrier::Turns,
                BarrierName::Tokens => Barrier::Tokens,
            },
            straggling,
            input,
            name: table.name,
        })
    }
}

impl Cluster {
    /// Text of a cluster file.
    ///
    /// ```
    /// use thalweg_simulate::Cluster;
    ///
    /// let cluster = Cluster::named("p2.8xlarge").expect("a known cluster");
    /// let text = cluster.to_toml();
    /// assert_eq!(Cluster::parse(&text, "text").expect("a cluster").to_toml(), text);
    /// ```
    pub fn to_toml(&self) -> String {
        // A JSON string is one of TOML too.
        let name = serde_json::Value::from(self.name.as_str());
        let hosts = self
            .hosts
            .map_or(String::new(), |n| format!("hosts = {n}\n"));
        let servers = match self.servers {
            ServerHosts::Workers => "beside-workers",
            ServerHosts::Own => "own-hosts",
        };
        let barrier = match self.barrier {
            Barrier::None => "none",
            Barrier::Turns => "turns",
            Barrier::Tokens => "tokens",
        };
        let (device, host) = (&self.device, &self.host);
        let kind = if device.gpu { "gpu" } else { "cpu" };
        let link = |name: &str, link: &LinkSpeed| {
            format!(
                "\n[{name}]\nlatency_us = {}\ngbits_per_second = {}\ncall_us = {}\n",
                rounded(link.latency * 1e6),
                rounded(link.bandwidth * 8.0 / 1e9),
                rounded(link.call * 1e6)
            )
        };
        let input = self.input.map_or(String::new(), |rate| {
            format!("\n[input]\nimages_per_second = {}\n", rounded(rate))
        });
        format!(
            "name = {name}\n{hosts}servers = \"{servers}\"\nbarrier = \"{barrier}\"\nstraggling_percent = {}\n\n\
             [device]\nkind = \"{kind}\"\nper_worker = {}\ngflops = {}\ngbytes_per_second = {}\n\n\
             [host]\ngbytes_per_second = {}\ncopy_gbytes_per_second = {}\ntasks_at_full_speed = {}\n{}{}{input}",
            rounded(100.0 * self.straggling),
            device.per_worker,
            rounded(device.flops / 1e9),
            rounded(device.bandwidth / 1e9),
            rounded(host.bandwidth / 1e9),
            rounded(host.copy_bandwidth / 1e9),
            rounded(host.tasks_at_full_speed),
            link("network", &self.network),
            link("local", &self.local),
        )
    }
}

/// Number with four significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Text of a file, for the lines of mistakes.
struct Source<'a> {
    text: &'a str,
    origin: &'a str,
}

impl Source<'_> {
    /// Largest number that a file may have: no speed is near it, and products of two stay finite.
    const MAX: f64 = 1e12;

    fn error(&self, at: usize, reason: String) -> SimulateError {
        let before = self.text.as_bytes().iter().take(at);
        SimulateError::File {
            origin: self.origin.to_owned(),
            line: 1 + before.filter(|b| **b == b'\n').count(),
            reason,
        }
    }

    fn positive(&self, name: &str, value: &Spanned<f64>) -> Result<f64> {
        let number = *value.get_ref();
        if number > 0.0 && number <= Self::MAX {
            return Ok(number);
        }
        let range = match number > 0.0 {
            true => format!("{:e} or less", Self::MAX),
            false => "above 0".to_owned(),
        };
        let reason = format!("{name} is {number}: give a number {range}");
        Err(self.error(value.span().start, reason))
    }

    fn within(&self, name: &str, value: &Spanned<f64>, most: f64) -> Result<f64> {
        let number = *value.get_ref();
        if (0.0..=most).contains(&number) {
            return Ok(number);
        }
        let reason = format!("{name} is {number}: give a number from 0 to {most}");
        Err(self.error(value.span().start, reason))
    }

    fn count(&self, name: &str, value: Option<&Spanned<i64>>) -> Result<Option<u32>> {
        const MOST: u32 = 100_000;
        let Some(value) = value else {
            return Ok(None);
        };
        let number = *value.get_ref();
        match u32::try_from(number) {
            Ok(count) if (1..=MOST).contains(&count) => Ok(Some(count)),
            _ => {
                let reason = format!("{name} is {number}: give a number from 1 to {MOST}");
                Err(self.error(value.span().start, reason))
            }
        }
    }

    fn link(&self, name: &str, link: &LinkTable) -> Result<LinkSpeed> {
        const MINUTE_US: f64 = 60e6;
        let latency = self.within(&format!("{name}.latency_us"), &link.latency_us, MINUTE_US)?;
        let gbits = self.positive(&format!("{name}.gbits_per_second"), &link.gbits_per_second)?;
        let call = match &link.call_us {
            Some(call) => self.within(&format!("{name}.call_us"), call, MINUTE_US)?,
            None => 0.0,
        };
        Ok(LinkSpeed {
            latency: latency * 1e-6,
            bandwidth: gbits * 1e9 / 8.0,
            call: call * 1e-6,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../clusters/daint.toml");

    #[test]
    fn named_clusters_are_read() {
        for (name, _) in NAMED {
            assert!(Cluster::named(name).is_some(), "{name}");
        }
        assert!(Cluster::named("unknown").is_none());
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let line = |found: &str| 1 + TEXT.lines().position(|l| l.starts_with(found)).unwrap();
        let change = |from: &str, to: &str| {
            let old = TEXT.lines().nth(line(from) - 1).unwrap();
            Cluster::parse(&TEXT.replacen(old, to, 1), "file")
                .unwrap_err()
                .to_string()
        };
        for (from, to, text) in [
            (
                "gflops",
                "gflops = 0",
                "device.gflops is 0: give a number above 0",
            ),
            (
                "gflops",
                "gflops = nan",
                "device.gflops is NaN: give a number above 0",
            ),
            (
                "gflops",
                "gflops = inf",
                "device.gflops is inf: give a number 1e12 or less",
            ),
            ("gflops", "gflops = 'many'", "invalid type: string"),
            (
                "latency_us",
                "latency_us = -3",
                "network.latency_us is -3: give a number from 0",
            ),
            (
                "straggling",
                "straggling_percent = 101",
                "give a number from 0 to 100",
            ),
            ("barrier", "barrier = 'wall'", "unknown variant `wall`"),
            (
                "kind",
                "kind = 'gpu'\nper_worker = 0",
                "device.per_worker is 0",
            ),
            ("kind", "kind = 'gpu'\nspeed = 1", "unknown field `speed`"),
        ] {
            let error = change(from, to);
            let last = line(from) + to.matches('\n').count();
            assert!(
                error.starts_with(&format!("file, line {last}: ")),
                "{error}"
            );
            assert!(error.contains(text), "{error}");
        }
        let missing = Cluster::parse("name = 'x'", "file")
            .unwrap_err()
            .to_string();
        assert!(missing.contains("missing field `device`"), "{missing}");
    }
}
