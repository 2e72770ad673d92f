//! TensorFlow clients whose masters are tasks of a cluster: clients, masters and parameter servers crash, and clients
//! disconnect during any call. Their resources are freed after their lease, and each gradient is applied at most
//! once.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_tensor::BUFFER_OVERHEAD;

use tokio::time::sleep;
use tonic::Code;

use super::calls::{Answer, Calls, Trouble};
use super::clients::{MOST, SimulatedClient};
use super::faults::{END, Faults, SeededRandom};
use super::ledger::Ledger;
use super::network::Connections;
use super::world::{Hardship, TIMEOUTS, World};
use crate::limits::server_limits::Limits;

/// Time until which containers may be cleared.
const RESETS: Duration = Duration::from_secs(7);
/// Time from which on all effects of faults are over, including a late reset.
const CALM: Duration = Duration::from_secs(END.as_secs() + 5);
/// Time at which every client has to have finished.
const LATEST: Duration = Duration::from_secs(CALM.as_secs() + 45);
/// Number of gradients that a client has to give after that time.
const ENOUGH: usize = 8;
/// Pause of a client between two calls.
const THINKS: Duration = Duration::from_millis(120);
/// Idle time of a connection, and lease of a disconnected client's sessions.
const IDLE: Duration = Duration::from_secs(6);
const LEASE: Duration = Duration::from_secs(2);

struct Setting {
    world: Arc<World>,
    ledgers: Mutex<Vec<Ledger>>,
    /// The devices that the variables are on.
    homes: Vec<String>,
    masters: u32,
}

fn limits(numbers: &mut SeededRandom) -> Limits {
    let few = numbers.below(2) == 0;
    let mut limits = Limits {
        lease: LEASE,
        idle: IDLE,
        arrival: Duration::from_secs(3),
        steps: if few { 4 } else { 64 },
        ..Limits::default()
    };
    if few {
        limits.client_sessions = 2;
    }
    limits
}

pub(super) fn scenario(seed: u64) -> Result<String, String> {
    let mut numbers = SeededRandom::new(seed);
    let (servers, clients) = (numbers.below(3) as u32, 1 + numbers.below(3) as u32);
    let masters = 1 + numbers.below(2) as u32;
    let hardship = Hardship {
        others: match numbers.below(3) {
            0 => 4 + numbers.below(4) as usize,
            _ => usize::MAX,
        },
        ..Hardship::default()
    };
    let limits = limits(&mut numbers);
    let steps = limits.steps;
    let world = World::limited(seed, servers, masters, hardship, limits);
    world.note(format!(
        "{servers} servers, {masters} masters, {clients} clients, {steps} steps, {hardship:?}"
    ));
    let homes = match servers {
        0 => vec!["/job:worker/task:0".to_owned()],
        n => (0..n).map(|i| format!("/job:ps/task:{i}")).collect(),
    };
    let ledgers = (0..clients).map(|_| Ledger::default()).collect();
    let setting = Arc::new(Setting {
        world: world.clone(),
        ledgers: Mutex::new(ledgers),
        homes,
        masters,
    });
    let mut sim = super::world::simulation(seed, &mut numbers);
    let mut hosts = Vec::new();
    for (job, count) in [("ps", servers), ("worker", masters)] {
        for index in 0..count {
            hosts.push(format!("{job}{index}"));
            let world = world.clone();
            sim.host(format!("{job}{index}"), move || {
                let world = world.clone();
                async move {
                    let _task = world.start(job, index).await?;
                    std::future::pending().await
                }
            });
        }
    }
    for index in 0..clients {
        hosts.push(format!("client{index}"));
        let setting = setting.clone();
        sim.host(format!("client{index}"), move || {
            let setting = setting.clone();
            async move { Ok(work(&setting, index).await?) }
        });
    }
    let monitored = setting.clone();
    sim.client(
        "watcher",
        async move { Ok(watch(&monitored, clients).await?) },
    );
    let done = Faults::new(&mut numbers, &hosts, &hosts).run(&mut sim, &world);
    done.map_err(|e| format!("{e}\n{}", world.noted()))?;
    Ok(world.noted())
}

/// Waits until all have ended, and for their leases, and checks for leftovers.
async fn watch(setting: &Setting, clients: u32) -> Result<(), String> {
    while !setting.ledgers.lock().unwrap().iter().all(|l| l.ended) {
        sleep(Duration::from_millis(100)).await;
        if turmoil::sim_elapsed().unwrap_or_default() > LATEST {
            return Err("a client has made no way since the faults are over".to_owned());
        }
    }
    // A client without network is detected when its connection is idle, and those of its master are idle after that.
    sleep(IDLE * 2 + LEASE + TIMEOUTS.heartbeat * 4).await;
    let world = &setting.world;
    let bytes = clients as usize * (MOST * 4 + BUFFER_OVERHEAD);
    let on_masters = setting.homes[0].starts_with("/job:worker");
    world.left("worker")?;
    world.left("ps")?;
    world.held("ps", |_| bytes)?;
    world.held("worker", |index| match on_masters && index == 0 {
        true => bytes,
        false => 0,
    })
}

