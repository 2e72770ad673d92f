//! Options of linear regressions.

use thalweg_session::SessionOptions;

/// The way to solve a regression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Solver {
    /// Normal equations; QR where their condition asks for it.
    #[default]
    Auto,
    /// Normal equations: one pass, and a Cholesky decomposition. Half of the digits are lost where columns are nearly
    /// dependent.
    NormalEquations,
    /// A QR decomposition of blocks of rows, and a singular value decomposition of R. It takes longer, loses no digits,
    /// and gives the shortest solution where columns depend on each other.
    Qr,
}

/// Linear regression: coefficients that minimise the squares of the residuals.
///
/// The rows are passed over once: `X'X` and `X'Y` are summed in `f64`, all-reduced, and solved by Cholesky. Where columns
/// are nearly dependent, a second pass makes a QR decomposition; [`SolveReport`](crate::SolveReport) has the reason. Rows of
/// `f32` are multiplied in `f32` where that keeps their digits, and otherwise once more in `f64`.
///
/// ```
/// use thalweg_hvd::Hvd;
/// use thalweg_stats::{LinearRegression, Rows, Solver};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hvd = Hvd::init()?;
/// // The second column is twice the first.
/// let x = Tensor::from([[1.0f64, 2.0], [2.0, 4.0], [3.0, 6.0]]);
/// let y = Tensor::from([[5.0f64], [10.0], [15.0]]);
/// let model = LinearRegression::new().intercept(false).fit(&hvd, &Rows::new(x).targets(y))?;
/// assert_eq!(model.report.solver, Solver::Qr);
/// assert_eq!(model.report.rank, Some(1));
/// // The shortest of all solutions.
/// assert!((model.coefficients[0] - 1.0).abs() < 1e-12 && (model.coefficients[1] - 2.0).abs() < 1e-12);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LinearRegression {
    pub(crate) intercept: bool,
    pub(crate) ridge: f64,
    pub(crate) solver: Solver,
    pub(crate) options: Option<SessionOptions>,
}

impl Default for LinearRegression {
    fn default() -> Self {
        LinearRegression::new()
    }
}

impl LinearRegression {
    /// A regression with an intercept, and without a penalty.
    pub fn new() -> LinearRegression {
        LinearRegression {
            intercept: true,
            ridge: 0.0,
            solver: Solver::Auto,
            options: None,
        }
    }

    /// The same with an intercept for each target, or without.
    pub fn intercept(self, intercept: bool) -> LinearRegression {
        LinearRegression { intercept, ..self }
    }

    /// The same with a penalty: `ridge` times the squares of the coefficients is minimised as well. The intercept is free.
    pub fn ridge(self, ridge: f64) -> LinearRegression {
        LinearRegression { ridge, ..self }
    }

    /// The same with another way to solve it.
    pub fn solver(self, solver: Solver) -> LinearRegression {
        LinearRegression { solver, ..self }
    }

    /// The same in a session with these options. By default a rank takes its share of the cores of its host.
    pub fn session(self, options: SessionOptions) -> LinearRegression {
        LinearRegression {
            options: Some(options),
            ..self
        }
    }
}
