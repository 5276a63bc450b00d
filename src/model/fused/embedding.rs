//! Token plus position embedding.

use super::real::Real;

/// `x [N, C]` = `wte[token] + wpe[position]`, from `wte [V, C]` and `wpe [P, C]`.
pub fn forward<R: Real>(tokens: &[u32], positions: &[u32], wte: &[R], wpe: &[R], x: &mut [R]) {
    let c = x.len() / tokens.len().max(1);
    for ((x, &token), &position) in x.chunks_exact_mut(c.max(1)).zip(tokens).zip(positions) {
        let (token, position) = (row(wte, token, c), row(wpe, position, c));
        for ((x, &t), &p) in x.iter_mut().zip(token).zip(position) {
            *x = t + p;
        }
    }
}

/// Adds `dx [N, C]` to the rows of `dwte [V, C]` and `dwpe [P, C]` that made it.
pub fn backward<R: Real>(tokens: &[u32], positions: &[u32], dx: &[R], dwte: &mut [R], dwpe: &mut [R]) {
    let c = dx.len() / tokens.len().max(1);
    for ((dx, &token), &position) in dx.chunks_exact(c.max(1)).zip(tokens).zip(positions) {
        for (index, table) in [(token, &mut *dwte), (position, &mut *dwpe)] {
            let start = index as usize * c;
            for (total, &d) in table[start..start + c].iter_mut().zip(dx) {
                *total += d;
            }
        }
    }
}

fn row<R>(table: &[R], index: u32, c: usize) -> &[R] {
    &table[index as usize * c..][..c]
}
