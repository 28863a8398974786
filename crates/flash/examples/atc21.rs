//! The ZNS paper's figures 1 and 5 on the model: `atc21 SCALE [fig1|fig5] [RESERVE_PERMILLE]`.
use zonda_flash::experiments::atc21::{PASSES, overwrite, read_beside_writes};
use zonda_flash::experiments::ranges::Order;
use zonda_flash::profile::{Profile, ProfileError};

const DRIVES: [&str; 3] = ["atc21-zns", "atc21-28op", "atc21-7op"];

fn main() -> Result<(), ProfileError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let scale = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(24);
    let which = arguments.get(1).map(String::as_str);
    let reserve = arguments.get(2).and_then(|text| text.parse().ok());
    if which != Some("fig5") {
        figure_1(scale, reserve)?;
    }
    if which != Some("fig1") {
        figure_5(scale, reserve)?;
    }
    Ok(())
}

fn profile(name: &str, reserve: Option<u64>) -> Result<Profile, ProfileError> {
    let mut profile = Profile::named(name)?;
    if let (Some(drive), Some(reserve)) = (&mut profile.conventional, reserve) {
        drive.reserve_permille = reserve;
    }
    Ok(profile)
}

fn figure_1(scale: u64, reserve: Option<u64>) -> Result<(), ProfileError> {
    println!("figure 1, scale 1/{scale}: steady MiB/s (first pass, amplification at the end, usable GB unscaled)");
    for order in [Order::Random, Order::Sequential] {
        for name in DRIVES {
            let run = overwrite(&profile(name, reserve)?, scale, order, PASSES, 1)?;
            println!(
                "  {order:?} {name}: {:.0?} ({:.0}, {:.2}, {:.0})",
                run.steady_mib_s(),
                run.first_pass_mib_s(),
                run.windows.last().map_or(0.0, |window| window.amplification),
                run.capacity_bytes as f64 * scale as f64 / 1e9
            );
        }
    }
    Ok(())
}

fn figure_5(scale: u64, reserve: Option<u64>) -> Result<(), ProfileError> {
    println!("figure 5: mean read latency in us (p99) at a write target in MiB/s, what was reached");
    let targets = [0.0, 50.0, 150.0, 300.0, 350.0, 400.0, 500.0, 600.0, 800.0, 1024.0];
    for name in DRIVES {
        println!("  {name}");
        for point in read_beside_writes(&profile(name, reserve)?, scale, &targets, 30.0, 1)? {
            println!(
                "    {:5.0}: {:8.1} ({:8.1})  wrote {:6.1} x {:.2}  waited {:6} ns for programs, {:6} for collection",
                point.target_mib_s,
                point.read_us,
                point.read_p99_us,
                point.written_mib_s,
                point.amplification,
                point.parts.suspended_ns + point.parts.die_ns,
                point.parts.collection_ns
            );
        }
    }
    Ok(())
}
