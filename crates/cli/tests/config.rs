//! Tests of the config file of `thalweg server`.

mod support;

use support::{Folder, fails, works};

fn in_file(name: &str, text: &str) -> (Folder, String) {
    let folder = Folder::new(name);
    let path = folder.path().join("server.toml");
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

/// Line of a setting, and the comment with its origin.
fn shown<'a>(text: &'a str, name: &str) -> (&'a str, &'a str) {
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|l| {
        let l = l.trim_start_matches("# ");
        l.split(" = ").next() == Some(name)
    });
    let at = at.unwrap_or_else(|| panic!("no {name} in {text}"));
    (lines[at], lines[at - 1])
}

#[test]
fn flags_override_the_file_and_the_file_overrides_defaults() {
    let text = "lease = \"90min\"\nmessage_bytes = 1048576\n\nsessions = 7\nfiles = [\"/tmp\"]\n";
    let (_folder, path) = in_file("config-order", text);
    let said = works(&[
        "server",
        "--config",
        &path,
        "--sessions",
        "9",
        "--show-config",
    ]);
    assert_eq!(
        shown(&said, "sessions"),
        ("sessions = 9", "# (from --sessions)")
    );
    let from = format!("# (from {path}:1)");
    assert_eq!(shown(&said, "lease"), ("lease = \"90min\"", &*from));
    let from = format!("# (from {path}:2)");
    assert_eq!(
        shown(&said, "message_bytes"),
        ("message_bytes = 1048576", &*from)
    );
    assert_eq!(shown(&said, "files").0, "files = [\"/tmp\"]");
    let (job, from) = shown(&said, "job");
    assert_eq!((job, from), ("job = \"localhost\"", "# (the default)"));
    let (_, from) = shown(&said, "memory");
    assert!(from.contains("half of the memory"), "{from}");
}

/// The `number`th value of a setting, in the syntax of the file; its default is `default`.
fn another(name: &str, default: &str, folder: &Folder, number: usize) -> String {
    let place = |what: &str| folder.at(&format!("{what}-{number}"));
    match name {
        "job" => format!("\"job{number}\""),
        "listen" | "metrics" | "ps_hosts" | "worker_hosts" => format!("\"127.0.0.1:{number}\""),
        "log_level" => ["\"warn\"", "\"debug\""][number % 2].to_owned(),
        "log_format" => ["\"json\"", "\"text\""][number % 2].to_owned(),
        "files" => {
            std::fs::create_dir_all(place("files")).unwrap();
            format!("[\"{}\"]", place("files"))
        }
        "ops" => {
            std::fs::write(place("ops"), "MatMul\n").unwrap();
            format!("\"{}\"", place("ops"))
        }
        "protection" => {
            works(&["protect", &place("keys"), "127.0.0.1"]);
            format!("\"{}\"", place("keys"))
        }
        "drain_checkpoint" => format!("\"{}\"", place("drain")),
        _ if default == "false" => "true".to_owned(),
        bytes if bytes == "memory" || bytes.ends_with("bytes") => format!("\"{number}MiB\""),
        _ if default.starts_with('"') => format!("\"{number}s\""),
        _ => number.to_string(),
    }
}

