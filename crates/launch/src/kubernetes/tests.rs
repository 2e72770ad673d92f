//! Manifests: golden files, and the rules that hold between their parts.

use std::path::Path;

use serde_json::{Value, json};

use super::job::{KubernetesJob, PodOptions, PodRestart, PodTasks};

fn job(tasks: PodTasks) -> KubernetesJob {
    KubernetesJob {
        name: "trains".to_owned(),
        namespace: None,
        tasks,
        pods: PodOptions {
            image: "registry.example/trains:1.2".to_owned(),
            unprotected_network: true,
            ..PodOptions::default()
        },
        backoff_limit: 0,
        restart: PodRestart::Never,
        command: vec!["cnn_benchmarks".to_owned(), "--batch_size=64".to_owned()],
    }
}

const CLUSTER: PodTasks = PodTasks::Cluster {
    servers: 2,
    workers: 3,
};

fn protected(tasks: PodTasks) -> KubernetesJob {
    let plain = job(tasks);
    KubernetesJob {
        namespace: Some("ml".to_owned()),
        pods: PodOptions {
            gpus: 2,
            cpu: Some("500m".to_owned()),
            memory: Some("16Gi".to_owned()),
            env: vec![("GREETING".to_owned(), "a: \"b\" $(HOME) # é\n".to_owned())],
            protection_secret: Some("keys".to_owned()),
            unprotected_network: false,
            ..plain.pods
        },
        backoff_limit: 6,
        restart: PodRestart::OnFailure,
        ..plain
    }
}

/// Compares manifests with a file, or writes it if `UPDATE_GOLDEN` is set.
#[track_caller]
fn golden(name: &str, job: &KubernetesJob) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kubernetes/golden");
    let path = folder.join(name);
    let text = job.manifests().unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, expected, "{}", path.display());
}

/// `tests/kubernetes/check_schemas.py` checks these files against the schemas of Kubernetes.
#[test]
fn manifests_are_those_of_the_golden_files() {
    golden("ranks.yaml", &job(PodTasks::Ranks(4)));
    golden("ranks_protected.yaml", &protected(PodTasks::Ranks(4)));
    golden("cluster.yaml", &job(CLUSTER));
    golden("cluster_protected.yaml", &protected(CLUSTER));
}

/// Objects of a kind.
fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let all = objects.iter().filter(|object| object["kind"] == kind);
    all.collect()
}

