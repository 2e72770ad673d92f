//! Tests of predicted steps, against closed forms.

use proptest::prelude::*;
use thalweg_estimate::{Algorithm, LinkCost};
use thalweg_models::Data;
use thalweg_parallel::VariableUpdate;

use super::*;
use crate::cluster::{Barrier, DeviceSpeed, HostSpeed, LinkSpeed, ServerHosts};
use crate::step::{Item, ItemWork, ModelStep, NodeCost, Stream, TemplateTask};

/// Cluster of hosts with one GPU, on which only computing and the network take time.
fn cluster() -> Cluster {
    let free = LinkSpeed {
        latency: 0.0,
        bandwidth: 1e18,
        call: 0.0,
    };
    Cluster {
        name: "test".to_owned(),
        hosts: None,
        servers: ServerHosts::Own,
        device: DeviceSpeed {
            gpu: true,
            per_worker: 1,
            flops: 1e9,
            bandwidth: 1e18,
        },
        host: HostSpeed {
            bandwidth: 1e18,
            copy_bandwidth: 1e18,
            tasks_at_full_speed: 1.0,
        },
        network: LinkSpeed {
            bandwidth: 1e6,
            ..free
        },
        local: free,
        barrier: Barrier::Turns,
        straggling: 0.0,
        input: None,
    }
}

/// Step with one variable of 1 MB: a value arrives, 2 s of computing follow, and a gradient leaves.
fn one_variable() -> StepTemplate {
    let server = TemplateTask::Server(0);
    let item = |task, work, after: &[usize]| Item {
        task,
        work,
        after: after.to_vec(),
        follows_worker: false,
        nodes: Vec::new(),
    };
    let cost = NodeCost {
        flops: 2e9,
        bytes: 0.0,
    };
    StepTemplate {
        items: vec![
            item(server, ItemWork::Message(TemplateTask::Worker, 1e6), &[]),
            item(
                TemplateTask::Worker,
                ItemWork::Compute(Stream::Device(0), cost),
                &[0],
            ),
            item(TemplateTask::Worker, ItemWork::Message(server, 1e6), &[1]),
        ],
        devices: 1,
        servers: 1,
    }
}

fn resnet20(servers: u32, workers: u32, devices: u32, update: VariableUpdate) -> StepTemplate {
    let step = ModelStep::new("resnet20", Data::Cifar10).unwrap();
    let step = ModelStep {
        devices,
        update,
        ..step
    };
    step.template(servers, workers).unwrap()
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 1e-6,
        "{found} s, not {expected} s"
    );
}

#[test]
fn a_worker_waits_for_the_value_computes_and_sends_the_gradient() {
    let alone = predict_servers(&one_variable(), &cluster(), 1, 8);
    assert_near(alone.seconds, 1.0 + 2.0 + 1.0);
    assert_near(alone.images_per_second, 2.0);
    assert_eq!(alone.bytes, 2e6);
}

#[test]
fn workers_share_the_ports_of_a_server() {
    // Values leave the server one after the other, so that the last worker begins to compute after n s; its gradient
    // is the last at the server, whose port is free by then.
    for workers in [2, 5] {
        let predicted = predict_servers(&one_variable(), &cluster(), workers, 8);
        assert_near(predicted.seconds, f64::from(workers) + 2.0 + 1.0);
        assert_eq!(predicted.bytes, 2e6 * f64::from(workers));
    }
}

#[test]
fn a_worker_with_staged_values_fetches_the_next_ones_while_it_computes() {
    let staged = one_variable().staged();
    // Values of n s for all workers beside 2 s of computing; then the gradients pass the server's port.
    for workers in [1, 2, 5] {
        let predicted = predict_servers(&staged, &cluster(), workers, 8);
        assert_near(predicted.seconds, 2.0 + f64::from(workers));
        assert_eq!(predicted.bytes, 2e6 * f64::from(workers));
    }
    // A value that takes longer than all else is what a step waits for.
    let mut slow = one_variable();
    slow.items[0].work = ItemWork::Message(TemplateTask::Worker, 4e6);
    assert_near(predict_servers(&slow, &cluster(), 1, 8).seconds, 7.0);
    assert_near(
        predict_servers(&slow.staged(), &cluster(), 1, 8).seconds,
        4.0,
    );
}

#[test]
fn staged_values_of_a_network_hide_the_fetch_and_move_the_same_bytes() {
    let template = resnet20(2, 2, 1, VariableUpdate::ParameterServer);
    let mut cluster = cluster();
    cluster.device.flops = 1e11;
    let predicted = predict_servers(&template, &cluster, 2, 8);
    let staged = predict_servers(&template.clone().staged(), &cluster, 2, 8);
    assert_eq!(staged.bytes, predicted.bytes);
    assert!(
        staged.seconds < predicted.seconds,
        "{} {}",
        staged.seconds,
        predicted.seconds
    );
    // Copies of updated values follow the worker's gradients: there is nothing to stage.
    let copies = resnet20(2, 2, 1, VariableUpdate::DistributedReplicated);
    let seconds = |template| predict_servers(&template, &cluster, 2, 8).seconds;
    assert_eq!(seconds(copies.clone().staged()), seconds(copies));
}

