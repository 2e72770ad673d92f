//! Command-line tests of `cnn_benchmarks`: a parser of tf_cnn_benchmarks' output reads its output; invalid flags have
//! messages.

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cnn_benchmarks"))
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A small run on the processor.
fn small(more: &[&str]) -> Vec<String> {
    let mut args = vec![
        "--model=trivial",
        "--data_name=cifar10",
        "--device=cpu",
        "--batch_size=4",
        "--num_batches=4",
        "--num_warmup_batches=1",
        "--display_every=2",
    ];
    args.extend(more);
    let done = run(&args);
    assert!(done.status.success(), "{more:?}: {}", text(&done.stderr));
    text(&done.stdout).lines().map(str::to_owned).collect()
}

/// Parsed output: fields of the header by label, step lines, and the total.
struct ParsedOutput {
    header: Vec<(String, String)>,
    columns: String,
    steps: Vec<Vec<String>>,
    total: f64,
}

/// Parses the output as upstream's own tests do: a step line has nine fields between white space, or eleven with
/// accuracies.
fn read(lines: &[String]) -> ParsedOutput {
    let end = lines
        .iter()
        .position(|l| l == "==========")
        .expect("a header");
    let mut header = Vec::new();
    for line in &lines[..end] {
        let (label, value) = line.split_at(13);
        assert!(
            label.trim_end().is_empty() || label.trim_end().ends_with(':'),
            "{line}"
        );
        header.push((label.trim().to_owned(), value.to_owned()));
    }
    let said = &lines[end + 1..];
    let told = [
        "Generating training model",
        "Initializing graph",
        "Running warm up",
        "Done warm up",
    ];
    for (line, told) in said.iter().zip(told) {
        assert_eq!(line, told);
    }
    let columns = said
        .iter()
        .find(|l| l.starts_with("Step\tImg/sec\t"))
        .expect("columns");
    let steps: Vec<Vec<String>> = said
        .iter()
        .filter(|l| l.contains("images/sec: ") && l.contains("jitter"))
        .map(|l| l.split_whitespace().map(str::to_owned).collect())
        .collect();
    let accuracy = columns.ends_with("\ttop_1_accuracy\ttop_5_accuracy");
    for step in &steps {
        assert_eq!(step.len(), if accuracy { 11 } else { 9 }, "{step:?}");
        assert_eq!(
            [&*step[1], &*step[3], &*step[5], &*step[6]],
            ["images/sec:", "+/-", "(jitter", "="]
        );
        for number in [&step[0], &step[2], &step[4], &step[8]] {
            number
                .parse::<f64>()
                .unwrap_or_else(|e| panic!("{number}: {e}"));
        }
        let jitter = step[7].strip_suffix(')').unwrap();
        jitter.parse::<f64>().unwrap();
    }
    let dashes = "-".repeat(64);
    let at = said.iter().position(|l| *l == dashes).expect("dashes");
    assert_eq!(said[at + 2], dashes);
    let total = said[at + 1].strip_prefix("total images/sec: ").unwrap();
    assert_eq!(total.split('.').nth(1).unwrap().len(), 2, "{total}");
    ParsedOutput {
        header,
        columns: columns.clone(),
        steps,
        total: total.parse().unwrap(),
    }
}

fn label<'r>(read: &'r ParsedOutput, label: &str) -> &'r str {
    let found = read.header.iter().find(|(l, _)| l == label);
    &found.unwrap_or_else(|| panic!("no {label}")).1
}

#[test]
fn the_output_has_tf_cnn_benchmarks_format() {
    let read = read(&small(&[]));
    assert_eq!(label(&read, "Model:"), "trivial");
    assert_eq!(label(&read, "Dataset:"), "cifar10 (synthetic)");
    assert_eq!(label(&read, "Mode:"), "training");
    assert_eq!(label(&read, "Batch size:"), "4 global");
    assert_eq!(label(&read, ""), "4 per device");
    assert_eq!(label(&read, "Num batches:"), "4");
    assert_eq!(label(&read, "Num epochs:"), "0.00");
    assert_eq!(label(&read, "Devices:"), "['/cpu:0']");
    assert_eq!(label(&read, "Data format:"), "NHWC");
    assert_eq!(label(&read, "Variables:"), "parameter_server");
    assert_eq!(label(&read, "Gradients:"), "mean over all devices");
    assert_eq!(read.columns, "Step\tImg/sec\ttotal_loss");
    let numbers: Vec<&str> = read.steps.iter().map(|s| &*s[0]).collect();
    assert_eq!(numbers, ["1", "2", "4"]);
    assert!(read.total > 0.0);
}

