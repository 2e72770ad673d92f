//! The functions of a file: their uses with attributes, and their definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message;
use thalweg_graph::{Attr, Func, Function, Graph};

use crate::attr;
use crate::dtype;
use crate::error::{ImportError, Problem, ValueError};
use crate::messages::op_def::ArgDef;
use crate::messages::{FunctionDef, GraphDef, NameAttrList, OpDef};
use crate::names;
use crate::survey::{Library, call_op};
use crate::tensor::Budget;

/// The most functions that one file may define; with attributes, a function can have any number of
/// instances.
const MAX_FUNCTIONS: usize = 1 << 16;
/// The longest list of attributes of a use of a function, in bytes.
const MAX_ATTR_BYTES: usize = 1 << 12;

/// A function with the attributes that it is used with.
#[derive(Clone)]
pub(super) struct Use<'d> {
    /// Its name in the graph's library.
    pub name: String,
    pub def: &'d FunctionDef,
    pub given: BTreeMap<String, Attr>,
}

/// Builds a function that is used.
pub(super) type BuildBody =
    for<'d> fn(&mut Functions<'d>, &Use<'d>, &mut Budget) -> Result<Function, ImportError>;

/// The functions of a file.
pub(super) struct Functions<'d> {
    pub graph: &'d Graph,
    pub library: Library<'d>,
    pub origin: Arc<str>,
    /// By name in the file and attributes: the name in the graph.
    names: BTreeMap<(String, Vec<u8>), String>,
    /// The names in the graph.
    taken: BTreeSet<String>,
    pub to_do: Vec<Use<'d>>,
    gradients: BTreeMap<&'d str, &'d str>,
    /// The functions whose gradients are requested, by name in the graph, and the names of the
    /// gradients.
    pub derived: Vec<(String, String)>,
    nodes: usize,
    max_nodes: usize,
    /// The builder of called functions, if their nodes stand in place of calls.
    pub inlining: Option<BuildBody>,
    /// Functions that are inlined, by name in the graph.
    pub bodies: BTreeMap<String, Arc<Function>>,
}