#[test]
fn every_setting_is_read_from_the_file_and_overridden_by_a_flag() {
    let folder = Folder::new("config-every");
    let said = works(&["server", "--show-config"]);
    let lines = said
        .lines()
        .filter_map(|l| l.trim_start_matches("# ").split_once(" = "));
    let settings: Vec<(&str, &str)> = lines.filter(|(name, _)| !name.contains(' ')).collect();
    assert!(settings.len() > 35, "{settings:?}");
    // All values differ, so that a mix-up of settings is seen.
    let values = |from: usize| -> Vec<String> {
        let all = settings.iter().enumerate();
        let one = |(i, (name, default)): (usize, &(&str, &str))| {
            another(name, default, &folder, from + 2 * i)
        };
        all.map(one).collect()
    };
    let (in_file, by_flag) = (values(10), values(1011));
    let lines = settings.iter().zip(&in_file);
    let text: String = lines.map(|((n, _), v)| format!("{n} = {v}\n")).collect();
    let (_folder, path) = self::in_file("config-all", &text);
    let said = works(&["server", "--config", &path, "--show-config"]);
    for (i, ((name, _), value)) in settings.iter().zip(&in_file).enumerate() {
        let (line, from) = (
            format!("{name} = {value}"),
            format!("# (from {path}:{})", i + 1),
        );
        assert_eq!(shown(&said, name), (&*line, &*from));
    }
    let mut asked = vec!["server".to_owned(), "--config".to_owned(), path];
    for ((name, default), value) in settings.iter().zip(&by_flag) {
        asked.push(format!("--{}", name.replace('_', "-")));
        if *default != "false" {
            asked.push(value.trim_matches(['[', ']', '"']).to_owned());
        }
    }
    asked.push("--show-config".to_owned());
    let asked: Vec<&str> = asked.iter().map(|a| &**a).collect();
    let said = works(&asked);
    for ((name, _), value) in settings.iter().zip(&by_flag) {
        let line = format!("{name} = {value}");
        let from = format!("# (from --{})", name.replace('_', "-"));
        assert_eq!(shown(&said, name), (&*line, &*from));
    }
}

#[test]
fn zero_connections_steps_or_silence_are_refused_by_name() {
    for (name, zero) in [("connections", "0"), ("steps", "0"), ("silence", "0s")] {
        let said = fails(&["server", &format!("--{name}"), zero]);
        assert!(said.contains(&format!("{name} is 0")), "{said}");
        let (_folder, path) = in_file(
            &format!("config-zero-{name}"),
            &format!("{name} = \"{zero}\"\n"),
        );
        let said = fails(&["server", "--config", &path]);
        let place = format!("{path}:1: {name}");
        assert!(said.contains(&place) && said.contains(" is 0"), "{said}");
    }
}

#[test]
fn the_shown_config_is_a_config_file_with_the_same_values() {
    let said = works(&[
        "server",
        "--show-config",
        "--steps",
        "12",
        "--lease",
        "5min",
    ]);
    let (_folder, path) = in_file("config-again", &said);
    let again = works(&["server", "--config", &path, "--show-config"]);
    let values = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|l| !l.starts_with("# ("));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(values(&said), values(&again));
}

#[test]
fn an_error_in_the_file_names_the_file_and_the_line() {
    for (name, text, line, what) in [
        (
            "unknown",
            "job = \"ps\"\nmesage_bytes = 3\n",
            2,
            "did you mean 'message_bytes'",
        ),
        ("unit", "\n\nlease = \"soon\"\n", 3, "write 250ms, 90s"),
        (
            "number",
            "task = \"first\"\n",
            1,
            "'first' is no such number",
        ),
        ("kind", "files = true\n", 1, "list of texts"),
        ("flag", "no_shared_memory = \"yes\"\n", 1, "true or false"),
        ("syntax", "job = \"ps\"\nlease = \n", 2, ""),
        ("twice", "job = \"ps\"\njob = \"worker\"\n", 2, "duplicate"),
        (
            "folder",
            "files = [\"/nowhere/at/all\"]\n",
            1,
            "/nowhere/at/all",
        ),
    ] {
        let (_folder, path) = in_file(&format!("config-{name}"), text);
        let said = fails(&["server", "--config", &path, "--show-config"]);
        let place = format!("{path}:{line}");
        assert!(said.contains(&place) && said.contains(what), "{said}");
    }
    let missing = fails(&["server", "--config", "/nowhere/server.toml"]);
    assert!(missing.contains("/nowhere/server.toml"), "{missing}");
    let flag = fails(&["server", "--message-bytes", "much"]);
    assert!(flag.contains("--message-bytes"), "{flag}");
}

#[test]
fn the_book_documents_every_setting() {
    let book =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/operations.md");
    let book = std::fs::read_to_string(book).unwrap();
    let said = works(&["server", "--show-config"]);
    let lines = said
        .lines()
        .filter_map(|l| l.trim_start_matches("# ").split_once(" = "));
    let names: Vec<&str> = lines
        .map(|(name, _)| name)
        .filter(|n| !n.contains(' '))
        .collect();
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        assert!(
            book.contains(&format!("`{name}`")),
            "operations.md does not say what {name} is"
        );
    }
}
