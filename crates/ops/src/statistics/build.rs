//! Builder methods of passes over tall matrices.

use thalweg_graph::{Output, Value};
use thalweg_tensor::DType;

/// The results of [`StatisticsOps::cluster_sums`].
#[derive(Clone, Copy, Debug)]
pub struct ClusterOutputs<'g> {
    /// Index of the nearest centroid of each row, i32 `[n]`.
    pub nearest: Output<'g>,
    /// Its squared distance, `[n]`.
    pub distances: Output<'g>,
    /// Weighted sum of the rows of each cluster, f64 `[k, d]`.
    pub sums: Output<'g>,
    /// Sum of the weights of each cluster, f64 `[k]`.
    pub counts: Output<'g>,
    /// Weighted sum of all squared distances, f64.
    pub inertia: Output<'g>,
}

/// Builder methods of passes over the rows of tall matrices, `f32` or `f64`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps, StatisticsOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [-1, 3]);
/// let y = g.placeholder("y", DType::F32, [-1, 1]);
/// let none = g.constant(Vec::<f32>::new());
/// let products = x.gram_matrix(y, none, [0.0f64; 4], DType::F64);
/// assert_eq!(products.shape(), Shape::from([5, 5]));
///
/// let centroids = g.constant([[0.0f32, 0.0, 0.0], [1.0, 1.0, 1.0]]);
/// let [nearest, distances] = x.nearest_centroids(centroids);
/// assert_eq!((nearest.dtype(), distances.dtype()), (DType::I32, DType::F32));
/// assert_eq!(x.cluster_sums(none, centroids).sums.shape(), Shape::from([2, 3]));
/// assert!(g.errors().is_empty());
/// ```
pub trait StatisticsOps<'g>: Sized {
    /// The products of all columns of `Z`, in f64: `Z' W Z`, `[1 + p + k, 1 + p + k]`. `Z` has a column of ones, those of
    /// this matrix (`[n, p]`) and those of `y` (`[n, k]`), less their `shift` (f64 `[p + k]`). `weights` has a weight for
    /// each row, or nothing. Products are made in `products`, f32 or f64. In f32 they take half the time; those of up to 1024
    /// rows are summed in f32 too, and what is too large is infinite. f64 rows need f64.
    fn gram_matrix(
        self,
        y: impl Into<Output<'g>>,
        weights: impl Into<Output<'g>>,
        shift: impl Into<Value<'g>>,
        products: DType,
    ) -> Output<'g>;

    /// The triangular factor `R` of the same `Z`, with the rows of `previous` (f64, as wide as `Z`) above it: `R' R` is
    /// `Z' W Z` and `previous' previous`. Blocks of rows give the factor of all, one after the other.
    fn triangular_factor(
        self,
        y: impl Into<Output<'g>>,
        weights: impl Into<Output<'g>>,
        shift: impl Into<Value<'g>>,
        previous: impl Into<Output<'g>>,
    ) -> Output<'g>;

    /// The nearest of the centroids (`[k, d]`) for each row of this matrix (`[n, d]`), the first of equal ones, as i32,
    /// and its squared distance.
    fn nearest_centroids(self, centroids: impl Into<Output<'g>>) -> [Output<'g>; 2];

    /// A step of Lloyd's algorithm: [`StatisticsOps::nearest_centroids`], and the sums of each cluster. `weights` has a
    /// weight for each row, or nothing.
    fn cluster_sums(
        self,
        weights: impl Into<Output<'g>>,
        centroids: impl Into<Output<'g>>,
    ) -> ClusterOutputs<'g>;
}

impl<'g> StatisticsOps<'g> for Output<'g> {
    #[track_caller]
    fn gram_matrix(
        self,
        y: impl Into<Output<'g>>,
        weights: impl Into<Output<'g>>,
        shift: impl Into<Value<'g>>,
        products: DType,
    ) -> Output<'g> {
        let shift = shift.into().on(self.graph());
        let node = self.graph().op("_GramMatrix").name("gram_matrix");
        let node = node.attr("P", products);
        node.input(self)
            .input(y)
            .input(weights)
            .input(shift)
            .output()
    }

    #[track_caller]
    fn triangular_factor(
        self,
        y: impl Into<Output<'g>>,
        weights: impl Into<Output<'g>>,
        shift: impl Into<Value<'g>>,
        previous: impl Into<Output<'g>>,
    ) -> Output<'g> {
        let shift = shift.into().on(self.graph());
        let node = self
            .graph()
            .op("_TriangularFactor")
            .name("triangular_factor");
        let node = node.input(self).input(y).input(weights).input(shift);
        node.input(previous).output()
    }

    #[track_caller]
    fn nearest_centroids(self, centroids: impl Into<Output<'g>>) -> [Output<'g>; 2] {
        let node = self
            .graph()
            .op("_NearestCentroids")
            .name("nearest_centroids");
        let node = node.input(self).input(centroids).build();
        [node.output(0), node.output(1)]
    }

    #[track_caller]
    fn cluster_sums(
        self,
        weights: impl Into<Output<'g>>,
        centroids: impl Into<Output<'g>>,
    ) -> ClusterOutputs<'g> {
        let node = self.graph().op("_ClusterSums").name("cluster_sums");
        let node = node.input(self).input(weights).input(centroids).build();
        ClusterOutputs {
            nearest: node.output(0),
            distances: node.output(1),
            sums: node.output(2),
            counts: node.output(3),
            inertia: node.output(4),
        }
    }
}
