//! The gradient of QR decompositions (Roberts and Roberts, *QR and LQ decomposition matrix backpropagation algorithms*, 2020).

use thalweg_graph::error::Reason;
use thalweg_graph::{GradCx, Output};

use super::build::LinalgOps;
use super::matrix_nodes::{adjoint, band_part, columns, product};
use crate::array::SourceOps;
use crate::support::gradient_nodes::or_zeros;

/// The gradient of the matrix.
pub(super) fn qr_gradient<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let [q, r] = [0, 1].map(|i| g.output(i));
    let [dq, dr] = [(q, 0), (r, 1)].map(|(y, i)| or_zeros(g.dy(i), y));
    let shape = g.input(0).shape();
    let (Some(&[.., Some(m), Some(n)]), full) = (shape.dims(), g.attrs().bool("full_matrices"))
    else {
        return unsupported(
            g,
            "matrices whose dimensions are known when the graph is built",
        );
    };
    if full && m > n {
        return unsupported(
            g,
            "full_matrices = false where matrices have more rows than columns",
        );
    }
    if m >= n {
        return tall(q, r, dq, dr);
    }
    // The matrix is [x, y], and R is [u, v]: x is square, and y is Q v.
    let y = columns(g.input(0), m, n);
    let (u, du, dv) = (columns(r, 0, m), columns(dr, 0, m), columns(dr, m, n));
    let dx = tall(q, u, dq + product(y, false, dv, true), du);
    g.graph().concat(&[dx, product(q, false, dv, false)], -1)
}

fn unsupported<'g>(g: &GradCx<'_, 'g>, needed: &str) -> Output<'g> {
    let text = format!("the gradient of Qr needs {needed}");
    g.graph()
        .fail(&g.output(0).name(), "Qr", Reason::Argument(text))
}

/// The gradient where there are at least as many rows as columns.
fn tall<'g>(q: Output<'g>, r: Output<'g>, dq: Output<'g>, dr: Output<'g>) -> Output<'g> {
    // x times the inverse of R'.
    let divided = |x: Output<'g>| adjoint(r.triangular_solve(adjoint(x), false));
    let turn = product(q, true, dq, false);
    let skew = |x: Output<'g>| x - adjoint(x);
    let below = skew(turn) + skew(product(r, false, dr, true));
    let within = dr + divided(band_part(below, -1, 0));
    product(q, false, within, false) + divided(dq - product(q, false, turn, false))
}