#[test]
fn flags_add_columns_of_accuracies_and_the_base_loss() {
    let read = read(&small(&[
        "--print_training_accuracy",
        "--loss_type_to_report=base_loss",
    ]));
    assert_eq!(
        read.columns,
        "Step\tImg/sec\tbase_loss\ttop_1_accuracy\ttop_5_accuracy"
    );
}

#[test]
fn compat_2017_omits_later_header_lines() {
    let read = read(&small(&["--compat=2017"]));
    let labels: Vec<&str> = read.header.iter().map(|(l, _)| &**l).collect();
    for later in ["Dataset:", "SingleSess:", "Num batches:", "NUMA bind:"] {
        assert!(!labels.contains(&later), "{labels:?}");
    }
    assert_eq!(label(&read, ""), "4.0 per device");
    assert_eq!(label(&read, "Use NCCL:"), "False");
}

#[test]
fn every_local_update_mode_trains_on_two_devices() {
    for more in [
        &["--variable_update=independent"][..],
        &["--variable_update=parameter_server"],
        &[
            "--variable_update=parameter_server",
            "--local_parameter_device=cpu",
        ],
        &["--variable_update=parameter_server", "--staged_vars"],
        &["--variable_update=replicated"],
        &[
            "--variable_update=replicated",
            "--all_reduce_spec=pscpu:1k:xring#2",
        ],
        &["--variable_update=replicated", "--hierarchical_copy"],
        &["--variable_update=replicated", "--gradient_repacking=3"],
        &[
            "--variable_update=replicated",
            "--variable_consistency=relaxed",
        ],
        &["--variable_update=replicated", "--gradient_reduction=sum"],
        &["--use_bf16", "--optimizer=momentum"],
        &["--use_fp16", "--fp16_enable_auto_loss_scale"],
        &["--use_fp16", "--fp16_vars"],
        &["--forward_only"],
    ] {
        let mut args = vec!["--num_gpus=2"];
        args.extend(more);
        let read = read(&small(&args));
        assert_eq!(label(&read, "Batch size:"), "8 global", "{more:?}");
        let loss: f64 = read.steps.last().unwrap()[8].parse().unwrap();
        assert!(loss.is_finite() && loss > 0.0, "{more:?}: {loss}");
    }
}

#[test]
fn synthetic_patterns_are_learned_saved_and_evaluated() {
    let folder = std::env::temp_dir().join(format!("thalweg-cnn-{}", std::process::id()));
    let dir = format!("--train_dir={}", folder.display());
    let figure = folder.with_extension("svg");
    let plot = format!("--plot={}", figure.display());
    let model = "--model=resnet20";
    let patterns = [model, "--synthetic=patterns", "--batch_size=16", &*dir];
    let mut train = patterns.to_vec();
    train.extend(["--num_batches=40", &*plot]);
    small(&train);
    let svg = std::fs::read_to_string(&figure).unwrap();
    assert!(svg.contains("exchange") && svg.contains("images/s of each step"));
    let mut evaluate = patterns.to_vec();
    evaluate.extend(["--eval", "--num_eval_batches=8"]);
    let said = small(&evaluate);
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::remove_file(&figure).unwrap();
    let line = said
        .iter()
        .find(|l| l.starts_with("Accuracy @ 1 = "))
        .unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words.len(), 12, "{line}");
    assert_eq!(&words[10..], ["[128", "examples]"]);
    let accuracy: f64 = words[4].parse().unwrap();
    assert!(accuracy > 0.8, "{line}");
}

#[test]
fn json_mode_prints_only_json() {
    let models = small(&["--json", "--list_models"]);
    assert_eq!(models.len(), thalweg::models::all().len());
    for more in [
        &["--json"][..],
        &["--json", "--explain"],
        &["--json", "--list_models"],
    ] {
        for line in small(more) {
            let value: serde_json::Value = serde_json::from_str(&line).expect(&line);
            assert!(value.is_object());
        }
    }
}

