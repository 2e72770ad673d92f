use proptest::prelude::*;

use super::*;

fn expanded(list: &str) -> String {
    expand_hosts(list).unwrap().join(" ")
}

/// Lists with the output of `scontrol show hostnames` of Slurm 22.05.
const SLURM_LISTS: &[(&str, &str)] = &[
    ("linux[1,2]", "linux1 linux2"),
    ("alpha,beta,gamma", "alpha beta gamma"),
    ("jean-zay-ia810", "jean-zay-ia810"),
    (
        "gpu-dy-g4dnxlarge-[1-4]",
        "gpu-dy-g4dnxlarge-1 gpu-dy-g4dnxlarge-2 gpu-dy-g4dnxlarge-3 gpu-dy-g4dnxlarge-4",
    ),
    ("c1009a-s17,c1010a-s11", "c1009a-s17 c1010a-s11"),
    (
        "b24-[1-2,5-6], b25-[1,4],b25-[2-3,13]",
        "b24-1 b24-2 b24-5 b24-6 b25-1 b25-4 b25-2 b25-3 b25-13",
    ),
    (
        "node1g[0010,0011],node2g0005,node3g0007",
        "node1g0010 node1g0011 node2g0005 node3g0007",
    ),
    (
        "nodeA,nodeB[001,003],nodeC",
        "nodeA nodeB001 nodeB003 nodeC",
    ),
    ("host[001,003-004,006]", "host001 host003 host004 host006"),
    ("nodes[006,011]", "nodes006 nodes011"),
    ("[1-3,5-6]", "1 2 3 5 6"),
    ("foo[005,4,11-13]", "foo005 foo4 foo11 foo12 foo13"),
    ("r[1-2]n[01-03]", "r1n01 r1n02 r1n03 r2n01 r2n02 r2n03"),
    ("a[1-2][3-4]", "a13 a14 a23 a24"),
    ("n[08-11]", "n08 n09 n10 n11"),
    ("n[8-011]", "n8 n9 n10 n11"),
    ("n[01-3]", "n01 n02 n03"),
    ("n[098-102]", "n098 n099 n100 n101 n102"),
    ("n[1-3],n2,n1", "n1 n2 n3 n2 n1"),
    ("n[2,1,2]", "n2 n1 n2"),
    ("x[00-00]", "x00"),
    ("a b c", "a b c"),
    ("a, b ,c", "a b c"),
    ("a,,b", "a b"),
    (",a,", "a"),
];

#[test]
fn lists_expand_as_scontrol_expands_them() {
    for (list, names) in SLURM_LISTS {
        assert_eq!(expanded(list), *names, "{list}");
    }
}

#[test]
fn text_may_follow_brackets_and_the_last_bracket_is_the_fastest() {
    assert_eq!(expanded("a-[9-11]-x"), "a-9-x a-10-x a-11-x");
    assert_eq!(
        expanded("a[1-2]b[3-4]c[5-6]"),
        "a1b3c5 a1b3c6 a1b4c5 a1b4c6 a2b3c5 a2b3c6 a2b4c5 a2b4c6"
    );
    assert_eq!(expanded(""), "");
}

#[test]
fn a_malformed_list_is_an_error_that_names_the_byte() {
    let long = "x".repeat(300);
    let cases = [
        ("b,a[1-", 3, "a bracket is not closed"),
        ("a1]", 2, "a bracket is closed that was not opened"),
        ("a[[1]]", 2, "a bracket is inside of another one"),
        ("a[]", 2, "a number is missing"),
        ("a[1,,2]", 4, "a number is missing"),
        ("a[1,]", 4, "a number is missing"),
        ("a[x]", 2, "a number is missing"),
        ("a[+1]", 2, "a number is missing"),
        ("a[1, 2]", 4, "a number is missing"),
        ("a[1-2-3]", 2, "a number is missing"),
        ("a[-3]", 2, "a number is missing"),
        ("é[3-1]", 3, "a range ends before it begins"),
        (
            "a[0-9999999999999999999]",
            2,
            "a number has more than 18 digits",
        ),
        ("a[0-65536]", 0, "there are more than 65536 hosts"),
        (
            "a[1-40000],b[1-40000]",
            11,
            "there are more than 65536 hosts",
        ),
        (
            "a[1-999999][1-999999][1-999999][1-999999]",
            0,
            "there are more than 65536 hosts",
        ),
        (&long, 0, "a name is longer than 255 bytes"),
    ];
    for (list, offset, reason) in cases {
        let error = expand_hosts(list).unwrap_err();
        assert_eq!((error.offset, error.reason), (offset, reason), "{list}");
    }
    assert_eq!(expand_hosts("a[0-65535]").unwrap().len(), 65_536);
}

#[test]
fn names_are_compressed_to_ranges_in_their_order() {
    let cases = [
        ("n1 n3 n2 n01 m-a n02", "n[1,3,2,01],m-a,n02"),
        ("n8 n9 n10 n11", "n[8-11]"),
        ("n08 n09 n10 n11", "n[08-11]"),
        ("n99 n100 n0101", "n[99-100,0101]"),
        ("n1 n1 n2", "n[1,1-2]"),
        ("a", "a"),
        ("7", "7"),
        ("1 2 3", "[1-3]"),
        ("", ""),
    ];
    for (names, list) in cases {
        let names: Vec<&str> = names.split_whitespace().collect();
        assert_eq!(compress_hosts(&names), list);
    }
}

/// Names with numbers of few digits, so that some follow each other.
fn names() -> impl Strategy<Value = Vec<String>> {
    let name = "(n|m-|r1n|0|)(0?[0-3]|9|10|99|100|[0-9]{17,21})|[a-z.-]{1,5}";
    prop::collection::vec(name, 0..40)
}

proptest! {
    #[test]
    fn a_compressed_list_expands_to_its_names(names in names()) {
        let list = compress_hosts(&names);
        prop_assert_eq!(expand_hosts(&list).unwrap(), names, "{}", list);
    }

    #[test]
    fn any_text_expands_or_is_an_error(list in r"[a1-3\[\],\- é0]{0,24}") {
        if let Ok(names) = expand_hosts(&list) {
            prop_assert!(names.len() <= MAX_HOSTS);
            prop_assert_eq!(expand_hosts(&compress_hosts(&names)).unwrap(), names);
        }
    }
}
