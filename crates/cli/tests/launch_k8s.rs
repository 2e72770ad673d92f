//! `thalweg launch k8s`: flags become manifests on standard output.

mod support;

use support::{fails, works};

/// Flags before the program.
const FLAGS: [&str; 6] = ["launch", "k8s", "--name", "trains", "--image", "an/image:1"];

#[test]
fn ranks_are_a_service_and_an_indexed_job() {
    let options = [
        "-np",
        "4",
        "--gpus",
        "1",
        "--env",
        "A=b c",
        "--unprotected-network",
        "--",
        "hvd_mnist",
        "-x",
    ];
    let text = works(&[&FLAGS[..], &options].concat());
    for line in [
        "kind: \"Service\"",
        "kind: \"Job\"",
        "completions: 4",
        "backoffLimit: 0",
        "restartPolicy: \"Never\"",
        "nvidia.com/gpu: 1",
        "value: \"trains-0.trains\"",
        "value: \"b c\"",
        "- \"hvd_mnist\"",
        "- \"-x\"",
    ] {
        assert!(text.lines().any(|l| l.trim() == line), "{line}: {text}");
    }
    assert_eq!(text.matches("---\n").count(), 2, "{text}");
}

#[test]
fn servers_are_a_stateful_set_and_workers_a_job() {
    let options = [
        "--ps",
        "2",
        "--workers",
        "3",
        "--namespace",
        "ml",
        "--protection-secret",
        "keys",
        "--restart",
        "on-failure",
        "--backoff-limit",
        "5",
        "--cpu",
        "4",
        "--memory",
        "16Gi",
        "--",
        "cnn_benchmarks",
    ];
    let text = works(&[&FLAGS[..], &options].concat());
    for line in [
        "kind: \"StatefulSet\"",
        "replicas: 2",
        "completions: 3",
        "backoffLimit: 5",
        "restartPolicy: \"OnFailure\"",
        "namespace: \"ml\"",
        "secretName: \"keys\"",
        "cpu: \"4\"",
    ] {
        assert!(text.lines().any(|l| l.trim() == line), "{line}: {text}");
    }
}

#[test]
fn mistakes_are_named() {
    let told = fails(&[&FLAGS[..], &["--", "x"]].concat());
    assert!(told.contains("need --protection-secret NAME"), "{told}");
    let options = ["--unprotected-network", "--memory", "lots", "--", "x"];
    let told = fails(&[&FLAGS[..], &options].concat());
    assert!(told.contains("--memory lots: give a quantity"), "{told}");
}
