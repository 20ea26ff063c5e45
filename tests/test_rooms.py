"""The rooms of hush: what each may import, read from the source; no cycles; what the door says."""

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import hush

HOME = Path(hush.__file__).parent
# What each room may import beside itself, from the ground up.
GROUND, MATHEMATICS = {"errors", "random", "data"}, {"privacy", "secure", "models"}
ALLOWED = {
    "errors": set(),
    "random": {"errors"},
    "data": {"errors", "random"},
    "privacy": GROUND,
    "secure": {"errors"},
    "models": GROUND,
    "core": GROUND | MATHEMATICS,
    "parts": GROUND | MATHEMATICS | {"core"},
    "catalogue": GROUND | MATHEMATICS | {"core", "parts"},
    "federation": GROUND | MATHEMATICS | {"core", "parts"},
    "audit": GROUND | MATHEMATICS | {"core", "parts", "federation"},
    "experiment": GROUND | MATHEMATICS | {"core", "parts", "catalogue", "federation", "audit"},
    "cli": GROUND | {"privacy", "catalogue", "federation", "experiment"},
}
ROOMS = tuple(ALLOWED)
MODULES = {
    ".".join(("hush", *path.relative_to(HOME).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in HOME.rglob("*.py")
}
# Nobody imports the package itself but for its version: its names are for users.
VERSION = {
    ("hush.cli", "hush"),
    ("hush.cli.server", "hush"),
    ("hush.cli.client", "hush"),
    ("hush.experiment.flare", "hush"),
    ("hush.experiment.about", "hush"),
}


def room(module: str) -> str:
    """hush.core.scheme is in core; the package itself is above all."""
    return module.split(".")[1] if "." in module else ""


def imports(module: str, lazy: bool = True) -> Iterator[str]:
    """The modules of hush that it imports, under TYPE_CHECKING too; with `lazy` also within functions."""
    body: list[ast.AST] = [ast.parse(MODULES[module].read_text())]
    while body:
        node = body.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not lazy:
            continue
        body += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports by dots: write the whole name"
            source = node.module or ""
            for name in node.names:
                inner = f"{source}.{name.name}"
                found = inner if inner in MODULES else source
                if found.split(".")[0] == "hush":
                    yield found
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "hush")


def test_there_are_at_most_twelve_rooms() -> None:
    found = {path.name for path in HOME.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert len(found) <= 12
    assert found | {"errors"} == set(ROOMS)
    assert {path.name for path in HOME.glob("*.py")} <= {"__init__.py", "__main__.py", "errors.py"}


@pytest.mark.parametrize("name", ROOMS)
def test_imports_go_one_way(name: str) -> None:
    assert ALLOWED[name] <= set(ROOMS[: ROOMS.index(name)])
    wrong = {
        f"{module} imports {found}"
        for module in MODULES
        if room(module) == name
        for found in imports(module)
        if room(found) not in {name, *ALLOWED[name]} and (module, found) not in VERSION
    }
    assert not wrong


def test_no_cycle_between_modules() -> None:
    """At import time, and as type checkers read it; what a function imports when it is called may go back."""
    graph = {module: set(imports(module, lazy=False)) - {module} for module in MODULES if module != "hush"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


@pytest.mark.parametrize("name", [name for name in ROOMS if name != "errors"])
def test_the_door_says_what_is_inside(name: str) -> None:
    """One line: what the room is for, and what it may import."""
    said = ast.get_docstring(ast.parse((HOME / name / "__init__.py").read_text()))
    assert said
    first = said.splitlines()[0]
    assert "mport" in first
    named = set(re.findall("|".join(ROOMS), first.partition("mport")[2]))
    assert named <= ALLOWED[name]
    if "below" not in first:  # then it lists them all
        assert named == ALLOWED[name]


def test_the_design_says_what_each_room_may_import() -> None:
    text = (HOME.parent / "docs" / "design.md").read_text()
    same = GROUND | MATHEMATICS
    said = {
        name: {room for part in found.split(", ") for room in (same if part == "the same" else {part} - {"-"})}
        for name, found in re.findall(r"^\| (\w+) \| ((?:[\w ]+, )*[\w -]+) \|$", text, re.MULTILINE)
        if name in ROOMS
    }
    assert list(said.items()) == list(ALLOWED.items())


def test_modules_are_short() -> None:
    lengths = {module: len(path.read_text().splitlines()) for module, path in MODULES.items()}
    assert {module: length for module, length in lengths.items() if length > 300} == {}
    assert sorted(lengths.values())[len(lengths) // 2] <= 130
