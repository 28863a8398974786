//! Runs one test body on every back end that this build has.

/// The body must hold on each back end: the operating system and 30 seeds of the simulator, or 200
/// shuttle schedules.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn on_each_backend(body: impl Fn() + Send + Sync + 'static) {
    body();
    for seed in 0..30 {
        zonda_rt::sim::run(seed, || {
            zonda_rt::sim::schedule_probability(0.5);
            body();
        });
    }
}

/// The body must hold on each back end: the operating system and 30 seeds of the simulator, or 200
/// shuttle schedules.
#[cfg(feature = "shuttle")]
pub(crate) fn on_each_backend(body: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(body, 200);
}