/// Body of a client.
async fn work(setting: &Setting, index: u32) -> Result<(), String> {
    if setting.ledgers.lock().unwrap()[index as usize].ended {
        return Ok(());
    }
    let world = &setting.world;
    let name = format!("client{index}");
    let connections = world.connections(&name);
    let numbers = SeededRandom::new(world.number());
    let calls = Calls::connect(world, &connections, &name, "worker0")?;
    let mut program =
        SimulatedClient::new(calls, numbers, index, (&setting.homes, setting.masters))?;
    program.go()?;
    let mut client = Working {
        setting,
        index,
        program,
    };
    let mut since_calm = 0;
    while since_calm < ENOUGH {
        let calm = turmoil::sim_elapsed().unwrap_or_default() > CALM;
        let id = client.next()?;
        let action = match calm {
            true => client.program.numbers.below(6),
            false => client.program.numbers.below(20),
        };
        world.note(format!("{name} does {action} with {id}"));
        match client.act(action, id).await {
            Ok(true) => {
                client.book(|l| l.applied.push(id));
                since_calm += usize::from(calm);
            }
            Ok(false) => {}
            Err(Trouble::Wrong(why)) => return Err(why),
            Err(Trouble::Fault(code, _)) => client.failed(code).await?,
        }
        if !calm && client.program.numbers.below(16) == 0 {
            client.program.go()?;
        }
        sleep(THINKS).await;
    }
    client.check().await?;
    client.leave(&connections, &name).await
}

struct Working<'a> {
    setting: &'a Setting,
    index: u32,
    program: SimulatedClient,
}

impl Working<'_> {
    fn book<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        change(&mut self.setting.ledgers.lock().unwrap()[self.index as usize])
    }

    /// Returns the number of a new gradient.
    fn next(&self) -> Result<usize, String> {
        let id = self.book(|l| {
            l.next += 1;
            l.next - 1
        });
        match id < MOST {
            true => Ok(id),
            false => Err(format!("client {} has made no way", self.index)),
        }
    }

    /// Runs one action. `true` if the gradient was applied.
    async fn act(&mut self, action: u64, id: usize) -> Answer<bool> {
        let program = &mut self.program;
        let early = turmoil::sim_elapsed().unwrap_or_default() < RESETS;
        match action {
            0..4 => program.give(id).await?,
            4 => program.give_by_callable(id).await?,
            5 => program.give_in_pieces(id).await?,
            6..9 => program.give_by_callable(id).await?,
            9..12 => program.give_in_pieces(id).await?,
            12 => program.give_twice(id).await?,
            13 => return program.close_twice().await.map(|()| false),
            14 | 15 => return program.leave_call(id).await.map(|()| false),
            16 => return program.leave_pieces(id).await.map(|()| false),
            17 => return program.mistakes().await.map(|()| false),
            18 => return program.list().await.map(|()| false),
            _ if early => return program.reset().await.map(|()| false),
            _ => return program.read().await.map(|_| false),
        }
        Ok(true)
    }

    /// Next action after a failed call.
    async fn failed(&mut self, code: Code) -> Result<(), String> {
        match code {
            Code::Aborted => self.program.go()?,
            // Its own leftovers may exhaust the resource.
            Code::ResourceExhausted if self.program.numbers.below(4) == 0 => self.program.go()?,
            Code::FailedPrecondition => {
                let before = self.book(Ledger::lost);
                match self.program.init().await {
                    Ok(()) => self.book(|l| l.doubtful = before),
                    Err(Trouble::Wrong(why)) => return Err(why),
                    Err(Trouble::Fault(Code::Aborted, _)) => self.program.go()?,
                    Err(Trouble::Fault(..)) => {}
                }
            }
            _ => {}
        }
        sleep(Duration::from_millis(100)).await;
        Ok(())
    }

    /// Checks that every gradient was applied at most once, and exactly once if its call succeeded.
    async fn check(&mut self) -> Result<(), String> {
        let name = format!("client {}", self.index);
        let mut tries = 0;
        let logs = loop {
            match self.program.read().await {
                Ok(logs) => break logs,
                // Leftovers of others may exhaust the resource, until their leases end.
                Err(Trouble::Fault(Code::ResourceExhausted, _)) if tries < 100 => {
                    tries += 1;
                    if tries % 4 == 0 {
                        // So may its own leftovers.
                        self.program.go()?;
                    }
                }
                Err(e) => return Err(format!("{name}, at its end: {e:?}")),
            }
            sleep(Duration::from_millis(100)).await;
        };
        for (home, log) in logs.iter().enumerate() {
            let checked = self.book(|l| l.check(log));
            checked.map_err(|e| format!("{name}, on {home}: {e}"))?;
        }
        Ok(())
    }

    /// Leaves, in a random way.
    async fn leave(mut self, connections: &Arc<Connections>, name: &str) -> Result<(), String> {
        let way = self.program.numbers.below(5);
        self.setting.world.note(format!("{name} leaves: {way}"));
        let left = match way {
            0 => self.program.close_twice().await,
            1 => self.program.leave_pieces(0).await,
            _ => Ok(()),
        };
        match left {
            Err(Trouble::Wrong(why)) => return Err(why),
            Err(Trouble::Fault(..)) | Ok(()) => {}
        }
        self.book(|l| l.ended = true);
        match way {
            // Its connection stays open, without calls.
            2 => {}
            // It is cut off from the network.
            3 => turmoil::partition(name, &*self.program.master),
            // As if it had died.
            4 => connections.die(),
            _ => return Ok(()),
        }
        match way {
            4 => Ok(()),
            _ => std::future::pending().await,
        }
    }
}
