//! Multi-tensor variants of launches.

use thalweg_device::gpu::{Arg, Function, Launch, Launches};
use thalweg_plan::gpu_program::{Argument, MemberTable};

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
        let address = |at: u64| Argument::Value(at.to_ne_bytes().into_iter().collect());
        let arguments = launch.args.iter().map(|arg| match arg {
            Arg::Input(i) | Arg::Variable(i) => address(inputs[*i].address),
            Arg::Output(i) => address(outputs[*i].address),
            Arg::Value(bytes) => Argument::Value(bytes.clone()),
            other => panic!("an argument of a member: {other:?}"),
        });
        let none = launch.args.iter().map(|_| address(0));
        let table = MemberTable {
            offset: 0,
            starts: vec![0, 0, launch.blocks],
            arguments: vec![none.collect(), arguments.collect()],
        };
        let words = table.words(|place| panic!("{place:?} in a table of addresses"));
        let table = Arg::Table(words.into());
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
