"""Writes what a mooring installation consists of: a CycloneDX bill of materials, or pinned requirements.

Both are read from the metadata of the distributions that are installed beside the running Python, so they say what is
there, not what was asked for:

    python scripts/sbom.py > dist/mooring.cdx.json                 the scheduler and its dependencies
    python scripts/sbom.py --extra dra --extra fast                with extras
    python scripts/sbom.py --requirements > deploy/requirements.txt   the same as pins, for the container
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement

ROOT = "mooring"


def canonical(name: str) -> str:
    """A distribution's name as package indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(root: str, extras: Iterable[str] = ()) -> dict[str, set[str]]:
    """Every distribution that ``root`` needs here, with what it needs itself; names are canonical."""
    needs: dict[str, set[str]] = {}
    todo: list[tuple[str, frozenset[str]]] = [(canonical(root), frozenset(extras))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, wanted = todo.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        needed = needs.setdefault(name, set())
        for line in metadata.requires(name) or ():
            requirement = Requirement(line)
            marker = requirement.marker
            if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                continue
            other = canonical(requirement.name)
            if other != name:
                needed.add(other)
            todo.append((other, frozenset(requirement.extras)))
    return needs


def _license(found: Any) -> list[dict[str, Any]]:
    expression = found.get("License-Expression")
    if expression:
        return [{"expression": expression}]
    text = found.get("License")
    if text and "\n" not in text and len(text) < 80:
        return [{"license": {"name": text}}]
    named = [value for value in found.get_all("Classifier") or () if value.startswith("License :: ")]
    return [{"license": {"name": value.rsplit(" :: ", 1)[1]}} for value in named]


def _files_digest(distribution: metadata.Distribution) -> str | None:
    """One digest over the recorded digests of all files: it changes when any installed file is replaced by another."""
    recorded = sorted(
        f"{file}:{file.hash.value}" for file in distribution.files or () if file.hash and file.hash.mode == "sha256"
    )
    return hashlib.sha256("\n".join(recorded).encode()).hexdigest() if recorded else None


def component(name: str) -> dict[str, Any]:
    """A distribution as CycloneDX describes it."""
    distribution = metadata.distribution(name)
    found: Any = distribution.metadata
    purl = f"pkg:pypi/{name}@{distribution.version}"
    described: dict[str, Any] = {
        "type": "application" if name == ROOT else "library",
        "bom-ref": purl,
        "name": name,
        "version": distribution.version,
        "purl": purl,
    }
    if found.get("Summary"):
        described["description"] = found["Summary"]
    licenses = _license(found)
    if licenses:
        described["licenses"] = licenses
    digest = _files_digest(distribution)
    if digest and name != ROOT:
        described["properties"] = [{"name": "mooring:installed-files-sha256", "value": digest}]
    return described


def sbom(extras: Iterable[str] = ()) -> dict[str, Any]:
    """The bill of materials; the same installation gives the same bytes, so there is no date in it."""
    needs = closure(ROOT, extras)
    components = {name: component(name) for name in sorted(needs)}
    body = {
        "metadata": {"component": components[ROOT]},
        "components": [value for name, value in components.items() if name != ROOT],
        "dependencies": [
            {"ref": components[name]["bom-ref"], "dependsOn": [components[n]["bom-ref"] for n in sorted(needed)]}
            for name, needed in sorted(needs.items())
        ],
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    serial = uuid.UUID(bytes=digest[:16], version=5)
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": serial.urn, "version": 1, **body}


def requirements(extras: Iterable[str] = ()) -> str:
    """The same as pins that pip reads."""
    extras = tuple(extras)
    needs = closure(ROOT, extras)
    flags = "".join(f" --extra {extra}" for extra in extras)
    lines = [f"# What the tests ran with. Made by: python scripts/sbom.py --requirements{flags}"]
    lines += [f"{name}=={metadata.version(name)}" for name in sorted(needs) if name != ROOT]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--extra", action="append", default=[], help="with this extra; may be repeated")
    parser.add_argument("--requirements", action="store_true", help="pins for pip instead of CycloneDX")
    arguments = parser.parse_args()
    try:
        text = (
            requirements(arguments.extra)
            if arguments.requirements
            else json.dumps(sbom(arguments.extra), indent=2) + "\n"
        )
    except metadata.PackageNotFoundError as error:
        print(f"sbom: {error.name} is not installed here; install mooring with the extras asked for", file=sys.stderr)
        return 2
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
