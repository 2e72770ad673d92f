// Optimizer steps: a variable and its slots, in one pass. Entries are named as their ops and
// take the inputs of these, in that order; then the number of elements, and a flag of an attribute, if
// there is one. Rates are in memory, so that a captured step takes new ones. With row numbers, the rows are updated to which
// they belong, as the sparse ops do.
#include "thalweg.cuh"

typedef Element<T>::Wide W;

__device__ inline W read(const T* scalar) { return widen(scalar[0]); }

// -1, 0 or 1, or NaN for NaN.
__device__ inline W sign(W x) { return x > W(0) ? W(1) : x < W(0) ? W(-1) : x; }

__device__ inline W magnitude(W x) { return x < W(0) ? -x : x; }

__device__ inline W larger(W a, W b) { return a < b ? b : a; }

// Shrinks x at a rate, as FOBOS does: nearer to zero, but not beyond it, and smaller by a factor.
__device__ inline W shrunk(W x, W rate, W l1, W l2) {
    const W nearer = l1 > W(0) ? sign(x) * larger(magnitude(x) - rate * l1, W(0)) : x;
    return nearer / (W(1) + l2 * rate);
}

KERNEL(ResourceApplyGradientDescent, T* var, const T* rate, const T* grad, Index n, TOUCHED) {
    const W alpha = read(rate);
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        var[i] = Narrow<T>::from(widen(var[i]) - alpha * widen(grad[from]));
    });
}

KERNEL(ResourceApplyMomentum, T* var, T* accum, const T* rate, const T* grad, const T* momentum, Index n,
       u32 nesterov, TOUCHED) {
    const W lr = read(rate), decay = read(momentum);
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]), sum = widen(accum[i]) * decay + g;
        const W step = nesterov ? g * lr + sum * decay * lr : sum * lr;
        var[i] = Narrow<T>::from(widen(var[i]) - step);
        accum[i] = Narrow<T>::from(sum);
    });
}

KERNEL(ResourceApplyAdam, T* var, T* m, T* v, const T* beta1_power, const T* beta2_power, const T* rate,
       const T* beta1, const T* beta2, const T* epsilon, const T* grad, Index n, u32 nesterov, TOUCHED) {
    const W b1 = read(beta1), new1 = W(1) - b1, new2 = W(1) - read(beta2), eps = read(epsilon);
    const W alpha = read(rate) * sqrt(W(1) - read(beta2_power)) / (W(1) - read(beta1_power));
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]);
        W mean = widen(m[i]), square = widen(v[i]);
        mean += (g - mean) * new1;
        square += (g * g - square) * new2;
        const W ahead = nesterov ? g * new1 + b1 * mean : mean;
        var[i] = Narrow<T>::from(widen(var[i]) - ahead * alpha / (sqrt(square) + eps));
        m[i] = Narrow<T>::from(mean);
        v[i] = Narrow<T>::from(square);
    });
}

__device__ inline void adagrad(T* var, T* accum, W lr, W eps, const T* grad, Index n, bool grow, TOUCHED) {
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]);
        const W sum = grow ? widen(accum[i]) + g * g : widen(accum[i]);
        var[i] = Narrow<T>::from(widen(var[i]) - lr * g / (sqrt(sum) + eps));
        accum[i] = Narrow<T>::from(sum);
    });
}

KERNEL(ResourceApplyAdagrad, T* var, T* accum, const T* rate, const T* grad, Index n, u32 grow, TOUCHED) {
    adagrad(var, accum, read(rate), W(0), grad, n, grow, TOUCHED_ARGS);
}

KERNEL(ResourceApplyAdagradV2, T* var, T* accum, const T* rate, const T* epsilon, const T* grad, Index n,
       u32 grow, TOUCHED) {
    adagrad(var, accum, read(rate), read(epsilon), grad, n, grow, TOUCHED_ARGS);
}

KERNEL(ResourceApplyRMSProp, T* var, T* ms, T* mom, const T* rate, const T* rho, const T* momentum,
       const T* epsilon, const T* grad, Index n, TOUCHED) {
    const W lr = read(rate), fresh = W(1) - read(rho), decay = read(momentum), eps = read(epsilon);
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]);
        W square = widen(ms[i]);
        square += (g * g - square) * fresh;
        const W step = widen(mom[i]) * decay + lr * g / sqrt(square + eps);
        var[i] = Narrow<T>::from(widen(var[i]) - step);
        ms[i] = Narrow<T>::from(square);
        mom[i] = Narrow<T>::from(step);
    });
}

