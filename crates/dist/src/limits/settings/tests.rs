use super::*;

#[test]
fn every_size_and_count_is_a_counted_limit() {
    for setting in SETTINGS {
        let by_unit = setting.unit != Unit::Time;
        let by_name = ["arrival", "idle", "silence"].contains(&setting.name);
        assert_eq!(setting.counted, by_unit || by_name, "{}", setting.name);
    }
}

#[test]
fn the_book_has_the_meaning_and_the_default_of_every_setting() {
    let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/operations.md");
    let book = std::fs::read_to_string(book).unwrap();
    for s in SETTINGS {
        let row = format!("| `{}` | {} | {} |\n", s.name, s.meaning, s.default);
        assert!(book.contains(&row), "operations.md lacks {row}");
    }
}

#[test]
fn every_default_is_a_number_of_its_unit_or_has_a_rule() {
    for setting in SETTINGS {
        let fixed = setting.unit.read(setting.default).is_ok();
        assert_eq!(fixed, setting.rule.is_none(), "{}", setting.name);
    }
}

#[test]
fn defaults_are_shares_of_the_machine_with_bounds() {
    let machine = |memory, threads, descriptors| Machine {
        memory,
        threads,
        descriptors,
        ..Machine::UNLIMITED
    };
    let of = |name: &str, machine: &Machine| Setting::named(name).unwrap().default_number(machine);
    let small = machine(1 << 30, 100, 1000);
    let large = machine(1 << 40, 1_000_000, 1 << 30);
    let tiny = machine(0, 1, 10);
    for (name, in_tiny, in_small, in_large) in [
        ("memory", 0, 1 << 29, 1 << 39),
        ("message_bytes", 0, 1 << 27, i32::MAX as u64),
        ("session_bytes", 0, 1 << 26, 1 << 36),
        ("graph_nodes", 0, 1 << 16, 4 << 20),
        ("expanded_bytes", 0, 1 << 25, 256 << 20),
        ("steps", 1, 50, 1024),
        ("connections", 1, 750, 65_536),
        ("lease", 14_400_000, 14_400_000, 14_400_000),
        ("silence", 3000, 3000, 3000),
    ] {
        let found = [&tiny, &small, &large].map(|m| of(name, m));
        assert_eq!(found, [in_tiny, in_small, in_large], "{name}");
    }
    // A machine that reports no memory has finite limits.
    assert_eq!(Limits::of(&Machine::UNLIMITED).memory, 1 << 49);
    assert_eq!(Timeouts::default().server_recovery.as_secs(), 300);
}

#[test]
fn every_limit_is_a_setting() {
    let all = format!("{:#?}", Limits::default());
    let fields = all.lines().filter_map(|l| l.strip_prefix("    "));
    let fields = fields.filter(|l| !l.starts_with(' '));
    let names = fields.filter_map(|l| Some(l.split_once(": ")?.0));
    let numbers: Vec<&str> = names.filter(|n| *n != "ops").collect();
    assert!(numbers.len() > 20, "{all}");
    for name in numbers {
        assert!(Setting::named(name).is_some(), "{name} is no setting");
    }
}
