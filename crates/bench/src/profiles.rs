//! The modelled drives that come with the program, for `zonda device profiles`.

use serde_json::json;
use zonda_device::DeviceError;
use zonda_flash::profile::Profile;

use crate::report::Table;
use crate::{BenchError, Result};

/// One line for each profile, or the text of one.
///
/// # Errors
/// `Device` (`BadName`) for a profile that does not exist.
pub fn show(name: Option<&str>, in_json: bool) -> Result<String> {
    let refused = |error: zonda_flash::profile::ProfileError| BenchError::Model { reason: error.0 };
    if let Some(name) = name {
        let unknown = |error: zonda_flash::profile::ProfileError| DeviceError::BadName { reason: error.0 };
        let profile = Profile::named(name).map_err(unknown)?;
        let text = Profile::text(name).map_err(unknown)?;
        return Ok(if in_json { line(&profile).to_string() } else { text.trim_end().to_owned() });
    }
    let profiles = Profile::names().map(Profile::named).collect::<std::result::Result<Vec<_>, _>>().map_err(refused)?;
    if in_json {
        let lines: Vec<String> = profiles.iter().map(|profile| line(profile).to_string()).collect();
        return Ok(lines.join("\n"));
    }
    let mut table = Table::new(&["name", "kind", "bytes", "dies", "what"]).with_text(&["kind", "what"]);
    for profile in &profiles {
        let dies = profile.flash.dies.to_string();
        let bytes = crate::show_bytes(profile.capacity_bytes());
        table.row([profile.name.clone(), kind(profile).to_owned(), bytes, dies, profile.about.clone()]);
    }
    Ok(table.render().trim_end().to_owned())
}

fn kind(profile: &Profile) -> &'static str {
    if profile.zoned.is_some() { "zones" } else { "blocks" }
}

fn line(profile: &Profile) -> serde_json::Value {
    json!({
        "name": profile.name, "kind": kind(profile), "capacity_bytes": profile.capacity_bytes(), "about": profile.about,
        "sources": profile.sources, "channels": profile.flash.channels, "dies": profile.flash.dies,
        "zones": profile.zoned.as_ref().map(|zoned| zoned.zones), "hash": format!("{:016x}", profile.hash()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_profiles_are_shown_and_one_in_full() {
        let all = show(None, false).unwrap();
        assert!(Profile::names().all(|name| all.contains(name)), "{all}");
        assert_eq!(show(None, true).unwrap().lines().count(), Profile::names().count());
        assert!(show(Some("zn540"), false).unwrap().contains("sources"));
        assert!(show(Some("none"), false).unwrap_err().to_string().contains("zn540"));
    }
}
