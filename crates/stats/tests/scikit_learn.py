"""Cases of scikit-learn for crates/stats: `python scikit_learn.py > scikit_learn.json`, with scikit-learn 1.9."""
import json
import warnings

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import pairwise_distances_argmin_min

warnings.filterwarnings("ignore")
rng = np.random.default_rng(11)
cases = {"linear": [], "kmeans": [], "mini_batches": []}


def linear(name, x, y, weights=None, intercept=True, ridge=0.0):
    if ridge:
        model = Ridge(alpha=ridge, fit_intercept=intercept, solver="svd").fit(x, y, weights)
    else:
        # The threshold of singular values is that of our solver, and not scikit-learn's default of 1e-6.
        model = LinearRegression(fit_intercept=intercept, tol=x.shape[1] * np.finfo(float).eps).fit(x, y, weights)
    cases["linear"].append(dict(
        name=name, x=x.tolist(), y=y.tolist(), weights=None if weights is None else weights.tolist(),
        intercept=intercept, ridge=ridge, coefficients=np.atleast_2d(model.coef_).tolist(),
        intercepts=np.atleast_1d(model.intercept_ * np.ones(y.shape[1])).tolist(), predicted=model.predict(x).tolist(),
    ))


def rows(n, p, scale=1.0, offset=0.0):
    return np.round(offset + scale * rng.standard_normal((n, p)), 6)


def targets(x, k=1):
    return np.round(x @ rng.standard_normal((x.shape[1], k)) + 3 + 0.1 * rng.standard_normal((len(x), k)), 6)


x = rows(40, 3)
linear("plain", x, targets(x))
linear("two_targets", x, targets(x, 2))
linear("no_intercept", x, targets(x), intercept=False)
linear("ridge", x, targets(x), ridge=2.5)
linear("ridge_no_intercept", x, targets(x), ridge=0.5, intercept=False)
linear("weights", x, targets(x), weights=np.round(rng.random(40) * 3, 3))
linear("weight_zero", x, targets(x), weights=(np.arange(40) % 2).astype(float))
linear("far_from_zero", rows(50, 2, offset=1e6), rows(50, 1, offset=-1e5))
x = rows(30, 3)
linear("constant_column", np.hstack([x, np.full((30, 1), 7.0)]), targets(x))
linear("duplicate_column", np.hstack([x, x[:, :1]]), targets(x))
linear("rank_deficient", np.hstack([x, x @ rng.standard_normal((3, 2))]), targets(x))
linear("ill_conditioned", np.hstack([x, x[:, :1] + 1e-6 * rows(30, 1)]), targets(x))
linear("units_apart", rows(30, 3) * np.array([1e-7, 1.0, 1e8]), targets(x))
linear("one_column", rows(20, 1), rows(20, 1))
linear("one_row", rows(1, 3), rows(1, 1))
linear("fewer_rows_than_columns", rows(4, 9), rows(4, 1))
linear("duplicate_rows", np.repeat(rows(5, 2), 4, axis=0), np.repeat(rows(5, 1), 4, axis=0))
linear("exact", np.arange(12.0).reshape(6, 2) ** 1.5, np.arange(6.0).reshape(6, 1))


def kmeans(name, x, start, iterations=300, tolerance=0.0, weights=None):
    model = KMeans(len(start), init=start, n_init=1, max_iter=iterations, tol=tolerance, algorithm="lloyd")
    model.fit(x, sample_weight=weights)
    cases["kmeans"].append(dict(
        name=name, x=x.tolist(), start=start.tolist(), iterations=iterations, tolerance=tolerance,
        weights=None if weights is None else weights.tolist(), centroids=model.cluster_centers_.tolist(),
        labels=model.labels_.tolist(), inertia=model.inertia_, found_iterations=model.n_iter_,
    ))


x = rows(60, 4)
kmeans("plain", x, x[:5])
kmeans("limit", x, x[:5], iterations=3)
kmeans("tolerance", x, x[:5], tolerance=1e-2)
kmeans("weights", x, x[:4], weights=np.round(rng.random(60) * 4, 2))
kmeans("far_from_zero", x + 1e5, x[:5] + 1e5)
kmeans("one_cluster", x, x[:1])
kmeans("as_many_clusters_as_rows", x[:6], x[:6])
kmeans("one_column", rows(25, 1), np.array([[-1.0], [0.0], [1.0]]))
kmeans("clusters_that_empty", x, np.vstack([x[:2], np.full((2, 4), 100.0)]))
kmeans("duplicate_rows", np.repeat(rows(6, 2), 3, axis=0), rows(3, 2))


def mini_batches(name, batches, start, weights=None):
    # Without random reassignment, which ours has not either.
    model = MiniBatchKMeans(len(start), init=start, n_init=1, reassignment_ratio=0.0)
    centroids, inertias = start, []
    for number, x in enumerate(batches):
        own = np.ones(len(x)) if weights is None else weights[number]
        inertias.append(float(pairwise_distances_argmin_min(x, centroids)[1] ** 2 @ own))
        model.partial_fit(x, sample_weight=own)
        centroids = model.cluster_centers_
    cases["mini_batches"].append(dict(
        name=name, batches=[x.tolist() for x in batches], start=start.tolist(),
        weights=None if weights is None else [w.tolist() for w in weights],
        centroids=centroids.tolist(), inertias=inertias,
    ))


batches = [rows(n, 3) for n in (20, 20, 7, 30, 1)]
mini_batches("plain", batches, batches[0][:4])
mini_batches("far_from_zero", [x + 1e4 for x in batches], batches[0][:4] + 1e4)
mini_batches("weights", batches, batches[0][:4], [np.round(rng.random(len(x)) * 3, 2) for x in batches])
mini_batches("a_cluster_without_rows", batches, np.vstack([batches[0][:3], np.full((1, 3), 50.0)]))
mini_batches("one_cluster", batches, batches[0][:1])

print(json.dumps(cases))
