#!/usr/bin/env python3
"""Checks the manifests of `thalweg launch k8s` against the schemas of Kubernetes.

    check_schemas.py FOLDER [FILE.yaml ...]

FOLDER has the strict schemas of one version of Kubernetes, in which references are resolved: job-batch-v1.json,
statefulset-apps-v1.json and service-v1.json of `kubernetes-json-schema`. Without files, the golden files of crates/launch are
checked. Needs the packages jsonschema and PyYAML.
"""

import json
import pathlib
import sys

import jsonschema
import yaml

SCHEMAS = {
    "Job": "job-batch-v1.json",
    "Service": "service-v1.json",
    "StatefulSet": "statefulset-apps-v1.json",
}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).resolve().parents[2]
    golden = root / "crates/launch/src/kubernetes/golden"
    files = [pathlib.Path(name) for name in sys.argv[2:]] or sorted(golden.glob("*.yaml"))
    if not files:
        sys.exit(f"{golden}: there are no golden files")
    mistakes = 0
    for file in files:
        for document in yaml.safe_load_all(file.read_text()):
            kind = document["kind"]
            schema = json.loads((folder / SCHEMAS[kind]).read_text())
            validator = jsonschema.Draft202012Validator(schema)
            errors = list(validator.iter_errors(document))
            for error in errors:
                print(f"{file.name}: {kind}: {error.json_path}: {error.message}")
            mistakes += len(errors)
            print(f"{file.name}: {kind} {document['metadata']['name']}: {len(errors)} mistakes")
    sys.exit(min(mistakes, 1))


if __name__ == "__main__":
    main()
