//! The flag `-np` of horovodrun and mpirun.

use std::ffi::OsString;

/// Replaces `-np` of horovodrun and mpirun by `--np` in the arguments of this program: clap knows short flags of one letter.
pub(crate) fn accept_np_flag(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut own, mut launches, mut value) = (true, false, false);
    let changed = args.enumerate().map(|(at, arg)| {
        launches |= at == 1 && arg == "launch";
        let text = arg.to_string_lossy().into_owned();
        // Arguments after the name of a launched program are that program's. An argument after a flag may be its value.
        own &= !launches || at < 3 || value || text.starts_with('-') || text.parse::<u32>().is_ok();
        own &= text != "--";
        value = text.starts_with('-');
        if own && arg == "-np" {
            "--np".into()
        } else {
            arg
        }
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::accept_np_flag;

    fn changed(line: &str) -> String {
        let args = line.split(' ').map(Into::into);
        let all = accept_np_flag(args).into_iter();
        let all: Vec<String> = all.map(|a| a.into_string().unwrap()).collect();
        all.join(" ")
    }

    #[test]
    fn np_is_replaced_before_the_launched_program_and_kept_after_it() {
        let lines = [
            (
                "thalweg launch hvd -np 2 -- a -np 3",
                "thalweg launch hvd --np 2 -- a -np 3",
            ),
            (
                "thalweg launch hvd --grace 5 -np 2 a -np 3",
                "thalweg launch hvd --grace 5 --np 2 a -np 3",
            ),
            (
                "thalweg bench allreduce --engine tcp -np 3",
                "thalweg bench allreduce --engine tcp --np 3",
            ),
            (
                "thalweg launch hvd -H a:2,b:2 -np 4 a -np 3",
                "thalweg launch hvd -H a:2,b:2 --np 4 a -np 3",
            ),
            ("thalweg run -np", "thalweg run --np"),
        ];
        for (given, expected) in lines {
            assert_eq!(changed(given), expected);
        }
    }
}
