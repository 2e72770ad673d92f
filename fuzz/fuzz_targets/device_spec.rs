//! Device strings: parsing does not panic, and a parsed spec prints as a string that parses to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_graph::DeviceSpec;

fuzz_target!(|text: &str| {
    match DeviceSpec::parse(text) {
        Ok(spec) => {
            let printed = spec.to_string();
            assert_eq!(DeviceSpec::parse(&printed).as_ref(), Ok(&spec), "{printed}");
            assert_eq!(spec.or(&DeviceSpec::default()), spec);
            assert!(spec.admits(&spec));
        }
        Err(error) => assert!(error.at <= text.chars().count(), "{error}"),
    }
});
