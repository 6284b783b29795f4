"""Measure the shape of src/mooring: what a reader has to hold in mind.

    python tools/measure_source.py [FOLDER]

Counts rooms, files, lines, own-line comments, layers of import-linter, class names that occur more than once, and
modules that only one other module imports. The course's schedulers repeat each other on purpose; their classes are left
out.
``tools/trace_pod.py`` measures the way of a pod.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]


def importers(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """By module: which others import it, or something from it."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                if name in trees:
                    found[name].add(module)
    return found


def main(root: Path) -> None:
    source = root / "src"
    files = sorted(source.rglob("*.py"))
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    trees = {".".join(file.relative_to(source).with_suffix("").parts): ast.parse(texts[file]) for file in files}
    lines = sum(text.count("\n") for text in texts.values())
    comments = sum(line.lstrip().startswith("#") for text in texts.values() for line in text.splitlines())
    classes = Counter(
        node.name
        for module, tree in trees.items()
        if ".learn.stage" not in module
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    modules = {name: tree for name, tree in trees.items() if not name.endswith("__init__")}
    lonely = [name for name, users in importers(modules).items() if len(users) == 1 and ".plugins." not in name]
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = max(len(contract.get("layers", ())) for contract in contracts)
    rooms = [folder for folder in (source / "mooring").iterdir() if (folder / "__init__.py").is_file()]
    repeated = sorted(name for name, count in classes.items() if count > 1)
    print(f"{len(rooms)} rooms, {layers} layers, {len(files)} files, {lines:,} lines, {comments / lines:.1%} comments")
    print(f"{len(repeated)} class names more than once: {', '.join(repeated)}")
    print(f"{len(lonely)} modules with one importer (plugins, which the registry imports, left out)")
    by_room = Counter({room.name: 0 for room in rooms})
    for file, text in texts.items():
        by_room[file.relative_to(source / "mooring").parts[0]] += text.count("\n")
    print(", ".join(f"{room} {count:,}" for room, count in by_room.most_common()))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
