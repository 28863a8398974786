//! `zonda zones`: a map of the zones.

use clap::Args;
use indicatif::HumanBytes;
use serde_json::{Value, json};
use zonda::Zone;

use crate::exit::Exit;
use crate::output::Output;
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  zonda zones app.zonda            a picture: one letter and one digit for each zone
  zonda zones app.zonda --list     one line for each zone that is not empty
  zonda zones app.zonda --json     a JSON object for each zone";

/// Zones on one line of the picture.
const ZONES_PER_LINE: usize = 24;

const LEGEND: &str = "\
H hot leaves   C cold leaves   R relocated leaves   P leaves in place   V long values   L log   M MetaLog   .. empty
?  of an earlier life
the digit: live share in tenths, * for all of it; small letters: still being written";

/// Shows what lives in each zone
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Zones {
    #[command(flatten)]
    store: StoreArgs,
    /// One line for each zone that is not empty
    #[arg(long, conflicts_with = "json")]
    list: bool,
    /// One JSON object for each zone
    #[arg(long)]
    json: bool,
}

impl Zones {
    /// # Errors
    /// Those of opening and reading.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let zones = self.store.open_read_only()?.zones()?;
        let mut out = Output::new();
        match () {
            () if self.json => zones.iter().try_for_each(|zone| out.json(&as_json(zone)))?,
            () if self.list => list(&zones, &mut out)?,
            () => picture(&zones, &mut out)?,
        }
        out.finish()?;
        Ok(Exit::Done)
    }
}

fn picture(zones: &[Zone], out: &mut Output) -> std::io::Result<()> {
    let shown = zones.iter().rposition(|zone| !is_empty(zone)).map_or(0, |last| last + 1);
    for (line, row) in zones[..shown].chunks(ZONES_PER_LINE).enumerate() {
        let cells: Vec<String> = row.iter().map(cell).collect();
        out.line(format!("{:>6}  {}", line * ZONES_PER_LINE, cells.join(" ")))?;
    }
    if shown < zones.len() {
        out.line(format!("{:>6}  and {} more empty zones", shown, zones.len() - shown))?;
    }
    out.line(LEGEND)
}

fn cell(zone: &Zone) -> String {
    if is_empty(zone) {
        return "..".to_owned();
    }
    let letter = match zone.content {
        Some("pages") => 'P',
        Some("hot") => 'H',
        Some("cold") => 'C',
        Some("relocated") => 'R',
        Some("values") => 'V',
        Some("log") => 'L',
        Some("meta") => 'M',
        _ => '?',
    };
    let letter = if zone.state == "full" { letter } else { letter.to_ascii_lowercase() };
    let share = if zone.live_bytes >= zone.written_bytes { '*' } else { tenths(zone) };
    format!("{letter}{share}")
}

/// The live share of what can be in the zone, below 1, as a digit.
fn tenths(zone: &Zone) -> char {
    let tenths = zone.live_bytes.saturating_mul(10) / zone.written_bytes.max(1);
    u32::try_from(tenths).ok().and_then(|digit| char::from_digit(digit, 10)).unwrap_or('9')
}

fn list(zones: &[Zone], out: &mut Output) -> std::io::Result<()> {
    out.line(format!(
        "{:>6}  {:<16}  {:<9}  {:>11}  {:>11}  {:>10}",
        "zone", "state", "holds", "live", "written", "generation"
    ))?;
    zones.iter().filter(|zone| !is_empty(zone)).try_for_each(|zone| {
        let holds = if zone.is_condemned { "(dead)" } else { zone.content.unwrap_or("-") };
        let [live, written] = [zone.live_bytes, zone.written_bytes].map(|bytes| HumanBytes(bytes).to_string());
        let Zone { number, state, generation, .. } = zone;
        out.line(format!("{number:>6}  {state:<16}  {holds:<9}  {live:>11}  {written:>11}  {generation:>10}"))
    })
}

fn is_empty(zone: &Zone) -> bool {
    zone.state == "empty"
}

fn as_json(zone: &Zone) -> Value {
    json!({
        "zone": zone.number, "state": zone.state, "holds": zone.content, "live_bytes": zone.live_bytes,
        "written_bytes": zone.written_bytes, "capacity_bytes": zone.capacity_bytes,
        "generation": zone.generation, "waits_for_reset": zone.is_condemned,
    })
}
