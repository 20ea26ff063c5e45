"""Names that a reader meets: one meaning each, and nothing hides a module behind a function of its name."""

import ast
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from types import ModuleType

import hush

HOME = Path(hush.__file__).parent
# Names of parts, of core types and of what they are made of: no second class may have one.
CORE = ("core", "parts", "catalogue", "federation", "privacy", "secure", "random")


def classes(folder: Path) -> dict[str, list[str]]:
    """Public classes and type aliases of a folder, by name."""
    found = defaultdict(list)
    for path in folder.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(HOME)))
    return found


def test_no_two_classes_of_the_method_share_a_name() -> None:
    together = defaultdict(list)
    for room in CORE:
        for name, places in classes(HOME / room).items():
            together[name] += places
    assert {name: places for name, places in together.items() if len(places) > 1} == {}


def test_no_public_name_is_also_a_module_s() -> None:
    """`hush.NAME` is what the list of public names says, whatever was imported before."""
    for path in HOME.rglob("*.py"):
        module = ".".join(("hush", *path.relative_to(HOME).with_suffix("").parts)).removesuffix(".__init__")
        import_module(module)
    for name in hush.__all__:
        found = getattr(hush, name)
        assert not isinstance(found, ModuleType) or name == "partition", name


def test_no_function_hides_its_module() -> None:
    """`hush.a.b` is the module a/b.py in every room, whatever a room's door exports."""
    for path in HOME.rglob("*.py"):
        parts = ("hush", *path.relative_to(HOME).with_suffix("").parts)
        if parts[-1] != "__init__" and len(parts) > 2:
            found = import_module(".".join(parts))
            assert getattr(import_module(".".join(parts[:-1])), parts[-1]) is found, parts
