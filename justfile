# `just` runs these; `just --list` lists them. Each line works without `just` too.

# Format, clippy, and the unit tests of the crates that changed since `base`.
quick base="main":
    .ci/quick {{base}}

# All that a change must pass.
ci:
    .ci/run

# All that a release must pass.
full:
    .ci/full

# The book, in a browser.
book:
    mdbook serve docs --open
