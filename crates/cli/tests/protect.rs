//! Clusters protected by the files of `thalweg protect`.

#[path = "../../../tests/support/addresses.rs"]
mod addresses;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use thalweg_dist::protection::files;
use thalweg_dist::{
    Cause, ClusterOptions, ClusterSpec, Code, Protection, Server, ServerError, ServerOptions,
    Session, Timeouts,
};
use thalweg_graph::{DeviceSpec, Graph, Operation};
use thalweg_ops::{NewGraph, StateOps, Variable};
use thalweg_session::SessionOptions;

/// Empty path for this test.
fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("protect-{name}"));
    // An earlier run may have left it.
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).unwrap();
    place
}

fn protect(folder: &Path) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.arg("protect").arg(folder);
    command.args(["127.0.0.1", "localhost"]).output().unwrap()
}

fn made(folder: PathBuf) -> PathBuf {
    let done = protect(&folder);
    assert!(done.status.success(), "{done:?}");
    folder
}

fn server(cluster: &ClusterSpec, job: &str, folder: &Path) -> Server {
    let options = ServerOptions::listening("")
        .session(SessionOptions::new().threads(1))
        .protection(Protection::from_dir(folder).unwrap());
    Server::new(cluster.clone(), job, 0, options).unwrap()
}

fn cluster() -> ClusterSpec {
    let addresses = addresses::free_addresses(2);
    ClusterSpec::new(["ps", "worker"].into_iter().zip(addresses.chunks(1))).unwrap()
}

/// Variable on the server, and a worker's update of it: large enough for shared memory.
fn counted(g: &Graph) -> (Variable<'_>, Operation<'_>) {
    let on = |job: &str| format!("/job:{job}/task:0").parse::<DeviceSpec>().unwrap();
    let w = g.device(on("ps"), || g.variable("w", vec![1.0f32; 1 << 16]));
    let read = w.read();
    let next = g.device(on("worker"), || read + read);
    (w, w.assign_add(next))
}

fn runs(session: &Session<'_>, w: Variable<'_>, add: Operation<'_>) {
    session.run(w.initializer(), []).unwrap();
    session.run(add, []).unwrap();
    let found = session.step(w.read(), []).unwrap();
    assert!(found.slice::<f32>(0).unwrap().iter().all(|&v| v == 3.0));
}

fn asking(folder: Option<&Path>) -> ClusterOptions {
    ClusterOptions::new()
        .timeouts(Timeouts::new().connect(Duration::from_millis(200)))
        .protection(folder.map(|f| Protection::from_dir(f).unwrap()))
}

#[test]
fn tasks_and_clients_with_the_keys_of_a_cluster_work_together() {
    let folder = made(place("together").join("keys"));
    let cluster = cluster();
    let [_ps, worker] = ["ps", "worker"].map(|job| server(&cluster, job, &folder));
    let g = Graph::new();
    let (w, add) = counted(&g);
    runs(
        &Session::on(&worker, &g, ClusterOptions::default()).unwrap(),
        w,
        add,
    );
    let options = asking(Some(&folder));
    runs(
        &Session::connect(&worker.target(), &g, options).unwrap(),
        w,
        add,
    );
}

