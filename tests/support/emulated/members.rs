//! Multi-tensor variants of launches.

use thalweg_device::gpu::{Arg, Function, Launch, Launches};

use super::watcher::Region;

/// The functions of launches, with their multi-tensor variants.
pub fn functions(launches: &Launches) -> Vec<Function> {
    let mut all: Vec<Function> = launches.list.iter().map(|l| l.function.clone()).collect();
    let members = launches.list.iter().filter(|l| l.multi_tensor);
    all.extend(members.map(|l| Function {
        multi_tensor: true,
        ..l.function.clone()
    }));
    all
}

/// The same launches; each that may be a member of a multi-tensor launch is the second of one, after a member without blocks.
pub fn as_members(launches: &Launches, inputs: &[Region], outputs: &[Region]) -> Launches {
    let mut launches = launches.clone();
    for launch in launches.list.iter_mut().filter(|l| l.multi_tensor) {
        let arguments: Vec<u64> = (launch.args.iter())
            .map(|arg| match arg {
                Arg::Input(i) | Arg::Variable(i) => inputs[*i].address,
                Arg::Output(i) => outputs[*i].address,
                Arg::Value(bytes) => {
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    u64::from_ne_bytes(word)
                }
                other => panic!("an argument of a member: {other:?}"),
            })
            .collect();
        let starts = vec![0, 0, u64::from(launch.blocks)];
        let none = vec![0; arguments.len()];
        let table = Arg::Table([starts, none, arguments].concat().into());
        let count = Arg::Value(2u32.to_ne_bytes().into_iter().collect());
        *launch = Launch {
            function: Function {
                multi_tensor: true,
                ..launch.function.clone()
            },
            args: [table, count].into_iter().collect(),
            ..launch.clone()
        };
    }
    launches
}
