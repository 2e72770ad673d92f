//! Jobs over TLS: ranks with the keys of a cluster join, and others are refused.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use support::{TestJob, conformance};
use thalweg_collective::{ALL_RANKS, Coordinator, Join, Ranks, ReduceOp, Reduction, Secret};
use thalweg_tensor::DType;

/// Folder of keys as `thalweg protect` makes it; removed on drop.
struct Keys(PathBuf);

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn keys(name: &str, host: &str) -> Keys {
    let folder = std::env::temp_dir().join(format!("thalweg-keys-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut own = CertificateParams::new(Vec::new()).unwrap();
    own.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    own.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(own, KeyPair::generate().unwrap()).unwrap();
    let mut task = CertificateParams::new([host.to_owned()]).unwrap();
    task.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let key = KeyPair::generate().unwrap();
    let files = [
        ("authority.pem", authority.pem()),
        (
            "certificate.pem",
            task.signed_by(&key, &authority).unwrap().pem(),
        ),
        ("key.pem", key.serialize_pem()),
        ("token", "of the cluster of the tests".replace(' ', "-")),
    ];
    for (file, text) in files {
        let path = folder.join(file);
        std::fs::write(&path, text).unwrap();
        set_mode(&path, 0o600);
    }
    Keys(folder)
}

fn set_mode(path: &Path, mode: u32) {
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    #[cfg(not(unix))]
    let _ = (path, mode);
}

fn secret(folder: &Path) -> Secret {
    Secret::from("of this job").protected(folder).unwrap()
}

#[test]
fn all_collectives_are_exact_over_tls() {
    let keys = keys("table", "127.0.0.1");
    let jobs = [
        TestJob::on_one_host(3).without_memory(),
        TestJob::on(&["a", "b", "a", "c"]).connections(2),
    ];
    for job in jobs {
        job.secret(secret(&keys.0)).run(conformance::check_all);
    }
}

#[test]
fn long_values_pass_over_tls_in_both_directions_at_once() {
    let keys = keys("long", "127.0.0.1");
    for connections in [1, 3] {
        let job = TestJob::on(&["a", "b"]).connections(connections);
        let found = job.secret(secret(&keys.0)).run(|ranks| {
            let mut data = vec![ranks.rank() as f32 + 1.0; 3_000_000];
            let sum = Reduction::of(ReduceOp::Sum);
            let bytes = bytemuck::cast_slice_mut(&mut data);
            ranks
                .all_reduce(ALL_RANKS, "sum", bytes, DType::F32, sum)
                .unwrap();
            data.iter().all(|&x| x == 3.0)
        });
        assert_eq!(found, [true, true]);
    }
}

/// The last bytes of a rank that receives nothing on a link are not lost when it leaves.
#[test]
fn the_last_message_of_a_one_way_link_arrives() {
    let keys = keys("last", "127.0.0.1");
    let job = TestJob::on_one_host(2).without_memory();
    let found = job.secret(secret(&keys.0)).run(|ranks| {
        let mut data = vec![ranks.rank() as u8; 4_000_000];
        if ranks.rank() == 0 {
            // By then the other rank has sent as much as the system takes.
            thread::sleep(Duration::from_millis(300));
        }
        ranks.broadcast(ALL_RANKS, "last", 1, &mut data).unwrap();
        data.iter().all(|&x| x == 1)
    });
    assert_eq!(found, [true, true]);
}

/// Error of a rank that joins a coordinator with another secret.
fn refused(coordinator: &Secret, rank: impl Into<Secret>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let coordinator = Coordinator::start(listener, 1, coordinator).unwrap();
    let join = Join::at(coordinator.address(), 0, 1, rank).timeout(Duration::from_secs(3));
    Ranks::join(&join).err().expect("it has joined").to_string()
}

#[test]
fn a_rank_without_the_keys_of_the_cluster_is_refused() {
    let (own, other) = (keys("own", "127.0.0.1"), keys("other", "127.0.0.1"));
    // Plain TCP, to a coordinator with TLS.
    refused(&secret(&own.0), "of this job");
    // A certificate of another authority.
    let error = refused(&secret(&own.0), secret(&other.0));
    assert!(error.contains("certificate"), "{error}");
    // TLS, to a coordinator without.
    let plain = Secret::from("of this job");
    refused(&plain, secret(&own.0));
    // Keys of the cluster, and the secret of another job.
    let stranger = Secret::from("of another job").protected(&own.0).unwrap();
    let error = refused(&secret(&own.0), stranger);
    assert!(
        error.contains("the secret of the job is another one"),
        "{error}"
    );
}

#[test]
fn a_certificate_without_the_address_is_not_trusted() {
    let keys = keys("elsewhere", "10.1.2.3");
    let error = refused(&secret(&keys.0), secret(&keys.0));
    assert!(error.contains("certificate not valid for name"), "{error}");
}

#[test]
fn a_peer_that_sends_garbage_or_nothing_blocks_no_other() {
    let keys = keys("garbage", "127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let secret = secret(&keys.0);
    let coordinator = Coordinator::start(listener, 2, &secret).unwrap();
    let address = coordinator.address();
    let _silent = TcpStream::connect(address).unwrap();
    let mut garbage = TcpStream::connect(address).unwrap();
    garbage.write_all(&[7; 4096]).unwrap();
    let rank = |rank: usize| {
        let secret = secret.clone();
        thread::spawn(move || {
            let join = Join::at(address, rank, 2, secret).host(&format!("host {rank}"));
            let mut ranks = Ranks::join(&join).unwrap();
            ranks.barrier(ALL_RANKS, "here").unwrap();
        })
    };
    for rank in [rank(0), rank(1)] {
        rank.join().unwrap();
    }
    // The connection is closed without an answer in plain text.
    let mut answer = Vec::new();
    let _ = garbage.read_to_end(&mut answer);
    assert!(!answer.contains(&b'{'), "{answer:?}");
}

#[test]
fn a_missing_folder_of_keys_is_an_error_that_names_thalweg_protect() {
    let error = Secret::from("x").protected("/no/such/folder").unwrap_err();
    assert!(
        error.to_string().contains("`thalweg protect` makes it"),
        "{error}"
    );
    let set = |name: &str| match name {
        "HOROVOD_RANK" => Some("0".to_owned()),
        "HOROVOD_SIZE" => Some("1".to_owned()),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR" => Some("127.0.0.1".to_owned()),
        "HOROVOD_GLOO_RENDEZVOUS_PORT" => Some("2222".to_owned()),
        "THALWEG_PROTECTION" => Some("/no/such/folder".to_owned()),
        _ => None,
    };
    let error = Join::from_variables(&set).unwrap_err().to_string();
    assert!(
        error.starts_with("THALWEG_PROTECTION: /no/such/folder/"),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn a_key_or_token_that_other_users_can_read_is_refused_by_name() {
    let keys = keys("readable", "127.0.0.1");
    let folder = keys.0.display().to_string();
    for name in ["key.pem", "token"] {
        let path = keys.0.join(name);
        set_mode(&path, 0o644);
        let set = |name: &str| match name {
            "HOROVOD_RANK" => Some("0".to_owned()),
            "HOROVOD_SIZE" => Some("1".to_owned()),
            "HOROVOD_GLOO_RENDEZVOUS_ADDR" => Some("127.0.0.1".to_owned()),
            "HOROVOD_GLOO_RENDEZVOUS_PORT" => Some("2222".to_owned()),
            "THALWEG_PROTECTION" => Some(folder.clone()),
            _ => None,
        };
        let error = Join::from_variables(&set).unwrap_err().to_string();
        let start = format!("THALWEG_PROTECTION: {}: its mode is 0644", path.display());
        assert!(error.starts_with(&start), "{error}");
        assert!(error.contains("has to be 0600"), "{error}");
        set_mode(&path, 0o600);
    }
    // A certificate is no secret.
    set_mode(&keys.0.join("certificate.pem"), 0o644);
    secret(&keys.0);
}

#[test]
fn protection_with_mpirun_is_an_error() {
    let set = |name: &str| match name {
        "PMI_RANK" => Some("0".to_owned()),
        "PMI_SIZE" => Some("2".to_owned()),
        "THALWEG_PROTECTION" => Some("keys".to_owned()),
        _ => None,
    };
    let error = Join::from_variables(&set).unwrap_err().to_string();
    assert!(
        error.contains("MPI carries values without protection"),
        "{error}"
    );
}
