//! Command lines of `mpirun` and `srun`.

use super::kind::MpiKind;

/// Parts of a command line.
pub(super) struct LaunchLine<'a> {
    pub(super) kind: MpiKind,
    /// `mpirun`, or the path of one.
    pub(super) program: &'a str,
    /// Hosts and the number of processes on each.
    pub(super) hosts: &'a [(String, usize)],
    /// Variables that processes of other hosts get.
    pub(super) variables: &'a [String],
    /// Options of the user.
    pub(super) args: &'a [String],
    /// `true` if the user is root.
    pub(super) is_root: bool,
    /// Program of each process, and its arguments.
    pub(super) member: &'a [String],
}

impl LaunchLine<'_> {
    /// Words of the command. The user's options come last, where they win.
    pub(super) fn words(&self) -> Vec<String> {
        let own = match self.kind {
            MpiKind::OpenMpi => self.open_mpi(),
            MpiKind::Hydra => self.hydra(),
            MpiKind::Srun => self.srun(),
        };
        [&[self.program.to_owned()], &*own, self.args, self.member].concat()
    }

    fn processes(&self) -> String {
        let all: usize = self.hosts.iter().map(|(_, count)| count).sum();
        all.to_string()
    }

    /// `a:2,b:1`.
    fn slots(&self) -> String {
        let slots = |(name, count): &(String, usize)| format!("{name}:{count}");
        let all: Vec<String> = self.hosts.iter().map(slots).collect();
        all.join(",")
    }

    fn open_mpi(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.is_root {
            // mpirun refuses to run as root otherwise.
            words.push("--allow-run-as-root".to_owned());
        }
        let (processes, slots) = (self.processes(), self.slots());
        let own = ["-np", &processes, "--host", &slots];
        let own = own
            .into_iter()
            .chain(["-bind-to", "none", "-map-by", "slot"]);
        words.extend(own.map(str::to_owned));
        for name in self.variables {
            words.extend(["-x".to_owned(), name.clone()]);
        }
        words
    }

    fn hydra(&self) -> Vec<String> {
        let (processes, slots) = (self.processes(), self.slots());
        let names = self.variables.join(",");
        ["-np", &processes, "-hosts", &slots, "-genvlist", &names]
            .map(str::to_owned)
            .to_vec()
    }

    /// Slurm places the processes in the order of a list in which a host stands once for each. They get all variables.
    fn srun(&self) -> Vec<String> {
        let all = self
            .hosts
            .iter()
            .flat_map(|(name, count)| std::iter::repeat_n(&**name, *count));
        let list: Vec<&str> = all.collect();
        [
            "--mpi=pmi2",
            &format!("--nodes={}", self.hosts.len()),
            &format!("--ntasks={}", self.processes()),
            "--distribution=arbitrary",
            &format!("--nodelist={}", list.join(",")),
            // The places say how many tasks a host has, not the number of cores that the job asked for.
            "--overcommit",
            "--overlap",
            "--cpu-bind=none",
            "--kill-on-bad-exit=1",
            "--quiet",
        ]
        .map(str::to_owned)
        .to_vec()
    }
}