#[test]
fn a_barrier_of_tokens_has_a_message_for_each_pair_of_workers() {
    let mut cluster = cluster();
    cluster.network.bandwidth = 1e18;
    cluster.network.call = 1e-3;
    let turns = predict_servers(&one_variable(), &cluster, 16, 8).seconds;
    cluster.barrier = Barrier::Tokens;
    let tokens = predict_servers(&one_variable(), &cluster, 16, 8).seconds;
    // 16 x 15 tokens and their answers pass the server's port, in place of 16 gifts.
    assert!((tokens - turns - 0.224).abs() < 2e-3, "{tokens} {turns}");
}

#[test]
fn images_that_are_read_bound_a_step() {
    let mut cluster = cluster();
    cluster.input = Some(1.0);
    let predicted = predict_servers(&one_variable(), &cluster, 2, 8);
    assert_near(predicted.seconds, 8.0);
    assert_eq!(predicted.bound(), ResourceUse::Input);
}

#[test]
fn workers_without_a_barrier_overlap_steps() {
    let mut cluster = cluster();
    cluster.barrier = Barrier::None;
    let free = predict_servers(&one_variable(), &cluster, 2, 8);
    // 4 s of a worker's own step; the ports of the server are busy for 2 s of it.
    assert!(free.seconds < 4.5, "{}", free.seconds);
}

#[test]
fn all_reduces_without_contention_take_the_time_of_their_formulas() {
    let mut cluster = cluster();
    cluster.network.latency = 1e-4;
    let cost = LinkCost {
        message: 1e-4,
        byte: 1e-6,
        reduced: 0.0,
        only: None,
    };
    for ranks in [2, 4, 8] {
        for algorithm in [Algorithm::Ring, Algorithm::Halving, Algorithm::Doubling] {
            let options = AllReduceOptions::default();
            let (seconds, _) = all_reduce::seconds(&cluster, ranks, algorithm, 8e5, &options);
            assert_near(seconds, cost.of(algorithm, ranks as usize, 800_000));
        }
    }
}

#[test]
fn a_ring_moves_the_bytes_of_its_formula() {
    let options = AllReduceOptions {
        algorithm: Some(Algorithm::Ring),
        ..AllReduceOptions::default()
    };
    let predicted = predict_all_reduce(&one_variable(), &cluster(), 4, 8, &options);
    assert_eq!(predicted.bytes, 4.0 * 2.0 * 0.75 * 1e6);
    // The value is local; after 2 s of computing the ring takes 1.5 s.
    assert_near(predicted.seconds, 2.0 + 1.5);
}

#[test]
fn many_ranks_take_the_time_of_the_formula() {
    let options = AllReduceOptions {
        algorithm: Some(Algorithm::Ring),
        ..AllReduceOptions::default()
    };
    let predicted = predict_all_reduce(&one_variable(), &cluster(), 10_000, 8, &options);
    assert!(
        (predicted.seconds - 4.0).abs() < 0.01,
        "{}",
        predicted.seconds
    );
}

#[test]
fn messages_have_the_bytes_of_the_models_variables() {
    let bytes = 4.0 * 0.27e6;
    for servers in [1, 3] {
        let template = resnet20(servers, 2, 1, VariableUpdate::ParameterServer);
        let (sent, received) = template.worker_bytes();
        assert!((sent / bytes - 1.0).abs() < 0.03, "{sent}");
        assert!((received / bytes - 1.0).abs() < 0.03, "{received}");
        let moved = predict_servers(&template, &cluster(), 2, 8).bytes;
        assert!((moved - 2.0 * (sent + received)).abs() < 1.0, "{moved}");
    }
}

#[test]
fn a_worker_adds_up_the_gradients_of_its_devices_and_reads_each_value_once() {
    let one = resnet20(2, 2, 1, VariableUpdate::DistributedReplicated);
    let four = resnet20(2, 2, 4, VariableUpdate::DistributedReplicated);
    assert_eq!(four.devices, 4);
    let (sent, received) = one.worker_bytes();
    let (sent_by_four, received_by_four) = four.worker_bytes();
    assert!(
        (sent_by_four / sent - 1.0).abs() < 1e-3,
        "{sent} {sent_by_four}"
    );
    assert!(
        (received_by_four / received - 1.0).abs() < 1e-3,
        "{received} {received_by_four}"
    );
    assert!((four.device_cost().flops / one.device_cost().flops - 4.0).abs() < 1e-6);
}

#[test]
fn a_simulation_gives_the_same_result_again() {
    let template = resnet20(2, 3, 1, VariableUpdate::ParameterServer);
    let mut cluster = cluster();
    cluster.straggling = 0.05;
    let seconds = || predict_servers(&template, &cluster, 3, 8).seconds;
    assert_eq!(seconds(), seconds());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_faster_link_makes_no_step_slower(
        servers in 1u32..4,
        workers in 1u32..6,
        bandwidth in 1e5f64..1e9,
        factor in 1.0f64..10.0,
        replicated: bool,
    ) {
        let update = match replicated {
            true => VariableUpdate::DistributedReplicated,
            false => VariableUpdate::ParameterServer,
        };
        let template = resnet20(servers, workers, 1, update);
        let mut cluster = cluster();
        cluster.device.flops = 1e11;
        cluster.network.bandwidth = bandwidth;
        let slow = predict_servers(&template, &cluster, workers, 8).seconds;
        cluster.network.bandwidth *= factor;
        let fast = predict_servers(&template, &cluster, workers, 8).seconds;
        // Queues in the order of arrival may change places.
        prop_assert!(fast <= slow * 1.01, "{} {}", fast, slow);
    }
}
