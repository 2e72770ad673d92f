mod device;
mod launches;

use thalweg_tensor::DType;

use super::*;

static SOURCE: Source = Source {
    name: "unary",
    text: "",
};

fn function(types: &[DType], large: bool) -> Function {
    Function {
        source: &SOURCE,
        name: "Tanh",
        types: types.into(),
        large,
        multi_tensor: false,
    }
}
