//! Every measured row of the ZN540 beside the model's. `--fit` shows only rows that parameters may be chosen by.
use zonda_flash::experiments::zn540::{Compared, Set, rows, run};
use zonda_flash::profile::{Profile, ProfileError};

fn main() -> Result<(), ProfileError> {
    let fit_only = std::env::args().any(|argument| argument == "--fit");
    let profile = Profile::named("zn540")?;
    println!("set   operation      bytes  zones depth   MiB/s  occ%      measured         model   error  p99 error");
    for row in rows()?.iter().filter(|row| !fit_only || row.set == Set::Fit) {
        print(&run(&profile, row, 1.0, 1)?);
    }
    Ok(())
}

fn print(compared: &Compared) {
    let Compared { row, model } = compared;
    let rate = row.figures.per_second.filter(|_| row.write_mib_s == 0.0);
    let (measured, found) = match rate {
        Some(rate) => (format!("{rate:.0}/s"), model.per_second.map(|rate| format!("{rate:.0}/s"))),
        None => {
            let us = |us: Option<f64>| us.map(|us| format!("{us:.1} us"));
            (us(row.figures.mean_us).unwrap_or_default(), us(model.mean_us))
        }
    };
    let p99 = compared.p99_error().map_or(String::new(), |error| format!("{:+.1} %", error * 100.0));
    println!(
        "{:5} {:13} {:6} {:6} {:5} {:7} {:5} {measured:>13} {:>13} {:+6.1} % {p99:>9}",
        format!("{:?}", row.set).to_lowercase(),
        format!("{:?}", row.operation).to_lowercase(),
        row.bytes,
        row.zones,
        row.depth,
        row.write_mib_s,
        row.occupancy_percent,
        found.unwrap_or_default(),
        compared.error() * 100.0,
    );
}
