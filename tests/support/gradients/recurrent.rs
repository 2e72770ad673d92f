//! Cases of gradients: cells of recurrent networks, and products of narrow matrices, all in `f32`.

use thalweg_ops::SourceOps;

use super::case::{GradientCase, mixed, single};

const STEPS: usize = 3;
const BATCH: usize = 2;
const INPUTS: usize = 2;
const CELLS: usize = 3;

pub fn recurrent() -> Vec<GradientCase> {
    let mut all = lstms();
    let rows = INPUTS + CELLS;
    let dims: [&[usize]; 6] = [
        &[BATCH, INPUTS],
        &[BATCH, CELLS],
        &[rows, 2 * CELLS],
        &[rows, CELLS],
        &[2 * CELLS],
        &[CELLS],
    ];
    let inputs = dims.iter().zip(1..).map(|(dims, seed)| mixed(dims, seed));
    all.push(single("GRUBlockCell", inputs.collect(), |g, x| {
        let node = g.op("GRUBlockCell").inputs(x.iter().copied()).build();
        vec![node.output(3)]
    }));
    for (ta, tb) in [(false, false), (false, true), (true, false), (true, true)] {
        let a = mixed(if ta { &[3, 2] } else { &[2, 3] }, 1);
        let b = mixed(if tb { &[4, 3] } else { &[3, 4] }, 2);
        let name = format!("SparseMatMul {ta} {tb}");
        all.push(single(&name, vec![a, b], move |g, x| {
            let node = g.op("SparseMatMul").input(x[0]).input(x[1]);
            let node = node.attr("transpose_a", ta).attr("transpose_b", tb);
            vec![node.output()]
        }));
    }
    all
}

fn lstms() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for op in ["LSTMBlockCell", "BlockLSTM", "BlockLSTMV2"] {
        for peephole in [false, true] {
            let x: &[usize] = match op {
                "LSTMBlockCell" => &[BATCH, INPUTS],
                _ => &[STEPS, BATCH, INPUTS],
            };
            let dims: [&[usize]; 8] = [
                x,
                &[BATCH, CELLS],
                &[BATCH, CELLS],
                &[INPUTS + CELLS, 4 * CELLS],
                &[CELLS],
                &[CELLS],
                &[CELLS],
                &[4 * CELLS],
            ];
            // Without peepholes their weights have no part in the result.
            let of_views = |i: usize| (4..7).contains(&i) && !peephole;
            let kept = (0..dims.len()).filter(|&i| !of_views(i));
            let inputs = kept.map(|i| mixed(dims[i], i as u64 + 1)).collect();
            let name = format!("{op}, peephole {peephole}");
            all.push(single(&name, inputs, move |g, x| {
                let mut x = x.to_vec();
                if !peephole {
                    let unused = g.constant([0.0f32; CELLS]);
                    x.splice(4..4, [unused; 3]);
                }
                let mut node = g.op(op);
                if op != "LSTMBlockCell" {
                    node = node.input(g.constant(STEPS as i64));
                }
                let node = node.inputs(x).attr("use_peephole", peephole);
                let node = node.attr("cell_clip", 0.0f32).build();
                vec![node.output(1), node.output(6)]
            }));
        }
    }
    all
}
