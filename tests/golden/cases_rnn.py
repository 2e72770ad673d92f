"""Cells of recurrent networks: LSTMBlockCell, BlockLSTM, GRUBlockCell and their gradients."""

import numpy as np

from inputs import rnd
from reference import f16, f32, i64

STEPS, BATCH, INPUTS, CELLS = 4, 3, 2, 5
TOLERANCE = {"f32": (1e-5, 1e-5), "f16": (2e-2, 2e-2)}


def add(s):
    """Adds the cases of this module."""
    for name, dtype in (("f32", f32), ("f16", f16)):
        for label, attrs in {
            "": {},
            "_peephole": {"use_peephole": True},
            "_clipped": {"cell_clip": 0.25},
            "_unclipped": {"cell_clip": -1.0},
        }.items():
            tol = TOLERANCE[name]
            own = {**attrs, "forget_bias": 0.5}
            s.case("LSTMBlockCell", f"{name}{label}", tol=tol, audit=False, x=rnd(dtype, [BATCH, INPUTS]), **lstm(dtype), **own)
            sequence = {"x": rnd(dtype, [STEPS, BATCH, INPUTS]), **lstm(dtype)}
            whole = {"seq_len_max": np.array(STEPS, i64), **sequence}
            s.case("BlockLSTM", f"{name}{label}", tol=tol, audit=False, **whole, **own)
            s.case("BlockLSTMV2", f"{name}{label}", tol=tol, audit=False, **whole, **attrs)
        for peephole in (False, True):
            gradients(s, f"{name}{'_peephole' * peephole}", dtype, peephole, tol)
    gru(s)


def lstm(dtype):
    """State and weights."""
    return {
        "cs_prev": rnd(dtype, [BATCH, CELLS]),
        "h_prev": rnd(dtype, [BATCH, CELLS]),
        "w": rnd(dtype, [INPUTS + CELLS, 4 * CELLS], -1, 1),
        "wci": rnd(dtype, [CELLS]),
        "wcf": rnd(dtype, [CELLS]),
        "wco": rnd(dtype, [CELLS]),
        "b": rnd(dtype, [4 * CELLS]),
    }


def gradients(s, label, dtype, peephole, tol):
    """Gradients of made-up values, which need not be those of a forward run."""
    gate = {k: rnd(dtype, [STEPS, BATCH, CELLS], 0, 1) for k in ("i", "f", "o")}
    other = {k: rnd(dtype, [STEPS, BATCH, CELLS], -1, 1) for k in ("cs", "ci", "co", "h", "cs_grad", "h_grad")}
    given = {"seq_len_max": np.array(STEPS, i64), "x": rnd(dtype, [STEPS, BATCH, INPUTS])}
    for op in ("BlockLSTMGrad", "BlockLSTMGradV2"):
        s.case(op, label, tol=tol, audit=False, **given, **lstm(dtype), **gate, **other, use_peephole=peephole)
    if not peephole:
        return
    gate = {k: rnd(dtype, [BATCH, CELLS], 0, 1) for k in ("i", "f", "o")}
    other = {k: rnd(dtype, [BATCH, CELLS], -1, 1) for k in ("cs", "ci", "co", "cs_grad", "h_grad")}
    given = {"x": rnd(dtype, [BATCH, INPUTS]), **lstm(dtype), **gate, **other}
    s.case("LSTMBlockCellGrad", label, tol=tol, audit=False, **given, use_peephole=peephole)


def gru(s):
    """GRUBlockCell and its gradient."""
    given = {
        "x": rnd(f32, [BATCH, INPUTS]),
        "h_prev": rnd(f32, [BATCH, CELLS]),
        "w_ru": rnd(f32, [INPUTS + CELLS, 2 * CELLS]),
        "w_c": rnd(f32, [INPUTS + CELLS, CELLS]),
        "b_ru": rnd(f32, [2 * CELLS]),
        "b_c": rnd(f32, [CELLS]),
    }
    s.case("GRUBlockCell", "f32", tol=TOLERANCE["f32"], audit=False, **given)
    values = {k: rnd(f32, [BATCH, CELLS], 0, 1) for k in ("r", "u", "c", "d_h")}
    s.case("GRUBlockCellGrad", "f32", tol=TOLERANCE["f32"], audit=False, **given, **values)
