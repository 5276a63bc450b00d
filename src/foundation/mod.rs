//! What everything else stands on: seeded randomness, statistics, a scalar optimiser and the
//! progress interface. Depends on `std` and the `rand` family only, never on Candle.

pub mod adam;
pub mod demonstration;
pub mod preference_pair;
pub mod preferences;
pub mod progress;
pub mod ranking;
pub mod rng;
pub mod stats;
pub mod vocab;
