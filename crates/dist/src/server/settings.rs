//! Settings of a server's options.

use super::options::ServerOptions;
use crate::limits::settings::{SETTINGS, Setting, SettingError};

impl Setting {
    /// Checks that all options have values that settings may have.
    ///
    /// # Errors
    /// [`SettingError::Zero`].
    pub(crate) fn check_all(options: &ServerOptions) -> Result<(), SettingError> {
        let number = |s: &Setting| s.number(&options.limits, &options.timeouts);
        SETTINGS.iter().try_for_each(|s| s.check(number(s)))
    }

    /// Its value in these options, as [`Setting::set`] takes it.
    pub fn of(&self, options: &ServerOptions) -> String {
        let number = self.number(&options.limits, &options.timeouts);
        self.unit.written(number)
    }

    /// Gives it a value.
    ///
    /// # Errors
    /// The text is no number of its unit, or is zero where that cannot be.
    pub fn set(&self, options: &mut ServerOptions, text: &str) -> Result<(), SettingError> {
        let number = self.unit.read(text)?;
        self.check(number)?;
        self.set_number(&mut options.limits, &mut options.timeouts, number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::unit::Unit;

    fn set_unchecked(setting: &Setting, options: &mut ServerOptions, number: u64) {
        setting.set_number(&mut options.limits, &mut options.timeouts, number);
    }

    #[test]
    fn each_setting_changes_one_number() {
        for setting in SETTINGS {
            let mut options = ServerOptions::listening("");
            let before: Vec<String> = SETTINGS.iter().map(|s| s.of(&options)).collect();
            set_unchecked(setting, &mut options, 12_345);
            let changed = SETTINGS.iter().zip(&before);
            let changed = changed.filter(|(s, before)| s.of(&options) != **before);
            let names: Vec<_> = changed.map(|(s, _)| s.name).collect();
            assert_eq!(names, [setting.name]);
            let mut again = ServerOptions::listening("");
            setting.set(&mut again, &setting.of(&options)).unwrap();
            assert_eq!(setting.of(&again), setting.of(&options));
        }
    }

    #[test]
    fn zero_connections_steps_or_silence_are_refused_by_name() {
        for setting in SETTINGS {
            let zero = if setting.unit == Unit::Time {
                "0s"
            } else {
                "0"
            };
            let mut options = ServerOptions::listening("");
            let set = setting.set(&mut options, zero);
            set_unchecked(setting, &mut options, 0);
            let checked = Setting::check_all(&options);
            match setting.name {
                name @ ("connections" | "steps" | "silence") => {
                    let text = set.unwrap_err().to_string();
                    assert!(text.starts_with(&format!("{name} is 0")), "{text}");
                    assert_eq!(checked, Err(SettingError::Zero(name)));
                }
                _ => assert_eq!((set, checked), (Ok(()), Ok(()))),
            }
        }
    }
}
