"""Runs notebooks, and writes their outputs into them. notebooks/run calls it in its virtual environment.

A notebook whose kernel or library is missing is skipped, with a line that says so. A cell that fails fails the run, and leaves the
file of its notebook as it was.
"""

import importlib.util
import json
import sys
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).parent
# Seconds for a cell: the first one of a Rust notebook compiles Thalweg.
CELL_TIMEOUT = 3600
# Parts of the metadata that change from run to run.
VOLATILE = ("execution", "language_info")


def missing(notebook):
    """What the notebook needs and is not there; None if nothing is missing."""
    kernel = notebook.metadata.kernelspec.name
    if kernel not in KernelSpecManager().find_kernel_specs():
        how = "cargo install evcxr_jupyter; evcxr_jupyter --install" if kernel == "rust" else "notebooks/requirements.txt"
        return f"there is no kernel '{kernel}' ({how})"
    for library in notebook.metadata.get("thalweg", {}).get("needs", []):
        if importlib.util.find_spec(library) is None:
            return f"Python has no {library} (notebooks/requirements-tensorflow.txt)"
    return None


def show_stderr(cell):
    """Writes what a cell has written to standard error."""
    for output in cell.get("outputs", []):
        if output.output_type == "stream" and output.name == "stderr":
            print(output.text, end="", file=sys.stderr)


def tidy(notebook):
    """Takes out what differs from run to run or from machine to machine although the results do not.

    Libraries write about the machine to standard error: it is shown here, and not kept.
    """
    for part in (notebook, *notebook.cells):
        for key in VOLATILE:
            part.metadata.pop(key, None)
    for cell in notebook.cells:
        show_stderr(cell)
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    # evcxr counts one more.
                    output.execution_count = cell.execution_count
    return notebook


def joined(outputs):
    """The outputs without standard error; pieces of standard output that follow each other are one."""
    kept = []
    for output in outputs:
        is_stream = output.output_type == "stream"
        if is_stream and kept and kept[-1].output_type == "stream" and output.name == "stdout":
            kept[-1].text += output.text
        elif not is_stream or output.name == "stdout":
            kept.append(output)
    return kept


def run(path):
    """Runs a notebook. Returns a text if it was skipped."""
    notebook = nbformat.read(path, as_version=4)
    reason = missing(notebook)
    if reason:
        return reason
    resources = {"metadata": {"path": str(FOLDER)}}
    try:
        NotebookClient(notebook, timeout=CELL_TIMEOUT, resources=resources).execute()
    except CellExecutionError:
        for cell in notebook.cells:
            show_stderr(cell)
        raise
    text = json.dumps(tidy(notebook), indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")
    return None


def main(names):
    paths = [FOLDER / Path(name).name for name in names] or sorted(FOLDER.glob("*.ipynb"))
    failed = []
    for path in paths:
        print(f"== {path.name}", flush=True)
        try:
            reason = run(path)
        except (CellExecutionError, OSError, RuntimeError) as error:
            print(error, getattr(error, "evalue", ""), file=sys.stderr)
            failed.append(path.name)
        else:
            if reason:
                print(f"SKIPPED: {path.name}: {reason}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
