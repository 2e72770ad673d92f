"""Names the functions of a GraphDef by where they are used.

TensorFlow numbers them by all that its process has made before; with names of their own a seed gives
the same bytes wherever it is made.
"""

import re


def names_in(node):
    """The functions that a node names, in the order of its attributes' names."""
    for key in sorted(node.attr):
        value = node.attr[key]
        if value.HasField("func"):
            yield value.func
        yield from value.list.func


def canonical(graph_def):
    """Renames and sorts the library of a GraphDef in place."""
    library = {f.signature.name: f for f in graph_def.library.function}
    renamed = {}

    def visit(nodes):
        for node in nodes:
            for function in names_in(node):
                if function.name in library and function.name not in renamed:
                    base = re.sub(r"^__inference_|_\d+$", "", function.name)
                    renamed[function.name] = f"{base}_{len(renamed)}"
                    visit(library[function.name].node_def)

    visit(graph_def.node)
    # A function that only an attribute of another names, such as a gradient's, is of no use here.
    del graph_def.library.function[:]
    for old, new in sorted(renamed.items(), key=lambda item: item[1]):
        function = library[old]
        function.signature.name = new
        graph_def.library.function.append(function)
    for nodes in [graph_def.node, *(f.node_def for f in graph_def.library.function)]:
        for node in nodes:
            for function in names_in(node):
                function.name = renamed.get(function.name, function.name)
    for function in graph_def.library.function:
        for key in ("forward_function_name", "backward_function_name"):
            function.attr.pop(key, None)
        rename_arguments(function, renamed)
    return graph_def


def rename_arguments(function, renamed):
    """Arguments that a loop does not use have the name of a function in theirs."""
    arguments = {}
    for described in function.signature.input_arg:
        for old, new in renamed.items():
            if f"{old}___" in described.name:
                arguments[described.name] = described.name.replace(f"{old}___", f"{new}___")
        described.name = arguments.get(described.name, described.name)
    if arguments:
        for node in function.node_def:
            for i, name in enumerate(node.input):
                node.input[i] = arguments.get(name, name)
        for key, value in function.ret.items():
            function.ret[key] = arguments.get(value, value)
