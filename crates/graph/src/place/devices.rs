//! The existing devices, their types, and the devices that match a constraint.

use smallvec::SmallVec;

use crate::device::DeviceSpec;

/// Device types by number, best first.
type TypeList = SmallVec<[u32; 2]>;

/// The devices, with their types as numbers.
#[derive(Debug)]
pub(super) struct Devices<'a> {
    pub list: &'a [DeviceSpec],
    types: Vec<&'a str>,
    type_of: Vec<Option<u32>>,
}

impl<'a> Devices<'a> {
    pub fn new(list: &'a [DeviceSpec]) -> Devices<'a> {
        let mut types: Vec<&str> = Vec::new();
        let type_of = list.iter().map(|device| {
            let name = device.device_type.as_deref()?;
            let known = types.iter().position(|t| *t == name);
            Some(known.unwrap_or_else(|| {
                types.push(name);
                types.len() - 1
            }) as u32)
        });
        let type_of = type_of.collect();
        Devices {
            list,
            types,
            type_of,
        }
    }

    /// The existing device types.
    pub fn types(&self) -> &[&'a str] {
        &self.types
    }

    /// The devices that `spec` allows and that are of one of `types`: by type, and within a type as
    /// they are listed.
    pub fn matching(&self, spec: &DeviceSpec, types: &[u32]) -> Vec<u32> {
        let of_type = |wanted: u32| {
            (0..self.list.len())
                .filter(move |&d| self.type_of[d] == Some(wanted))
                .filter(|&d| spec.admits(&self.list[d]))
                .map(|d| d as u32)
        };
        types.iter().flat_map(|&t| of_type(t)).collect()
    }
}

/// Interned lists of device types.
#[derive(Debug, Default)]
pub(super) struct TypeLists {
    lists: Vec<TypeList>,
    /// Lists of kernel types, each with the number of its list of existing types.
    named: Vec<(SmallVec<[&'static str; 2]>, u32)>,
}

impl TypeLists {
    /// The number of the list of those of `names` that have devices.
    pub fn named(&mut self, names: SmallVec<[&'static str; 2]>, devices: &Devices<'_>) -> u32 {
        if let Some((_, id)) = self.named.iter().find(|(n, _)| *n == names) {
            return *id;
        }
        let mut list = TypeList::new();
        for name in &names {
            if let Some(t) = devices.types.iter().position(|t| t == name)
                && !list.contains(&(t as u32))
            {
                list.push(t as u32);
            }
        }
        let id = self.id(list);
        self.named.push((names, id));
        id
    }

    fn id(&mut self, list: TypeList) -> u32 {
        let known = self.lists.iter().position(|l| *l == list);
        known.unwrap_or_else(|| {
            self.lists.push(list);
            self.lists.len() - 1
        }) as u32
    }

    pub fn get(&self, id: u32) -> &[u32] {
        &self.lists[id as usize]
    }

    /// The types that are in both, in the order of `a`; `None` if there are none.
    pub fn common(&mut self, a: u32, b: u32) -> Option<u32> {
        if a == b {
            return Some(a);
        }
        let b = self.get(b);
        let both: TypeList = self
            .get(a)
            .iter()
            .copied()
            .filter(|t| b.contains(t))
            .collect();
        (!both.is_empty()).then(|| self.id(both))
    }
}