#[test]
fn json_has_the_shares_of_a_traced_step() {
    let file = std::env::temp_dir().join(format!("thalweg-cnn-{}.json", std::process::id()));
    let trace = format!("--trace_file={}", file.display());
    let total = |more: &[&str]| -> serde_json::Value {
        let lines = small(&[&["--json"], more].concat());
        serde_json::from_str(lines.last().unwrap()).unwrap()
    };
    assert!(total(&[])["step_parts"].is_null());
    let told = total(&["--num_warmup_batches=2", &trace]);
    let parts = ["compute", "exchange", "input", "waiting"];
    let shares = parts.map(|part| told["step_parts"][part].as_f64().unwrap());
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{told}");
    assert!(shares[0] > 0.0, "{told}");
    assert_eq!(told["exchange_part"], told["step_parts"]["exchange"]);
    let events = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(events.contains("MatMul"), "{events}");
}

#[test]
fn explain_names_the_bottleneck() {
    let said = small(&["--explain"]).join("\n");
    for part in [
        "variables on",
        "/device:CPU:0",
        "GFLOP",
        "the bottleneck is computing",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn explain_tells_the_work_of_a_gpu_that_need_not_be_there() {
    let flags = "--device=gpu --local_parameter_device=gpu --data_name=cifar10 --model=resnet20 --batch_size=8 \
                 --use_fp16 --fp16_enable_auto_loss_scale --explain";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let said = text(&run(&flags).stdout);
    for part in ["a step on the GPU", "Conv2D", "nodes on the host: none"] {
        assert!(said.contains(part), "{said}");
    }
    let said = text(&run(&[&flags[..], &["--json"]].concat()).stdout);
    let line: serde_json::Value = serde_json::from_str(&said).unwrap();
    let (all, ops) = (&line["gpus"][0]["all"], &line["gpus"][0]["ops"]);
    assert!(all["launches"].as_u64() > Some(100), "{line}");
    assert!(ops["Conv2D"]["calls"].as_u64() > Some(10), "{line}");
}

#[test]
fn flags_follow_abseils_syntax_and_ignored_ones_print_a_note() {
    let done = run(&[
        "-model=trivial",
        "--data_name",
        "cifar10",
        "--noxla",
        "--list_models=true",
    ]);
    assert!(done.status.success());
    assert!(text(&done.stdout).contains("densenet100_k24"));
    let done = run(&[
        "--device=cpu",
        "--model=lenet",
        "--explain",
        "--winograd_nonfused=false",
    ]);
    let notes = text(&done.stderr);
    assert!(
        notes.contains("note: --winograd_nonfused has no effect: cuDNN chooses"),
        "{notes}"
    );
}

#[test]
fn contradicting_flags_are_rejected_with_a_message() {
    let cases: &[(&[&str], &str)] = &[
        (&["resnet50"], "unexpected argument 'resnet50'"),
        (&["--modle=x"], "--model"),
        (&["--model=resnet20"], "it is one for --data_name=cifar10"),
        (&["--model=lenet6"], "--list_models prints all"),
        (&["--batch_size=-1"], "invalid value"),
        (&["--num_gpus=0"], "0 is not in 1..=64"),
        (&["--optimizer=sdg"], "possible values: sgd"),
        (&["--display_every=0"], "display_every"),
        (&["--display_perf_ewma=2"], "give 0 to 1"),
        (
            &["--data_dir=x", "--device=cpu"],
            "no folders of pictures (x: No such file or directory",
        ),
        (&["--data_name=coco"], "give imagenet, cifar10 or mnist"),
        (
            &["--variable_update=horovod", "--job_name=worker"],
            "are of ranks",
        ),
        (
            &["--variable_update=distributed_replicated"],
            "is of a cluster",
        ),
        (
            &["--variable_update=replicated", "--staged_vars"],
            "--staged_vars is of",
        ),
        (
            &[
                "--job_name=worker",
                "--variable_update=replicated",
                "--ps_hosts=a:1",
                "--worker_hosts=b:1",
            ],
            "are of one process",
        ),
        (
            &["--job_name=worker"],
            "needs --ps_hosts and --worker_hosts",
        ),
        (&["--ps_hosts=a:1"], "give --job_name too"),
        (&["--job_name=controller"], "needs a controller"),
        (&["--hierarchical_copy"], "more than one device"),
        (
            &["--all_reduce_spec=xring"],
            "is of --variable_update=replicated",
        ),
        (
            &[
                "--variable_update=replicated",
                "--num_gpus=2",
                "--all_reduce_spec=nccl",
            ],
            "'nccl' is not there",
        ),
        (
            &["--gradient_repacking=2"],
            "is of --variable_update=replicated",
        ),
        (
            &["--variable_consistency=relaxed"],
            "is of --variable_update=replicated",
        ),
        (&["--fp16_vars"], "--fp16_vars is of --use_fp16"),
        (&["--use_fp16", "--use_bf16"], "exclude each other"),
        (
            &[
                "--use_fp16",
                "--fp16_vars",
                "--gradient_repacking=2",
                "--variable_update=replicated",
            ],
            "does not go with --gradient_repacking",
        ),
        (&["--fp16_enable_auto_loss_scale"], "is of --use_fp16"),
        (
            &[
                "--use_fp16",
                "--fp16_enable_auto_loss_scale",
                "--staged_vars",
            ],
            "does not go with --staged_vars",
        ),
        (&["--num_batches=2", "--num_epochs=1"], "exclude each other"),
        (&["--num_batches=0"], "there are no steps to run"),
        (&["--eval"], "--eval needs --train_dir"),
        (
            &["--eval", "--train_dir=/nowhere", "--device=cpu"],
            "there is no checkpoint",
        ),
        (&["--eval", "--forward_only"], "exclude each other"),
        (
            &["--save_model_secs=1", "--save_model_steps=1"],
            "exclude each other",
        ),
        (&["--stop_at_top_1_accuracy=0.5"], "not there yet"),
        (&["--init_learning_rate=-1"], "no negative numbers"),
        (&["--num_epochs_per_decay=1"], "takes all of"),
        (&["--minimum_learning_rate=1"], "of a rate that decays"),
        (
            &["--piecewise_learning_rate_schedule=1;2"],
            "an odd number of parts",
        ),
        (
            &[
                "--piecewise_learning_rate_schedule=1;2;3",
                "--init_learning_rate=1",
            ],
            "excludes all other flags",
        ),
        (&["--graph_file=g.pbtxt"], "writes no text"),
        (
            &["--trace_file=t.json", "--num_warmup_batches=1"],
            "a step of the warm-up",
        ),
        (
            &["--plot=figure.png", "--device=cpu"],
            "a name that ends in .svg",
        ),
    ];
    for (args, why) in cases {
        let done = run(args);
        assert!(!done.status.success(), "{args:?}");
        let errors = text(&done.stderr);
        assert!(errors.contains(why), "{args:?}: {errors}");
    }
}

/// A model whose first step needs more memory than the limit is an error before that step.
#[test]
#[cfg(target_os = "linux")]
fn a_model_beyond_the_memory_limit_names_its_largest_value() {
    let program = env!("CARGO_BIN_EXE_cnn_benchmarks");
    let line = format!(
        "ulimit -v 3000000; exec {program} --model=vgg16 --device=cpu --batch_size=512 --num_batches=1"
    );
    let done = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let errors = text(&done.stderr);
    let parts = [
        "no memory for its f32[512,224,224,64]",
        "of the 3072000000 bytes",
        "the largest value of a step",
    ];
    for part in parts {
        assert!(errors.contains(part), "{errors}");
    }
}

#[test]
fn every_flag_is_used_or_prints_a_note() {
    let help = run(&["--help"]);
    let help = text(&help.stdout);
    let flags = help
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("--"));
    let name = |flag: &str| {
        flag.split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
            .unwrap()
            .to_owned()
    };
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = String::new();
    for place in [
        folder.clone(),
        folder.join("input"),
        folder.join("settings"),
    ] {
        for file in std::fs::read_dir(place).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                sources += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let words: std::collections::BTreeSet<&str> = sources
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let mut seen = 0;
    for flag in flags.map(name).filter(|f| !f.is_empty() && f != "help") {
        assert!(
            words.contains(&*flag),
            "--{flag} does nothing, and nobody is told"
        );
        seen += 1;
    }
    assert!(seen > 90, "{seen}");
}
