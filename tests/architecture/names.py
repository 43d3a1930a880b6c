"""Which public names the product defines, and which names it uses."""

from __future__ import annotations

import ast
import pydoc
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from tests.support.source_tree import Module, SourceTree

BY_TEXT = {"getattr", "hasattr", "attrgetter", "methodcaller"}
"""Functions whose texts are names."""


class Definition(NamedTuple):
    module: Module
    owner: str  # the class of a method or field, else ""
    name: str

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name


def is_public(name: str) -> bool:
    return not name.startswith("_")


def top_level(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Functions, classes, constants and aliases of a module, with their statements."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            yield from ((each.id, node) for each in node.targets if isinstance(each, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node


def members(node: ast.ClassDef) -> Iterator[str]:
    """Methods, properties and annotated fields. Members of an enum may be known by their values,
    and the keys of a dictionary are no names."""
    if any(ast.unparse(base) == "TypedDict" for base in node.bases):
        return
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each.name
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id


def types(module: Module) -> Iterator[str]:
    """Classes and aliases of types; type variables mean nothing outside of their file."""
    for name, node in top_level(module.tree):
        if isinstance(node, ast.ClassDef) or (
            name[:1].isupper() and not name.isupper() and "TypeVar(" not in ast.unparse(node)
        ):
            yield name


def definitions(tree: SourceTree) -> Iterator[Definition]:
    """Public ones, but those that a class of a library has, which the library calls."""
    for module in tree.modules.values():
        for name, node in top_level(module.tree):
            if is_public(name):
                yield Definition(module, "", name)
            if isinstance(node, ast.ClassDef):
                called = set(_of_libraries(tree, module, node))
                for member in members(node):
                    if is_public(member) and member not in called:
                        yield Definition(module, node.name, member)


def _of_libraries(tree: SourceTree, module: Module, node: ast.ClassDef) -> Iterator[str]:
    """Names of all members of bases that are not ours, through bases that are."""
    for base in node.bases:
        name, dot, rest = ast.unparse(base).partition("[")[0].partition(".")
        path = f"{_origins(module).get(name, f'{module.name}.{name}')}{dot}{rest}"
        package, _, name = path.rpartition(".")
        if package in tree.modules:
            found = dict(top_level(tree.modules[package].tree)).get(name)
            if isinstance(found, ast.ClassDef):
                yield from _of_libraries(tree, tree.modules[package], found)
        else:
            yield from dir(pydoc.locate(path))


@cache
def _origins(module: Module) -> dict[str, str]:
    """What the names that a module imports stand for, with their modules."""
    found = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {each.asname or each.name: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return found


def uses(trees: Iterable[ast.AST]) -> Counter[str]:
    """How often each name is read: as a name, an attribute, a pattern, or by its text."""
    return Counter(name for tree in trees for node in ast.walk(tree) for name in _used(node))


def _used(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
            yield name
        case ast.MatchClass(kwd_attrs=names):
            yield from names
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in BY_TEXT:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield from argument.value.split(".")


def identifiers(tree: ast.AST) -> Iterator[str]:
    """What a file names: functions, classes, arguments, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