KERNEL(ResourceApplyCenteredRMSProp, T* var, T* mg, T* ms, T* mom, const T* rate, const T* rho,
       const T* momentum, const T* epsilon, const T* grad, Index n, TOUCHED) {
    const W lr = read(rate), fresh = W(1) - read(rho), decay = read(momentum), eps = read(epsilon);
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]);
        W mean = widen(mg[i]), square = widen(ms[i]);
        square += (g * g - square) * fresh;
        mean += (g - mean) * fresh;
        const W step = widen(mom[i]) * decay + lr * g / sqrt(square - mean * mean + eps);
        var[i] = Narrow<T>::from(widen(var[i]) - step);
        mg[i] = Narrow<T>::from(mean);
        ms[i] = Narrow<T>::from(square);
        mom[i] = Narrow<T>::from(step);
    });
}

KERNEL(ResourceApplyKerasMomentum, T* var, T* accum, const T* rate, const T* grad, const T* momentum,
       Index n, u32 nesterov, TOUCHED) {
    const W lr = read(rate), decay = read(momentum);
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W step = widen(grad[from]) * lr, sum = widen(accum[i]) * decay - step;
        var[i] = Narrow<T>::from(widen(var[i]) + (nesterov ? sum * decay - step : sum));
        accum[i] = Narrow<T>::from(sum);
    });
}

KERNEL(ResourceApplyProximalGradientDescent, T* var, const T* rate, const T* l1, const T* l2,
       const T* grad, Index n, TOUCHED) {
    const W alpha = read(rate), near = read(l1), less = read(l2);
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        var[i] = Narrow<T>::from(shrunk(widen(var[i]) - widen(grad[from]) * alpha, alpha, near, less));
    });
}

KERNEL(ResourceApplyProximalAdagrad, T* var, T* accum, const T* rate, const T* l1, const T* l2,
       const T* grad, Index n, TOUCHED) {
    const W lr = read(rate), near = read(l1), less = read(l2);
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]), sum = widen(accum[i]) + g * g, own = lr / sqrt(sum);
        var[i] = Narrow<T>::from(shrunk(widen(var[i]) - g * own, own, near, less));
        accum[i] = Narrow<T>::from(sum);
    });
}

KERNEL(ResourceApplyAdagradDA, T* var, T* sums, T* squares, const T* grad, const T* rate, const T* l1,
       const T* l2, const i64* global_step, Index n, TOUCHED) {
    const W lr = read(rate), near = read(l1), less = read(l2), steps = W(global_step[0]);
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]), sum = widen(sums[i]) + g, square = widen(squares[i]) + g * g;
        const W kept = near > W(0) ? sign(sum) * larger(magnitude(sum) - near * steps, W(0)) : sum;
        var[i] = Narrow<T>::from(-(lr * kept) / (less * steps * lr + sqrt(square)));
        sums[i] = Narrow<T>::from(sum);
        squares[i] = Narrow<T>::from(square);
    });
}

KERNEL(ResourceApplyAdadelta, T* var, T* accum, T* updates, const T* rate, const T* rho,
       const T* epsilon, const T* grad, Index n, TOUCHED) {
    const W lr = read(rate), decay = read(rho), fresh = W(1) - decay, eps = read(epsilon);
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]), square = widen(accum[i]) * decay + g * g * fresh;
        const W old = widen(updates[i]), update = sqrt(old + eps) / sqrt(square + eps) * g;
        var[i] = Narrow<T>::from(widen(var[i]) - update * lr);
        accum[i] = Narrow<T>::from(square);
        updates[i] = Narrow<T>::from(old * decay + update * update * fresh);
    });
}

