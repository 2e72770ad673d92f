//! The gradient of singular value decompositions (Townsend, *Differentiating the singular value decomposition*, 2016).

use thalweg_graph::error::Reason;
use thalweg_graph::{GradCx, Output};

use super::matrix_nodes::{adjoint, columns, diag, inverse_differences, product, safe_reciprocal};
use crate::array::ArrayOps;

/// `U (dS + (F o (U' dU)) S + ...) V'`, and what `dU` and `dV` have beside the spaces of `U` and `V`.
pub(super) fn svd_gradient<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let graph = g.graph();
    let a = g.input(0);
    let ds = g.dy(0).map(diag);
    let vectors = g.attrs().bool("compute_uv");
    if !vectors {
        let node = graph.op("Svd").input(a).attr("compute_uv", true);
        let node = node.attr("full_matrices", false).build();
        let (u, v) = (node.output(1), node.output(2));
        return ds.map_or_else(
            || a.zeros_like(),
            |ds| product(u, false, product(ds, false, v, true), false),
        );
    }
    let s = g.output(0);
    let sizes = Sizes::of(a);
    let parts = match g.attrs().bool("full_matrices") {
        false => Some([Part::thin(g, 1), Part::thin(g, 2)]),
        true => sizes.full(g),
    };
    let Some([u, v]) = parts else {
        let text = "the gradient of Svd with full_matrices needs matrices of known dimensions that differ by at most one: \
                    use full_matrices = false";
        return graph.fail(&s.name(), "Svd", Reason::Argument(text.to_owned()));
    };
    let f = inverse_differences(s * s);
    let symmetric = |x: Output<'g>, dx: Output<'g>| {
        let part = f * product(x, true, dx, false);
        part + adjoint(part)
    };
    let inner_u = u.grad.map(|du| symmetric(u.own, du) * s.expand_dims(-2));
    let inner_v = v.grad.map(|dv| s.expand_dims(-1) * symmetric(v.own, dv));
    let inner = [ds, inner_u, inner_v].into_iter().flatten();
    let inner = inner.reduce(|sum, part| sum + part);
    let inner = inner.map(|inner| product(u.own, false, product(inner, false, v.own, true), false));
    let inverse = safe_reciprocal(s).expand_dims(-2);
    let beside_u = u.beside().filter(|_| sizes.rows_exceed != Some(false));
    let beside_u = beside_u.map(|rest| product(rest * inverse, false, v.own, true));
    let beside_v = v.beside().filter(|_| sizes.columns_exceed != Some(false));
    let beside_v = beside_v.map(|rest| product(u.own * inverse, false, rest, true));
    let all = [inner, beside_u, beside_v].into_iter().flatten();
    all.reduce(|sum, part| sum + part)
        .unwrap_or_else(|| a.zeros_like())
}

/// Rows and columns, as far as they are known.
struct Sizes {
    rows: Option<usize>,
    columns: Option<usize>,
    /// `true` if there are more rows than columns.
    rows_exceed: Option<bool>,
    /// `true` if there are more columns than rows.
    columns_exceed: Option<bool>,
}

impl Sizes {
    fn of(a: Output<'_>) -> Self {
        let shape = a.shape();
        let (rows, columns) = match shape.dims() {
            Some(&[.., rows, columns]) => (rows, columns),
            _ => (None, None),
        };
        let both = rows.zip(columns);
        Sizes {
            rows,
            columns,
            rows_exceed: both.map(|(m, n)| m > n),
            columns_exceed: both.map(|(m, n)| n > m),
        }
    }

    /// Left and right vectors of full matrices, in the cases that are implemented.
    fn full<'g>(&self, g: &GradCx<'_, 'g>) -> Option<[Part<'g>; 2]> {
        let (m, n) = self.rows.zip(self.columns)?;
        let of = |output, len| match len > m.min(n) {
            true => Part::split(g, output, m.min(n), len),
            false => Part::thin(g, output),
        };
        (m.abs_diff(n) <= 1).then(|| [of(1, m), of(2, n)])
    }
}

/// Left or right singular vectors and their gradient: those with a singular value, and the others of full matrices.
struct Part<'g> {
    own: Output<'g>,
    grad: Option<Output<'g>>,
    others: Option<(Output<'g>, Output<'g>)>,
}

impl<'g> Part<'g> {
    fn thin(g: &GradCx<'_, 'g>, output: u32) -> Self {
        Part {
            own: g.output(output),
            grad: g.dy(output as usize),
            others: None,
        }
    }

    fn split(g: &GradCx<'_, 'g>, output: u32, values: usize, len: usize) -> Self {
        let (x, dx) = (g.output(output), g.dy(output as usize));
        Part {
            own: columns(x, 0, values),
            grad: dx.map(|dx| columns(dx, 0, values)),
            others: dx.map(|dx| (columns(x, values, len), columns(dx, values, len))),
        }
    }

    /// The part of the gradient that is orthogonal to the vectors.
    fn beside(&self) -> Option<Output<'g>> {
        let grad = self.grad?;
        let within = product(self.own, true, grad, false);
        let rest = grad - product(self.own, false, within, false);
        Some(match self.others {
            None => rest,
            Some((x, dx)) => {
                let turned = product(dx, true, self.own, false);
                rest - product(x, false, turned, false)
            }
        })
    }
}