#[test]
fn selectors_match_the_labels_of_pods_and_services_exist() {
    for job in [job(PodTasks::Ranks(4)), job(CLUSTER), protected(CLUSTER)] {
        let objects = job.objects().unwrap();
        let service = of_kind(&objects, "Service")[0];
        assert_eq!(service["spec"]["clusterIP"], "None");
        let selector = service["spec"]["selector"].as_object().unwrap();
        for object in objects.iter().filter(|o| o["kind"] != "Service") {
            let spec = &object["spec"];
            let template = &spec["template"];
            let labels = template["metadata"]["labels"].as_object().unwrap();
            for (name, value) in selector {
                assert_eq!(labels.get(name), Some(value));
            }
            let subdomain = match object["kind"] == "StatefulSet" {
                true => {
                    assert_eq!(&spec["selector"]["matchLabels"], &json!(labels));
                    &spec["serviceName"]
                }
                false => {
                    assert_eq!(spec["completionMode"], "Indexed");
                    assert_eq!(spec["completions"], spec["parallelism"]);
                    &template["spec"]["subdomain"]
                }
            };
            assert_eq!(subdomain, &service["metadata"]["name"]);
            assert_eq!(
                object["metadata"]["namespace"],
                service["metadata"]["namespace"]
            );
            let container = &template["spec"]["containers"][0];
            let port = &container["ports"][0]["containerPort"];
            let ports = service["spec"]["ports"].as_array().unwrap();
            assert!(ports.iter().any(|p| &p["port"] == port));
            // Kubernetes replaces only variables that stand before.
            let env = container["env"].as_array().unwrap();
            let mut names: Vec<&str> = env.iter().map(|v| v["name"].as_str().unwrap()).collect();
            if object["kind"] == "StatefulSet" || labels["app.kubernetes.io/component"] == "worker"
            {
                assert_eq!(names[0], "THALWEG_TASK_INDEX");
            }
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
    }
}

#[test]
fn numbers_of_pods_are_those_of_the_tasks() {
    let objects = job(CLUSTER).objects().unwrap();
    assert_eq!(of_kind(&objects, "StatefulSet")[0]["spec"]["replicas"], 2);
    assert_eq!(of_kind(&objects, "Job")[0]["spec"]["completions"], 3);
    let objects = job(PodTasks::Ranks(4)).objects().unwrap();
    assert_eq!(of_kind(&objects, "Job")[0]["spec"]["completions"], 4);
    let size = json!({"name": "THALWEG_JOB_SIZE", "value": "4"});
    let job_object = of_kind(&objects, "Job")[0];
    let env = &job_object["spec"]["template"]["spec"]["containers"][0]["env"];
    assert!(env.as_array().unwrap().contains(&size), "{env}");
    let alone = job(PodTasks::Cluster {
        servers: 0,
        workers: 1,
    });
    assert_eq!(of_kind(&alone.objects().unwrap(), "StatefulSet").len(), 0);
}

/// The launcher's own variables and flags, as Kubernetes passes them to the worker of index 1.
#[test]
fn a_task_gets_flags_and_tf_config_with_its_number() {
    let objects = job(CLUSTER).objects().unwrap();
    let worker = &of_kind(&objects, "Job")[0]["spec"]["template"]["spec"]["containers"][0];
    let replaced = |text: &Value| text.as_str().unwrap().replace("$(THALWEG_TASK_INDEX)", "1");
    let args: Vec<String> = worker["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(replaced)
        .collect();
    assert_eq!(
        args.join(" "),
        "--batch_size=64 --job_name worker --task_index 1 --ps_hosts trains-ps-0.trains:2230,trains-ps-1.trains:2230 \
         --worker_hosts trains-worker-0.trains:2220,trains-worker-1.trains:2220,trains-worker-2.trains:2220"
    );
    let env = worker["env"].as_array().unwrap();
    let config = env.iter().find(|v| v["name"] == "TF_CONFIG").unwrap();
    let config = thalweg_launch_env::TfConfig::parse(&replaced(&config["value"])).unwrap();
    assert_eq!(config.task, Some(("worker".to_owned(), 1)));
}

#[test]
fn texts_of_the_user_are_not_taken_for_variables_of_kubernetes() {
    let mut odd = job(CLUSTER);
    odd.command.push("$(HOME) $5 $$".to_owned());
    let objects = odd.objects().unwrap();
    let worker = &of_kind(&objects, "Job")[0]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(worker["args"][1], "$$(HOME) $$5 $$$$");
}

#[test]
fn names_and_quantities_that_kubernetes_refuses_are_named() {
    type Change = fn(&mut KubernetesJob);
    let cases: [(Change, &str); 14] = [
        (|j| j.name = "Trains".into(), "--name Trains"),
        (|j| j.name = "1trains".into(), "--name 1trains"),
        (|j| j.name = "a-".into(), "--name a-"),
        (|j| j.name = "a".repeat(41), "at most 40"),
        (|j| j.name = "a\nkind: Pod".into(), "--name a"),
        (|j| j.namespace = Some("a.b".into()), "--namespace a.b"),
        (|j| j.pods.image = "a b".into(), "--image a b"),
        (|j| j.pods.cpu = Some("4 cores".into()), "--cpu 4 cores"),
        (|j| j.pods.memory = Some(".Gi".into()), "--memory .Gi"),
        (
            |j| j.pods.protection_secret = Some("a_b".into()),
            "--protection-secret a_b",
        ),
        (
            |j| j.pods.unprotected_network = false,
            "need --protection-secret NAME",
        ),
        (
            |j| j.pods.env = vec![("A B".into(), String::new())],
            "--env A B",
        ),
        (
            |j| j.pods.env = vec![("TF_CONFIG".into(), String::new())],
            "--env TF_CONFIG",
        ),
        (
            |j| {
                j.tasks = PodTasks::Cluster {
                    servers: 1,
                    workers: 60_000,
                };
            },
            "the addresses of 60001 tasks",
        ),
    ];
    for (change, expected) in cases {
        let mut wrong = job(CLUSTER);
        change(&mut wrong);
        let error = wrong.manifests().unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}
