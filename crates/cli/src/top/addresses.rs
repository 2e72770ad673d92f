//! Addresses of metrics, on the command line and in files.

use std::fs::File;
use std::io::Read;

use crate::failure::Failure;

/// Maximum number of addresses. Each takes a thread.
const MAX_ADDRESSES: usize = 1024;
/// Maximum length of a file of addresses, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Returns the addresses of all arguments, those of files in place of `@FILE`.
///
/// # Errors
/// A file cannot be read, an address has no port, or there are too many.
pub(super) fn expand(arguments: &[String]) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    for argument in arguments {
        match argument.strip_prefix('@') {
            Some(file) => {
                for (number, line) in read(file)?.lines().enumerate() {
                    // A comment ends at the end of its line.
                    let address = line.split('#').next().unwrap_or_default().trim();
                    if !address.is_empty() {
                        let place = format!("{file}:{}: ", number + 1);
                        all.push(checked(address, &place)?);
                    }
                }
            }
            None => all.push(checked(argument, "")?),
        }
    }
    match all.len() {
        0 => Err("the files have no address".into()),
        1..=MAX_ADDRESSES => Ok(all),
        more => Err(format!("{more} addresses are more than {MAX_ADDRESSES}").into()),
    }
}

fn read(file: &str) -> Result<String, Failure> {
    let failed = |e: std::io::Error| format!("{file}: {e}");
    let mut text = String::new();
    let opened = File::open(file).map_err(failed)?;
    let mut limited = opened.take(MAX_FILE + 1);
    limited.read_to_string(&mut text).map_err(failed)?;
    match text.len() as u64 > MAX_FILE {
        true => Err(format!("{file}: it is longer than {} KiB", MAX_FILE >> 10).into()),
        false => Ok(text),
    }
}

/// Returns an address that has a host and a port. A URL of metrics is one too.
fn checked(text: &str, place: &str) -> Result<String, Failure> {
    let address = text.strip_prefix("http://").unwrap_or(text);
    let address = address.strip_suffix("/metrics").unwrap_or(address);
    let parts = address.rsplit_once(':');
    let valid = parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    match valid {
        true => Ok(address.to_owned()),
        false => Err(format!("{place}'{}' is no HOST:PORT", text.escape_debug()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: &[&str]) -> Result<Vec<String>, String> {
        let owned: Vec<_> = arguments.iter().map(|a| (*a).to_owned()).collect();
        expand(&owned).map_err(|e| e.to_string())
    }

    #[test]
    fn files_have_an_address_on_each_line() {
        let file = std::env::temp_dir().join(format!("thalweg-top-{}", std::process::id()));
        std::fs::write(
            &file,
            "# servers\nps0:9101\n\n http://[::1]:9102/metrics # ps1\n",
        )
        .unwrap();
        let argument = format!("@{}", file.display());
        let all = expanded(&["a:1", &argument, "b:2"]).unwrap();
        assert_eq!(all, ["a:1", "ps0:9101", "[::1]:9102", "b:2"]);
        std::fs::write(&file, "ps0:9101\nps1\n").unwrap();
        let error = expanded(&[&argument]).unwrap_err();
        assert!(error.ends_with(":2: 'ps1' is no HOST:PORT"), "{error}");
        std::fs::write(&file, "# none\n").unwrap();
        assert_eq!(
            expanded(&[&argument]).unwrap_err(),
            "the files have no address"
        );
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn other_texts_are_no_addresses() {
        for text in [
            "",
            "host",
            ":9101",
            "host:",
            "host:70000",
            "host:x",
            "\u{1b}[2J",
        ] {
            let error = expanded(&[text]).unwrap_err();
            assert!(error.ends_with("is no HOST:PORT"), "{error}");
            assert!(!error.contains('\u{1b}'));
        }
        let many = vec!["a:1"; MAX_ADDRESSES + 1];
        assert_eq!(
            expanded(&many).unwrap_err(),
            "1025 addresses are more than 1024"
        );
        assert!(
            expanded(&["@/nowhere/file"])
                .unwrap_err()
                .starts_with("/nowhere/file: ")
        );
    }
}
