//! Treatment of bytes and numbers that are no characters, and the attributes of all ops on Unicode.

use thalweg_graph::op::{Allowed, AttrDef, attr, bool_attr, int_attr, str_attr};
use thalweg_graph::{AttrKind, Attrs, Infer, InferError};

use super::encoding::Encoding;
use crate::support::shape_inputs::invalid_value;

pub(super) const ERRORS: AttrDef = str_attr("errors", "replace", &["strict", "replace", "ignore"]);
pub(super) const REPLACEMENT: AttrDef = int_attr("replacement_char", 0xfffd);
pub(super) const REPLACE_CONTROL: AttrDef = bool_attr("replace_control_characters", false);
pub(super) const OUTPUT_ENCODING: AttrDef = AttrDef {
    allowed: Allowed::Strs(&["UTF-8", "UTF-16-BE", "UTF-32-BE"]),
    ..attr("output_encoding", AttrKind::Str)
};

/// The last of the control characters that may be replaced.
const LAST_CONTROL: u32 = 0x1f;

/// Treatment of what is no character.
#[derive(Clone, Copy)]
pub(super) struct Malformed {
    /// The code point in its place; `None` to leave it out.
    replacement: Option<u32>,
    /// It is an error.
    strict: bool,
    /// Control characters are treated so as well.
    control: bool,
}

impl Malformed {
    pub(super) fn of(attrs: &Attrs) -> Malformed {
        let errors = attrs.str("errors");
        let replacement = u32::try_from(attrs.int("replacement_char")).unwrap_or(u32::MAX);
        Malformed {
            replacement: (errors != "ignore").then_some(replacement),
            strict: errors == "strict",
            control: attrs.bool("replace_control_characters"),
        }
    }

    /// The code point that stands for what was read: `None` to leave it out.
    ///
    /// # Errors
    /// It is no character, and that is an error.
    pub(super) fn code_point(self, read: Option<u32>) -> Result<Option<u32>, String> {
        match read.filter(|point| !(self.control && *point <= LAST_CONTROL)) {
            Some(point) => Ok(Some(point)),
            None if self.strict => Err("Invalid formatting on input string: set errors to 'replace' or 'ignore' to take it".to_owned()),
            None => Ok(self.replacement),
        }
    }
}

/// Checks the attributes.
pub(super) fn check_attrs(cx: &Infer<'_>) -> Result<(), InferError> {
    let attrs = cx.attrs();
    let point = attrs.int("replacement_char");
    if !u32::try_from(point).is_ok_and(is_character) {
        let reason = format!(
            "replacement_char out of unicode codepoint range: {point} is no Unicode character"
        );
        return Err(invalid_value(0, reason));
    }
    Ok(())
}

/// Checks the attributes of an op that reads an encoding.
pub(super) fn check_encoding(cx: &Infer<'_>) -> Result<(), InferError> {
    check_attrs(cx)?;
    let encoding = cx.attrs().str("input_encoding");
    if Encoding::of(encoding).is_none() {
        let reason = format!(
            "Could not create converter for input encoding: {encoding}: there are {}",
            Encoding::NAMES.join(", ")
        );
        return Err(invalid_value(0, reason));
    }
    Ok(())
}

/// `true` for the code points of characters: those of Unicode's range that are no surrogates.
pub(super) fn is_character(point: u32) -> bool {
    char::from_u32(point).is_some()
}
