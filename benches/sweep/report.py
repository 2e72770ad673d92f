"""Tables of a sweep's records."""

import json

LIMITS = (1.0, 1.2, 2.0, 5.0)


def ratio(record):
    """Time here as a multiple of the fastest peer's; `None` without times."""
    if "error" in record:
        return None
    peers = [record[peer] for peer in ("tensorflow", "torch") if record.get(peer)]
    return record["thalweg"] / min(peers)


def milliseconds(seconds):
    return "" if not seconds else f"{seconds * 1e3:.3f}"


def line(record):
    """One record as a line of text."""
    name = f"{record['family']}/{record['name']}"
    if "error" in record:
        return f"   ?   {name}  {record['error']}"
    times = [milliseconds(record.get(peer)) or "-" for peer in ("thalweg", "tensorflow", "torch")]
    return f"{ratio(record):7.2f} {name}  {' '.join(times)} ms"


def load(path):
    """The newest record of each case."""
    newest = {}
    with open(path) as file:
        for text in file:
            record = json.loads(text)
            newest[record["family"], record["name"]] = record
    return list(newest.values())


def write(path, markdown=None):
    """Prints the tables, or writes them into a file after its line `<!-- sweep -->`."""
    records = load(path)
    timed = [r for r in records if "error" not in r]
    lines = ["| family | cases | " + " | ".join(f"up to {limit}" for limit in LIMITS) + " | worst |", "| --- " * (len(LIMITS) + 3) + "|"]
    families = sorted({r["family"] for r in timed})
    for family in [*families, None]:
        own = [ratio(r) for r in timed if family in (None, r["family"])]
        shares = " | ".join(f"{100 * sum(x <= limit for x in own) / len(own):.1f}%" for limit in LIMITS)
        lines.append(f"| {family or 'all'} | {len(own)} | {shares} | {max(own):.1f} |")
    lines += ["", "| ratio | case | here, ms | TensorFlow, ms | PyTorch, ms |", "| --- | --- | --- | --- | --- |"]
    for record in sorted(timed, key=ratio, reverse=True):
        if ratio(record) > 2.0:
            times = " | ".join(milliseconds(record.get(p)) for p in ("thalweg", "tensorflow", "torch"))
            lines.append(f"| {ratio(record):.1f} | `{record['family']}/{record['name']}` | {times} |")
    failed = [r for r in records if "error" in r]
    if failed:
        lines += ["", f"{len(failed)} cases without a time:", ""]
        lines += [f"- `{r['family']}/{r['name']}`: {r['error']}" for r in failed]
    text = "\n".join(lines) + "\n"
    if not markdown:
        print(text)
        return
    with open(markdown) as file:
        head = file.read().split("<!-- sweep -->")[0]
    with open(markdown, "w") as file:
        file.write(head + "<!-- sweep -->\n\n" + text)
