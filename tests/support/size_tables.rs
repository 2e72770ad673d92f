//! Writes the tables of `thalweg_graphdef::sizes` for the messages of .proto files.

use std::fmt::Write;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use thalweg_graphdef::sizes::MAX_FIELDS;

/// Rust paths of the messages of a package.
pub struct Paths<'a> {
    /// The package whose tables are written, such as `tensorflow`.
    pub package: &'a str,
    /// The module of its messages.
    pub module: &'a str,
    /// The .proto files whose messages are in another module, and that module.
    pub elsewhere: (&'a [&'a str], &'a str),
    /// The module with `Table` and the rest.
    pub sizes: &'a str,
}

/// The Rust file.
pub fn written(descriptors: &FileDescriptorSet, paths: &Paths<'_>) -> String {
    let mut out = String::new();
    let mut all = Vec::new();
    for file in &descriptors.file {
        let package = format!(".{}", file.package());
        let (elsewhere, other) = paths.elsewhere;
        let other = elsewhere.contains(&file.name()).then_some(other);
        let module = other.unwrap_or(paths.module);
        let own = other.is_none() && file.package() == paths.package;
        for message in &file.message_type {
            collect(message, &package, module, own, &mut all);
        }
    }
    for message in all.iter().filter(|m| m.own && !m.is_entry()) {
        let fields = fields(message, &all, paths.package);
        let path = &message.path;
        let name = constant(&message.name, paths.package);
        write!(
            out,
            "\nstatic {name}: Table = Table {{\n    bytes: size_of::<{path}>(),\n    fields: &[\n{fields}    ],\n}};\n\nimpl Measured for {path} {{\n    const TABLE: &'static Table = &{name};\n}}\n"
        )
        .unwrap();
    }
    let packed = if out.contains("Packed::") {
        "Packed, "
    } else {
        ""
    };
    let sizes = paths.sizes;
    format!(
        "// Made from the .proto files by tests/messages.rs.\nuse {sizes}::{{Field, Measured, {packed}Table}};\n{out}"
    )
}

struct Message<'a> {
    name: String,
    path: String,
    own: bool,
    descriptor: &'a DescriptorProto,
}

impl Message<'_> {
    /// `true` for the entry of a map, which has no type in Rust.
    fn is_entry(&self) -> bool {
        let options = self.descriptor.options.as_ref();
        options.is_some_and(|o| o.map_entry())
    }
}

fn collect<'a>(
    message: &'a DescriptorProto,
    scope: &str,
    module: &str,
    own: bool,
    all: &mut Vec<Message<'a>>,
) {
    let name = format!("{scope}.{}", message.name());
    assert!(
        message.field.len() <= MAX_FIELDS,
        "{name} has more fields than sizes::MAX_FIELDS"
    );
    let inner = format!("{module}::{}", snake(message.name()));
    for nested in &message.nested_type {
        collect(nested, &name, &inner, own, all);
    }
    all.push(Message {
        path: format!("{module}::{}", message.name()),
        name,
        own,
        descriptor: message,
    });
}

/// prost's name for the module of a message's nested messages.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// The name of a message's table: `.tensorflow.AttrValue.ListValue` has `ATTR_VALUE_LIST_VALUE`.
fn constant(name: &str, package: &str) -> String {
    let own = name[1..].strip_prefix(package).unwrap();
    let words = own[1..].split('.').map(snake).collect::<Vec<_>>();
    words.join("_").to_uppercase()
}

fn fields(message: &Message<'_>, all: &[Message<'_>], package: &str) -> String {
    let line = |field: &FieldDescriptorProto| {
        let number = field.number();
        format!("        ({number}, {}),\n", kind(field, all, package))
    };
    message.descriptor.field.iter().map(line).collect()
}

fn kind(field: &FieldDescriptorProto, all: &[Message<'_>], package: &str) -> String {
    let many = field.label() == Label::Repeated;
    let numbers = |bytes: usize, packed: &str| match many {
        true => format!("Field::Numbers({bytes}, Packed::{packed})"),
        false => "Field::Number".to_owned(),
    };
    match field.r#type() {
        Type::String | Type::Bytes => match many {
            true => "Field::BytesList".to_owned(),
            false => "Field::Bytes".to_owned(),
        },
        Type::Bool => numbers(1, "Varint"),
        Type::Int32 | Type::Uint32 | Type::Sint32 | Type::Enum => numbers(4, "Varint"),
        Type::Int64 | Type::Uint64 | Type::Sint64 => numbers(8, "Varint"),
        Type::Float | Type::Fixed32 | Type::Sfixed32 => numbers(4, "Four"),
        Type::Double | Type::Fixed64 | Type::Sfixed64 => numbers(8, "Eight"),
        Type::Group => panic!("proto3 has no groups"),
        Type::Message => {
            let found = all.iter().find(|m| m.name == field.type_name());
            let found = found.unwrap_or_else(|| panic!("no message {}", field.type_name()));
            // Messages may contain each other in a cycle, which statics support and associated constants do not.
            let table = match found.own {
                true => format!("&{}", constant(&found.name, package)),
                false => format!("<{} as Measured>::TABLE", found.path),
            };
            match (found.is_entry(), many) {
                (true, _) => entry(found, all, package),
                (false, true) => format!("Field::Messages({table})"),
                (false, false) => format!("Field::Message({table})"),
            }
        }
    }
}

/// An entry of a map: a key and a value.
fn entry(message: &Message<'_>, all: &[Message<'_>], package: &str) -> String {
    let sizes = message.descriptor.field.iter().map(|f| match f.r#type() {
        Type::String | Type::Bytes => "size_of::<String>()".to_owned(),
        Type::Message => {
            let found = all.iter().find(|m| m.name == f.type_name()).unwrap();
            format!("size_of::<{}>()", found.path)
        }
        // Aligned as strings are.
        _ => "8".to_owned(),
    });
    let sizes = sizes.collect::<Vec<_>>().join(" + ");
    let fields = message.descriptor.field.iter();
    let fields = fields.map(|f| format!("({}, {})", f.number(), kind(f, all, package)));
    let fields = fields.collect::<Vec<_>>().join(", ");
    format!("Field::Map(&Table {{ bytes: {sizes}, fields: &[{fields}] }})")
}