KERNEL(ResourceApplyAdamWithAmsgrad, T* var, T* m, T* v, T* vhat, const T* beta1_power,
       const T* beta2_power, const T* rate, const T* beta1, const T* beta2, const T* epsilon,
       const T* grad, Index n, TOUCHED) {
    const W new1 = W(1) - read(beta1), new2 = W(1) - read(beta2), eps = read(epsilon);
    const W alpha = read(rate) * sqrt(W(1) - read(beta2_power)) / (W(1) - read(beta1_power));
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]);
        W mean = widen(m[i]), square = widen(v[i]);
        mean += (g - mean) * new1;
        square += (g * g - square) * new2;
        const W most = larger(widen(vhat[i]), square);
        var[i] = Narrow<T>::from(widen(var[i]) - mean * alpha / (sqrt(most) + eps));
        m[i] = Narrow<T>::from(mean);
        v[i] = Narrow<T>::from(square);
        vhat[i] = Narrow<T>::from(most);
    });
}

KERNEL(ResourceApplyAdaMax, T* var, T* m, T* v, const T* beta1_power, const T* rate, const T* beta1,
       const T* beta2, const T* epsilon, const T* grad, Index n, TOUCHED) {
    const W new1 = W(1) - read(beta1), decay = read(beta2), eps = read(epsilon);
    const W alpha = read(rate) / (W(1) - read(beta1_power));
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]), most = larger(decay * widen(v[i]), magnitude(g));
        W mean = widen(m[i]);
        mean += (g - mean) * new1;
        var[i] = Narrow<T>::from(widen(var[i]) - alpha * (mean / (most + eps)));
        m[i] = Narrow<T>::from(mean);
        v[i] = Narrow<T>::from(most);
    });
}

// x^-power; the usual power is a square root.
__device__ inline W raised(W x, W power) { return power == W(-0.5) ? sqrt(x) : pow(x, -power); }

__device__ inline void ftrl(T* var, T* accum, T* linear, const T* grad, W rate, W l1, W l2, W shrinkage,
                            W power, Index n, bool by_lr, TOUCHED) {
    const W lr = by_lr ? W(1) : rate, scale = by_lr ? rate : W(1), near = l1 * scale;
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W x = widen(var[i]), g = widen(grad[from]), old = widen(accum[i]), sum = old + g * g;
        const W root = raised(sum, power), added = g + (shrinkage + shrinkage) * x;
        const W z = widen(linear[i]) + added * scale - (root - raised(old, power)) / lr * x;
        const W kept = (near * sign(z) - z) / (root / lr + (l2 + l2) * scale);
        var[i] = Narrow<T>::from(magnitude(z) > near ? kept : W(0));
        accum[i] = Narrow<T>::from(sum);
        linear[i] = Narrow<T>::from(z);
    });
}

KERNEL(ResourceApplyFtrl, T* var, T* accum, T* linear, const T* grad, const T* rate, const T* l1,
       const T* l2, const T* power, Index n, u32 by_lr, TOUCHED) {
    ftrl(var, accum, linear, grad, read(rate), read(l1), read(l2), W(0), read(power), n, by_lr, TOUCHED_ARGS);
}

KERNEL(ResourceApplyFtrlV2, T* var, T* accum, T* linear, const T* grad, const T* rate, const T* l1,
       const T* l2, const T* shrinkage, const T* power, Index n, u32 by_lr, TOUCHED) {
    ftrl(var, accum, linear, grad, read(rate), read(l1), read(l2), read(shrinkage), read(power), n, by_lr, TOUCHED_ARGS);
}

KERNEL(ResourceApplyAddSign, T* var, T* m, const T* rate, const T* alpha, const T* decay, const T* beta,
       const T* grad, Index n, TOUCHED) {
    const W lr = read(rate), base = read(alpha), weight = read(decay), keep = read(beta);
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]), mean = widen(m[i]) * keep + g * (W(1) - keep);
        const W step = lr * (base + weight * sign(g) * sign(mean)) * g;
        var[i] = Narrow<T>::from(widen(var[i]) - step);
        m[i] = Narrow<T>::from(mean);
    });
}

KERNEL(ResourceApplyPowerSign, T* var, T* m, const T* rate, const T* logbase, const T* decay,
       const T* beta, const T* grad, Index n, TOUCHED) {
    const W lr = read(rate), base = read(logbase), weight = read(decay), keep = read(beta);
    each_update(n, TOUCHED_ARGS, [&](Index i, Index from) {
        const W g = widen(grad[from]), mean = widen(m[i]) * keep + g * (W(1) - keep);
        const W step = lr * exp(base * weight * sign(g) * sign(mean)) * g;
        var[i] = Narrow<T>::from(widen(var[i]) - step);
        m[i] = Narrow<T>::from(mean);
    });
}