impl<'d> Functions<'d> {
    pub(super) fn new(
        graph: &'d Graph,
        def: &'d GraphDef,
        library: Library<'d>,
        origin: &Arc<str>,
        max_nodes: usize,
    ) -> Functions<'d> {
        let gradients = def.library.iter().flat_map(|l| &l.gradient);
        Functions {
            graph,
            library,
            origin: origin.clone(),
            names: BTreeMap::new(),
            taken: BTreeSet::new(),
            to_do: Vec::new(),
            gradients: gradients
                .map(|g| (&*g.function_name, &*g.gradient_func))
                .collect(),
            derived: Vec::new(),
            nodes: 0,
            max_nodes,
            inlining: None,
            bodies: BTreeMap::new(),
        }
    }

    /// Counts nodes that are going to be built.
    pub(super) fn count_nodes(&mut self, nodes: usize) -> Result<(), ImportError> {
        self.nodes = self.nodes.saturating_add(nodes);
        match self.nodes > self.max_nodes {
            false => Ok(()),
            true => Err(ImportError::Nodes {
                origin: self.origin.to_string(),
                limit: self.max_nodes,
            }),
        }
    }

    /// Replaces the functions that an attribute names by their names in the graph.
    pub(super) fn resolve(&mut self, attr: &mut Attr, budget: &mut Budget) -> Result<(), Problem> {
        match attr {
            Attr::Func(func) => self.resolve_one(func, budget),
            Attr::Funcs(all) => all.iter_mut().try_for_each(|f| self.resolve_one(f, budget)),
            _ => Ok(()),
        }
    }

    fn resolve_one(&mut self, func: &mut Func, budget: &mut Budget) -> Result<(), Problem> {
        // The default of an attribute that names a function.
        if func.name.is_empty() {
            return Ok(());
        }
        if !self.library.contains_key(&*func.name) {
            return match self.graph.function(&func.name) {
                Some(_) => Ok(()),
                None => Err(Problem::NoFunction(func.name.clone())),
            };
        }
        func.name = self.used(&func.name.clone(), &mut func.attrs, budget)?;
        // An attribute that the function does not have may name something missing: TensorFlow
        // copies all attributes of a call into that of its gradient.
        let mut kept = Vec::with_capacity(func.attrs.len());
        for (name, mut attr) in std::mem::take(&mut func.attrs) {
            match self.resolve(&mut attr, budget) {
                Ok(()) => kept.push((name, attr)),
                Err(Problem::NoFunction(_)) => {}
                Err(problem) => return Err(problem),
            }
        }
        func.attrs = kept;
        Ok(())
    }

    /// The name in the graph of a function of the file that is used with these attributes; the
    /// function's own attributes are removed from them.
    pub(super) fn used(
        &mut self,
        name: &str,
        attrs: &mut Vec<(String, Attr)>,
        budget: &mut Budget,
    ) -> Result<String, Problem> {
        let def = *self
            .library
            .get(name)
            .ok_or_else(|| Problem::NoFunction(name.to_owned()))?;
        let empty = BTreeMap::new();
        let mut given = BTreeMap::new();
        for wanted in def.signature.iter().flat_map(|s| &s.attr) {
            let at = attrs.iter().position(|(n, _)| *n == wanted.name);
            let value = match (at, &wanted.default_value) {
                (Some(at), _) => attrs.remove(at).1,
                (None, Some(value)) => {
                    let mut cx = attr::AttrCx {
                        budget,
                        given: &empty,
                    };
                    attr::from_proto(value, None, &mut cx)?
                }
                (None, None) => {
                    return Err(Problem::NoFunctionAttr {
                        function: name.to_owned(),
                        attr: wanted.name.clone(),
                    });
                }
            };
            given.insert(wanted.name.clone(), value);
        }
        let key = (name.to_owned(), bytes(&given)?);
        if let Some(made) = self.names.get(&key) {
            return Ok(made.clone());
        }
        if key.1.len() > MAX_ATTR_BYTES || self.names.len() >= MAX_FUNCTIONS {
            return Err(Problem::TooManyFunctions);
        }
        // A further copy of a body takes the memory of its constants again, though the file has
        // them once.
        let first = (name.to_owned(), Vec::new());
        let next = self.names.range(first..).next();
        if next.is_some_and(|((made, _), _)| made == name) && !budget.more(def.encoded_len()) {
            return Err(Problem::TooManyFunctions);
        }
        let made = self.free_name(name, &given);
        self.names.insert(key, made.clone());
        self.taken.insert(made.clone());
        self.to_do.push(Use {
            name: made.clone(),
            def,
            given,
        });
        Ok(made)
    }

    /// `name`, or `name[T=f32]` and the like for a function with attributes.
    fn free_name(&self, name: &str, given: &BTreeMap<String, Attr>) -> String {
        if given.is_empty() {
            return name.to_owned();
        }
        let attrs: Vec<String> = given.iter().map(|(n, a)| format!("{n}={a}")).collect();
        let base = format!("{name}[{}]", attrs.join(","));
        let taken = |n: &String| self.taken.contains(n) || self.library.contains_key(&**n);
        let mut tries = (1..).map(|i| match i {
            1 => base.clone(),
            i => format!("{base}_{i}"),
        });
        tries.find(|n| !taken(n)).unwrap_or_default()
    }

    /// The op of a node whose op in the file is a function, with that function; the attributes
    /// become those of the call. `None` if it is not a function.
    pub(super) fn call(
        &mut self,
        op: &str,
        attrs: &mut Vec<(String, Attr)>,
        budget: &mut Budget,
    ) -> Result<Option<(&'static str, &'d OpDef)>, Problem> {
        let Some(&def) = self.library.get(op) else {
            return Ok(None);
        };
        let mut own = attrs.clone();
        let name = self.used(op, &mut own, budget)?;
        let given: BTreeMap<String, Attr> = attrs.drain(..).collect();
        let Some(signature) = &def.signature else {
            return Err(Problem::NoFunction(op.to_owned()));
        };
        let types = |args: &[ArgDef]| {
            let dtypes: Result<Vec<_>, _> = args.iter().map(|a| port_type(a, &given)).collect();
            dtypes.map(Attr::Types)
        };
        let inputs = types(&signature.input_arg)?;
        let outputs = types(&signature.output_arg)?;
        *attrs = own
            .into_iter()
            .filter(|(n, _)| n.starts_with('_'))
            .collect();
        attrs.push(("Tin".to_owned(), inputs));
        attrs.push(("Tout".to_owned(), outputs));
        attrs.push(("f".to_owned(), Attr::Func(Func::named(&name))));
        Ok(Some((call_op(def), signature)))
    }

    /// The function that computes the gradient of this one, if the file has one.
    pub(super) fn gradient(
        &mut self,
        of: &str,
        budget: &mut Budget,
    ) -> Result<Option<String>, Problem> {
        let Some(&gradient) = self.gradients.get(of) else {
            return Ok(None);
        };
        let has_attrs =
            |def: &&FunctionDef| def.signature.as_ref().is_some_and(|s| !s.attr.is_empty());
        match self.library.get(gradient) {
            None => Err(Problem::NoFunction(gradient.to_owned())),
            Some(def) if has_attrs(def) => Ok(None),
            Some(_) => self.used(gradient, &mut Vec::new(), budget).map(Some),
        }
    }

    /// The op and the attributes of a node that requests the gradient of a function: a call of the
    /// gradient function.
    pub(super) fn call_gradient(
        &mut self,
        attrs: &mut [(String, Attr)],
    ) -> Result<&'static str, Problem> {
        let func = attrs.iter_mut().find_map(|(name, attr)| match attr {
            Attr::Func(func) if name == "f" => Some(func),
            _ => None,
        });
        let func = func.ok_or_else(|| Problem::NoFunction("f".to_owned()))?;
        let known = self.gradients.get(&*func.name).map(|g| (*g).to_owned());
        let name = known.unwrap_or_else(|| format!("{}_symbolic_gradient", func.name));
        if !self.gradients.contains_key(&*func.name)
            && !self.derived.iter().any(|(of, _)| *of == func.name)
        {
            self.derived.push((func.name.clone(), name.clone()));
        }
        *func = Func::named(&name);
        Ok(names::GRADIENT_CALL)
    }
}

/// The dtype of an argument or result of a function that is used with these attributes.
pub(super) fn port_type(
    arg: &ArgDef,
    given: &BTreeMap<String, Attr>,
) -> Result<thalweg_tensor::DType, Problem> {
    if !arg.number_attr.is_empty() || !arg.type_list_attr.is_empty() {
        return Err(Problem::List(arg.name.clone()));
    }
    let wrong = |value| Problem::Attr {
        attr: arg.name.clone(),
        value,
    };
    match (&*arg.type_attr, given.get(&arg.type_attr)) {
        ("", _) => dtype::from_number(arg.r#type).map_err(wrong),
        (_, Some(Attr::Type(dtype))) => Ok(*dtype),
        (attr, _) => Err(wrong(ValueError::Placeholder(attr.to_owned()))),
    }
}

/// Attributes as bytes, for comparison.
fn bytes(given: &BTreeMap<String, Attr>) -> Result<Vec<u8>, Problem> {
    let attrs = given.iter();
    let list = NameAttrList {
        name: String::new(),
        attr: attrs
            .map(|(n, a)| Ok((n.clone(), attr::to_proto(a)?)))
            .collect::<Result<_, ValueError>>()?,
    };
    Ok(list.encode_to_vec())
}
