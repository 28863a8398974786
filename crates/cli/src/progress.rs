//! Progress on standard error: a bar on a terminal, nothing on a pipe.

use indicatif::{ProgressBar, ProgressStyle};

/// Progress in bytes read, of a known or unknown number.
pub(crate) fn of_bytes(total: Option<u64>) -> ProgressBar {
    match total {
        Some(total) => bar(total, "{wide_bar} {bytes}/{total_bytes}  {msg}  {eta} left"),
        None => spinner("{spinner} {bytes}  {msg}"),
    }
}

/// Progress of a recovery: bytes of log, structure and images.
pub(crate) fn of_recovery() -> ProgressBar {
    bar(0, "recovering {wide_bar} {bytes}/{total_bytes}  {eta} left")
}

/// Progress in things counted, of a number that may become known later.
pub(crate) fn of_items(name: &str) -> ProgressBar {
    let bar = bar(0, "{msg} {wide_bar} {human_pos}/{human_len}  {eta} left");
    bar.set_message(name.to_owned());
    bar
}

/// A count without an end.
pub(crate) fn of_count(name: &str) -> ProgressBar {
    let spinner = spinner("{spinner} {human_pos} {msg}");
    spinner.set_message(name.to_owned());
    spinner
}

/// Shows `done` of `total`.
pub(crate) fn show(bar: &ProgressBar, done: u64, total: u64) {
    if done.is_multiple_of(EVERY) || done >= total {
        bar.set_length(total.max(done));
        bar.set_position(done);
    }
}

/// Shows a count without an end.
pub(crate) fn show_count(bar: &ProgressBar, done: u64) {
    if done.is_multiple_of(EVERY) {
        bar.set_position(done);
    }
}

/// A bar that is told everything would cost more than the work it shows.
const EVERY: u64 = 256;

fn bar(total: u64, template: &str) -> ProgressBar {
    ProgressBar::new(total).with_style(style(ProgressStyle::default_bar(), template))
}

fn spinner(template: &str) -> ProgressBar {
    ProgressBar::new_spinner().with_style(style(ProgressStyle::default_spinner(), template))
}

fn style(style: ProgressStyle, template: &str) -> ProgressStyle {
    style.template(template).expect("templates are constants")
}
