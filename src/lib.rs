//! All of language-model post-training on a laptop CPU, exactly: the library behind the `rlhf-lab`
//! command.
//!
//! Layers, each of which imports only what stands below it:
//!
//! | layer | holds |
//! |---|---|
//! | [`cli`] | the command line: parse, check, dispatch |
//! | [`report`] | text, JSON, CSV, SVG and HTML; the only layer that writes to stdout |
//! | [`demos`] | one file per subcommand: configuration, results, run |
//! | [`algorithms`], [`worlds`] | one file per paper; one file per task. They do not know each other |
//! | [`policy`] | policies and their exact analysis |
//! | [`model`] | GPT-2: network, optimiser, checkpoints |
//! | [`foundation`] | seeded randomness, statistics, a scalar optimiser, progress |

#![warn(missing_docs)]

pub mod algorithms;
pub mod cli;
pub mod demos;
pub mod foundation;
pub mod model;
pub mod policy;
pub mod report;
pub mod worlds;
