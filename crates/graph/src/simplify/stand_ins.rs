//! Stand-ins: nodes in place of an input that nobody needs, and of a node that does not fit its inputs.

use smallvec::SmallVec;
use thalweg_tensor::Tensor;
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;

use super::Simplifier;
use crate::attr::Attr;
use crate::check::check_node;
use crate::error::{GraphError, Reason};
use crate::node::{Attrs, Fact, Node, NodeId, OutputId};
use crate::op::OpDef;

/// Maximum number of elements of a placeholder that is a constant.
const MAX_ELEMENTS: usize = 16;

impl Simplifier<'_> {
    /// The placeholder of an input that a branch or a loop does not need.
    pub(super) fn unused(&mut self, old: NodeId, input: OutputId) -> Result<OutputId, GraphError> {
        let fact = self.data.fact(input);
        let dtype = fact.map_or(DType::F32, |f| f.dtype);
        // As a constant it has a shape, which devices of one kind need, and is on all devices.
        let zeros = fact
            .filter(|f| dtype.size() > 0 && f.shape.elements().is_some_and(|n| n <= MAX_ELEMENTS));
        let zeros = zeros.and_then(|f| Tensor::zeros(dtype, &f.shape.to_dims()?).ok());
        let shape = zeros.as_ref().map_or(Shape::unknown(), Tensor::shape);
        let key = (self.device(old), dtype, shape.clone());
        if let Some(&unused) = self.unused.get(&key) {
            return Ok(unused);
        }
        let source = self.data.node(old).clone();
        let mut attrs = Attrs::default();
        attrs.set("dtype", Attr::Type(dtype));
        let op = match zeros {
            Some(zeros) => {
                attrs.set("value", Attr::Tensor(zeros));
                self.op(&source, "Const")?
            }
            None => {
                attrs.set("shape", Attr::Shape(shape));
                self.op(&source, "FakeParam")?
            }
        };
        let (attrs, outputs) =
            check_node(op, &[], attrs).map_err(|r| GraphError::of(&source, r))?;
        let node = Node {
            name: format!("{}/unused_{dtype}", source.name),
            outputs,
            ..stand_in(&source, op, attrs)
        };
        let unused = OutputId {
            node: self.push(old, node),
            index: 0,
        };
        self.unused.insert(key, unused);
        Ok(unused)
    }

    /// Replaces a node in a branch or a loop whose inputs do not fit it: it fails if it runs, which is known only then.
    pub(super) fn misfit(
        &mut self,
        old: NodeId,
        inputs: SmallVec<[OutputId; 4]>,
        facts: &[Fact],
        controls: SmallVec<[NodeId; 2]>,
        reason: Reason,
    ) -> Result<(), GraphError> {
        let source = self.data.node(old).clone();
        let failed = |reason| Err(GraphError::of(&source, reason));
        let Some(op) = self.options.ops.and_then(|find| find("_ShapeError")) else {
            return failed(reason);
        };
        let types = |facts: &[Fact]| Attr::Types(facts.iter().map(|f| f.dtype).collect());
        // A user of a reference takes the handle from the input.
        let values = source.outputs.iter().filter(|f| !f.reference);
        let outputs: SmallVec<[Fact; 1]> = values
            .map(|f| Fact::new(f.dtype, f.shape.clone()))
            .collect();
        let mut attrs = Attrs::default();
        attrs.set("Tin", types(facts));
        attrs.set("Tout", types(&outputs));
        attrs.set("op", source.op.name.to_owned().into());
        attrs.set("message", reason.to_string().into());
        let attrs = match check_node(op, facts, attrs) {
            Ok((attrs, _)) => attrs,
            Err(reason) => return failed(reason),
        };
        let node = Node {
            inputs: inputs.clone(),
            controls,
            outputs,
            ..stand_in(&source, op, attrs)
        };
        let id = self.place(old, node, false);
        self.nodes.insert(old, id);
        let mut own = 0..;
        for (index, fact) in (0u32..).zip(&source.outputs) {
            let output = OutputId { node: old, index };
            let here = match fact.reference {
                false => own.next().map(|index| OutputId { node: id, index }),
                true => inputs.first().copied(),
            };
            if let Some(here) = here {
                self.values.entry(output).or_insert(here);
            }
            if fact.reference {
                self.after.insert(output, SmallVec::from_elem(id, 1));
            }
        }
        Ok(())
    }
}

/// A node with the name, device and origin of another one.
fn stand_in(source: &Node, op: &'static OpDef, attrs: Attrs) -> Node {
    Node {
        name: source.name.clone(),
        op,
        inputs: SmallVec::new(),
        controls: SmallVec::new(),
        attrs,
        device: source.device.clone(),
        colocation: source.colocation.clone(),
        outputs: SmallVec::new(),
        origin: source.origin.clone(),
    }
}