#[test]
fn a_client_without_the_certificate_or_the_token_is_refused() {
    let place = place("refused");
    let folder = made(place.join("keys"));
    let worker = server(&cluster(), "worker", &folder);
    let g = Graph::new();
    let refused = |options: ClusterOptions| {
        let refused = Session::connect(&worker.target(), &g, options);
        refused.map(|_| ()).unwrap_err()
    };

    let none = refused(asking(None));
    assert_eq!(none.cause, Cause::Unreachable, "{none}");
    assert!(none.message.contains("thalweg protect"), "{none}");

    let other = made(place.join("other"));
    let stranger = refused(asking(Some(&other)));
    assert_eq!(stranger.cause, Cause::Unreachable, "{stranger}");
    assert!(stranger.message.contains("certificate"), "{stranger}");
    assert!(stranger.message.contains("thalweg protect"), "{stranger}");

    // A client without keys.
    let gone = Server::new(cluster(), "ps", 0, ServerOptions::listening("")).unwrap();
    let target = gone.target();
    let protected = || Session::connect(&target, &g, asking(Some(&folder)));
    let open = protected().map(|_| ()).unwrap_err();
    assert_eq!(open.cause, Cause::Unreachable, "{open}");
    assert!(open.message.contains("thalweg protect"), "{open}");
    drop(gone);
    let nobody = protected().map(|_| ()).unwrap_err();
    assert!(!nobody.message.contains("thalweg protect"), "{nobody}");

    // The authority of the cluster, but another token.
    let guest = place.join("guest");
    copied(&folder, &guest);
    std::fs::copy(other.join(files::TOKEN), guest.join(files::TOKEN)).unwrap();
    let guest = refused(asking(Some(&guest)));
    assert_eq!(guest.cause, Cause::Unauthenticated, "{guest}");
    assert!(guest.message.contains("token"), "{guest}");
}

#[test]
fn tensorflows_service_checks_the_token_too() {
    use thalweg_dist::messages::ListDevicesRequest;
    use thalweg_dist::messages::master_service_client::MasterServiceClient;
    use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

    let folder = made(place("master").join("keys"));
    let worker = server(&cluster(), "worker", &folder);
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(read(files::AUTHORITY)))
        .identity(Identity::from_pem(
            read(files::CERTIFICATE),
            read(files::KEY),
        ));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let endpoint = Channel::from_shared(format!("https://{}", worker.address())).unwrap();
        let endpoint = endpoint.tls_config(tls).unwrap();
        let mut client = MasterServiceClient::new(endpoint.connect().await.unwrap());
        let asked = |token: Option<&str>| {
            let mut asked = tonic::Request::new(ListDevicesRequest::default());
            if let Some(token) = token {
                let said = format!("Bearer {token}").parse().unwrap();
                asked.metadata_mut().insert("authorization", said);
            }
            asked
        };
        for wrong in [None, Some("0123456789abcdef0123456789abcdef")] {
            let refused = client.list_devices(asked(wrong)).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
        }
        let token = String::from_utf8(read(files::TOKEN)).unwrap();
        client.list_devices(asked(Some(&token))).await.unwrap();
    });
}

#[test]
fn a_host_outside_of_the_certificate_is_not_trusted() {
    let folder = place("names").join("keys");
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let done = command
        .arg("protect")
        .arg(&folder)
        .arg("localhost")
        .output();
    assert!(done.unwrap().status.success());
    let worker = server(&cluster(), "worker", &folder);
    let g = Graph::new();
    let by_number = Session::connect(&worker.target(), &g, asking(Some(&folder)));
    let refused = by_number.map(|_| ()).unwrap_err();
    assert!(refused.message.contains("certificate"), "{refused}");
    let named = format!("grpc://localhost:{}", worker.address().port());
    Session::connect(&named, &g, asking(Some(&folder))).unwrap();
}

#[test]
fn a_protected_server_may_listen_beyond_its_machine() {
    let everywhere = || ServerOptions::listening("0.0.0.0:0");
    let error = Server::start(everywhere()).unwrap_err();
    assert!(matches!(error, ServerError::Unprotected(_)), "{error}");
    assert!(error.to_string().contains("thalweg protect"), "{error}");
    let folder = made(place("beyond").join("keys"));
    let options = everywhere().protection(Protection::from_dir(folder).unwrap());
    Server::start(options).unwrap();
}

