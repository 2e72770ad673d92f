//! Misuse that must not compile, with the compiler's expected messages. The texts are those of one version of the
//! compiler: with another one the test reports that it is skipped.

/// The compiler that wrote the expected texts.
const COMPILER: &str = "rustc 1.95";

#[test]
fn misuse_of_sessions_does_not_compile_and_the_compiler_advises() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = std::process::Command::new(compiler)
        .arg("--version")
        .output();
    let version = String::from_utf8(version.unwrap().stdout).unwrap();
    if !version.starts_with(COMPILER) {
        assert!(std::env::var_os("REQUIRE_TRYBUILD").is_none(), "{version}");
        eprintln!("SKIPPED: the expected texts are those of {COMPILER}, this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
}
