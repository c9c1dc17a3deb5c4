//! Speed of the error-correcting codes, beside others, as tables in Markdown:
//!
//!     cargo run --release --manifest-path tools/fec_bench/Cargo.toml
//!
//! CPU time of the thread, so that other work on the machine costs less precision, though it still takes caches. Each figure
//! is the best of [`clock::REPEATS`] repeats of 20 ms, with the median behind it.

mod clock;
mod erasures;
mod packets;
mod stream;

fn main() {
    println!("Kernels here: {}.\n", aquila_fec::gf256::Kernel::all().map(name).collect::<Vec<_>>().join(", "));
    erasures::table();
    packets::table();
    stream::table();
}

fn name(kernel: aquila_fec::gf256::Kernel) -> String {
    kernel.instructions().to_string()
}

/// Bytes that look like any.
fn random(len: usize, seed: u64) -> Vec<u8> {
    use rand_chacha::rand_core::{Rng, SeedableRng};
    let mut bytes = vec![0; len];
    rand_chacha::ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
