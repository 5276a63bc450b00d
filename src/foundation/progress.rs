//! How a running demo tells what it is doing, without knowing who listens.

/// Receives the progress of a run. Shared by worker threads, hence `Sync`; implementations must
/// not influence results.
pub trait Progress: Sync {
    /// A new stage of `total` units begins.
    fn begin(&self, stage: &str, total: u64);
    /// `units` more are done.
    fn advance(&self, units: u64);
    /// `units` are done in all.
    fn reach(&self, units: u64);
    /// The live value of a metric, such as `tv 0.012`.
    fn metric(&self, text: &str);
    /// Something the user should know, and did not ask for, such as that a model is trained first.
    fn note(&self, text: &str);
}

/// Listens to nothing: for tests, benches and redirected output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _stage: &str, _total: u64) {}
    fn advance(&self, _units: u64) {}
    fn reach(&self, _units: u64) {}
    fn metric(&self, _text: &str) {}
    fn note(&self, _text: &str) {}
}