#[test]
fn an_existing_folder_is_not_overwritten_and_broken_keys_are_an_error() {
    let folder = made(place("over").join("keys"));
    let key = std::fs::read(folder.join(files::KEY)).unwrap();
    let again = protect(&folder);
    assert!(!again.status.success());
    assert_eq!(std::fs::read(folder.join(files::KEY)).unwrap(), key);
    #[cfg(unix)]
    for name in [files::KEY, files::TOKEN] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    for (name, text) in [
        (files::TOKEN, "short"),
        (files::TOKEN, "the-first-one-is-a-token-that-is-long\nshort"),
        (
            files::TOKEN,
            "a token with spaces in it, which a header may not have",
        ),
        (files::KEY, "no key"),
        (files::CERTIFICATE, "no certificate"),
    ] {
        let path = folder.join(name);
        let right = std::fs::read(&path).unwrap();
        std::fs::write(&path, text).unwrap();
        let error = Protection::from_dir(&folder).unwrap_err();
        assert!(
            error.to_string().contains("thalweg protect"),
            "{name}: {error}"
        );
        std::fs::write(&path, right).unwrap();
    }
    std::fs::remove_file(folder.join(files::TOKEN)).unwrap();
    let error = Protection::from_dir(&folder).unwrap_err();
    assert!(error.to_string().contains("token"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_secret_that_other_users_can_read_is_refused_by_every_command() {
    use std::os::unix::fs::PermissionsExt;
    let folder = made(place("readable").join("keys"));
    let shown = folder.display().to_string();
    let commands = [
        vec!["server", "--listen", "127.0.0.1:0", "--protection", &shown],
        vec!["launch", "hvd", "-n", "1", "--protection", &shown, "true"],
    ];
    for name in [files::KEY, files::TOKEN] {
        let path = folder.join(name);
        let set = |mode| {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        };
        set(0o644);
        for command in &commands {
            let mut program = Command::new(env!("CARGO_BIN_EXE_thalweg"));
            let refused = program.args(command).output().unwrap();
            assert!(!refused.status.success(), "{refused:?}");
            let said = String::from_utf8(refused.stderr).unwrap();
            let named = format!("{}: its mode is 0644", path.display());
            assert!(said.contains(&named), "{command:?}: {said}");
        }
        let refused = renew(&folder, "add", &["127.0.0.1"]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("has to be 0600"), "{said}");
        set(0o600);
    }
}

/// Longer than the interval at which tasks read their files.
const RELOAD_WAIT: Duration = Duration::from_millis(1100);

/// Copies the folder to that of a host, file by file.
fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in [
        files::AUTHORITY,
        files::CERTIFICATE,
        files::KEY,
        files::TOKEN,
    ] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// Writes a file that no other user may read.
fn write_private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

fn renew(folder: &Path, step: &str, hosts: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.arg("protect").arg(folder).args(["--renew", step]);
    command.args(hosts).output().unwrap()
}

#[test]
fn certificates_and_tokens_are_replaced_in_three_steps_while_tasks_run() {
    let place = place("renewed");
    let folder = made(place.join("keys"));
    let first = place.join("first");
    let hosts = ["ps", "worker"].map(|job| place.join(job));
    copied(&folder, &first);
    hosts.iter().for_each(|h| copied(&folder, h));
    let cluster = cluster();
    let tasks = ["ps", "worker"].map(|job| server(&cluster, job, &place.join(job)));
    let target = tasks[1].target();
    let g = Graph::new();
    let (w, add) = counted(&g);
    // The session lives through all steps, and never reconnects.
    let old = Session::connect(&target, &g, asking(Some(&first))).unwrap();
    runs(&old, w, add);
    let as_of = |folder: &Path| {
        let session = Session::connect(&target, &g, asking(Some(folder)));
        session.map(|session| runs(&session, w, add))
    };
    assert!(!renew(&folder, "switch", &[]).status.success());
    for step in ["add", "switch", "drop"] {
        let before = place.join("before");
        copied(&folder, &before);
        let named: &[&str] = if step == "add" { &["127.0.0.1"] } else { &[] };
        let done = renew(&folder, step, named);
        assert!(done.status.success(), "{step}: {done:?}");
        // Hosts are updated one after the other: a host of this step and one of the step before work together.
        copied(&folder, &hosts[0]);
        std::thread::sleep(RELOAD_WAIT);
        as_of(&folder).unwrap();
        as_of(&before).unwrap();
        if step != "drop" {
            runs(&old, w, add);
        }
        copied(&folder, &hosts[1]);
    }
    std::thread::sleep(RELOAD_WAIT);
    // No client has reconnected: a call alone finds its token revoked.
    let refused = old.step(add, []).unwrap_err();
    assert_eq!(refused.cause, Cause::Unauthenticated, "{refused}");
    as_of(&folder).unwrap();
    as_of(&first).unwrap_err();
}

#[test]
fn an_interrupted_step_of_a_renewal_can_be_repeated() {
    let place = place("again");
    let folder = made(place.join("keys"));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let done = |step: &str, hosts: &[&str]| {
        let done = renew(&folder, step, hosts);
        assert!(done.status.success(), "{step}: {done:?}");
    };
    let (old_token, old_authority) = (read(files::TOKEN), read(files::AUTHORITY));
    done("add", &["127.0.0.1"]);
    // Interrupted before the authority was written.
    std::fs::write(folder.join(files::AUTHORITY), &old_authority).unwrap();
    done("add", &[]);
    let (token, authority) = (read("next-token"), read("next-authority.pem"));
    let waiting = [
        "next-key.pem",
        "next-certificate.pem",
        "next-token",
        "next-authority.pem",
    ];
    let waiting = waiting.map(|name| (name, read(name)));
    done("switch", &[]);
    // Interrupted before the files of the second step were removed.
    for (name, text) in &waiting {
        write_private(&folder.join(name), text);
    }
    done("switch", &[]);
    assert_eq!(
        read(files::TOKEN),
        format!("{token}\n{}\n", old_token.trim())
    );
    assert_eq!(read(files::KEY), waiting[0].1);
    let wrong = renew(&folder, "add", &["127.0.0.1"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("--renew drop"), "{said}");
    done("drop", &[]);
    // Interrupted before the old token was removed.
    std::fs::write(folder.join(files::TOKEN), format!("{token}\n{old_token}")).unwrap();
    done("drop", &[]);
    assert_eq!(
        (read(files::TOKEN).trim(), read(files::AUTHORITY)),
        (&*token, authority)
    );
}

#[test]
fn calls_on_old_connections_use_the_newest_token() {
    let place = place("followed");
    let folder = made(place.join("keys"));
    let cluster = cluster();
    let tasks = ["ps", "worker"].map(|job| server(&cluster, job, &folder));
    let target = tasks[1].target();
    let g = Graph::new();
    let (w, add) = counted(&g);
    let connected = || Session::connect(&target, &g, asking(Some(&folder))).unwrap();
    // The connections stay open.
    let old = [connected(), connected(), connected(), connected()];
    old.iter().for_each(|session| runs(session, w, add));
    for step in ["add", "switch", "drop"] {
        let named: &[&str] = if step == "add" { &["127.0.0.1"] } else { &[] };
        assert!(renew(&folder, step, named).status.success());
        std::thread::sleep(RELOAD_WAIT);
        // The tasks reload their files.
        connected();
        // At the same time: no call may be refused while another one reloads the files.
        std::thread::scope(|scope| {
            for session in &old {
                scope.spawn(|| session.run(add, []).unwrap());
            }
        });
    }
}

#[test]
fn damaged_files_leave_the_previous_keys_in_force() {
    let place = place("damaged");
    let folder = made(place.join("keys"));
    let host = place.join("host");
    copied(&folder, &host);
    let worker = server(&cluster(), "worker", &host);
    let g = Graph::new();
    let connected = || Session::connect(&worker.target(), &g, asking(Some(&folder))).map(|_| ());
    connected().unwrap();
    for (name, text) in [(files::TOKEN, "short"), (files::KEY, "no key")] {
        std::fs::write(host.join(name), text).unwrap();
        std::thread::sleep(RELOAD_WAIT);
        connected().unwrap();
    }
}
