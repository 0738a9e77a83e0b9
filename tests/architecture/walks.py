"""How many files and representations a value passes on its way through the code, found in the source.

`python tests/architecture/walks.py [FOLDER]` prints the walks of a tree (default: this one). A walk is the shortest way
over calls from one function to the next of its ends: down into a function that is called, or up to the one that called
it with what it returned. Calls are resolved by imports, annotations, and what variables were made by; a method of a
base class or protocol is that of every class that has its methods. Its files are those of its functions and of the
classes that these take and return: its representations, which are structs, named tuples and dataclasses. Around it is
what its functions call beside, and hand the value to.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parents[2] / "src" / "torchstone"
_HOLD = ("Struct", "NamedTuple", "dataclass")


class Name(NamedTuple):
    """A function (`a`, or `A.b` of a class) or a class of a module."""

    module: str
    name: str


class Walk(NamedTuple):
    """The functions on a walk, in order, and the classes that hold the value on it."""

    functions: tuple[Name, ...]
    held: tuple[Name, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The modules in which its functions and representations are."""
        return tuple(dict.fromkeys(one.module for one in (*self.functions, *self.held)))


# By walk the classes that hold the value themselves, and the functions where it begins, that it has to go through, and
# where it ends. None is a border that no call crosses: a pipe, a file, two things that one function calls one after the
# other. Two names: the function had the second one in earlier trees.
WALKS: Mapping[str, tuple[Sequence[str], Sequence[str | None]]] = {
    "batch_size → training step": (("Case", "RunRequest", "WorkloadRequest", "Sketch"), (
        "cli._run_options:axes_from|cli._run_options:axes_of", "cli.run_command:run", "execution.plan:sketch", None,
        "workflows.run.planned_run:Campaign.carry_out", "execution.plan:arrange", None,
        "workflows.run.planned_run:Campaign.carry_out", "execution.controller.active_run:ActiveRun.take", None,
        "execution.worker.execution:_trial|execution.worker.execution:carry_out_trial",
        "plugins.tasks._inference:FedEngine.open_batches", "plugins.tasks._batches:open_batches", None,
        "plugins.tasks.train:Train.prepare", "plugins.tasks.train:PreparedTraining.__init__",
    )),
    "measurement → compare → HTML": (("Measurement", "Measured", "Figures", "Estimate", "Document"), (
        "execution.worker.collector:Collector.measured", None, "execution.worker.execution:measure_prepared", None,
        "execution.controller.trial:TrialDrive.conclude", "storage.record_writer:RecordWriter.append", None,
        "storage.record_reader:read_record", "analysis.compare.inputs:gather", None,
        "report.documents.comparison:compared_document|report.several:comparison_of",
        "analysis.compare.compare:compare", "core.figures:figures", None,
        "report.documents.comparison:compared_document|report.several:comparison_of",
        "report.documents.comparison:comparison_document", None,
        "cli.report_command:run", "report.renderers.html:Html.render",
    )),
    "finding → terminal": (("Finding", "Document"), (
        "plugins.checking:look", "execution.controller.active_run:ActiveRun.end",
        "storage.record_writer:RecordWriter.append", None, "storage.record_reader:read_record", None,
        "storage.query:find", "cli.show_command:run", "analysis.summary:summarize", None, "cli.show_command:run",
        "report.documents.findings:finding_parts", None, "cli.show_command:run",
        "report.renderers.terminal:terminal",
    )),
}  # fmt: skip


class _Module(NamedTuple):
    tree: ast.Module
    names: dict[str, str]  # what a name that is imported stands for: "module" or "module:name"


class Code:
    """A tree of Python source: its functions, its classes, and which function calls which."""

    def __init__(self, root: Path) -> None:
        self._modules: dict[str, _Module] = {}
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self._modules[module] = _Module(ast.parse(path.read_text(encoding="utf-8")), {})
        self.functions: dict[Name, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.classes: dict[Name, ast.ClassDef] = {}
        for module, found in self._modules.items():
            found.names.update(self._imports(found.tree))
            for node in found.tree.body:
                if isinstance(node, ast.ClassDef):
                    self.classes[Name(module, node.name)] = node
                    for inner in node.body:
                        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                            self.functions[Name(module, f"{node.name}.{inner.name}")] = inner
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self.functions[Name(module, node.name)] = node
        self._below = self._subclasses()
        self._fields = {name: dict(self._fields_of(name)) for name in self.classes}
        self.calls = {name: frozenset(self._called(name)) - {name} for name in self.functions}
        self.callers: dict[Name, set[Name]] = defaultdict(set)
        for name, called in self.calls.items():
            for one in called:
                self.callers[one].add(name)

    def _imports(self, tree: ast.Module) -> Iterator[tuple[str, str]]:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torchstone"):
                base = (node.module or "").removeprefix("torchstone").removeprefix(".")
                for alias in node.names:
                    whole = f"{base}.{alias.name}".removeprefix(".")
                    yield alias.asname or alias.name, whole if whole in self._modules else f"{base}:{alias.name}"

    def _resolve(self, module: str, name: str) -> Name | None:
        """Return the function or class that a name means in a module."""
        for _ in range(8):  # names that are imported again and again
            here = Name(module, name)
            if here in self.functions or here in self.classes:
                return here
            target = self._modules[module].names.get(name) if module in self._modules else None
            if target is None or ":" not in target:
                return None
            module, name = target.split(":")
        return None

    def _subclasses(self) -> dict[Name, set[Name]]:
        """Return by class those that stand in for it: its subclasses, and of a protocol all with its methods."""
        below: dict[Name, set[Name]] = defaultdict(set)
        methods = {
            name: {f.name for f in node.body if isinstance(f, ast.FunctionDef)} for name, node in self.classes.items()
        }
        for name, node in self.classes.items():
            for base in node.bases:
                if (found := self._resolve(name.module, ast.unparse(base).split("[")[0])) is not None:
                    below[found].add(name)
            if any(ast.unparse(base).split("[")[0] == "Protocol" for base in node.bases) and methods[name]:
                below[name] |= {one for one, has in methods.items() if one != name and methods[name] <= has}
        return below

    def _fields_of(self, name: Name) -> Iterator[tuple[str, set[Name]]]:
        node = self.classes[name]
        for inner in node.body:
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                yield inner.target.id, self.classes_in(name.module, inner.annotation)
        made = self.functions.get(Name(name.module, f"{name.name}.__init__"))
        if made is not None:
            given = dict(self._parameters(name.module, made))
            for part in ast.walk(made):
                if isinstance(part, ast.Assign | ast.AnnAssign):
                    yield from self._assigned(name.module, part, given)

    def _assigned(
        self, module: str, node: ast.Assign | ast.AnnAssign, known: Mapping[str, set[Name]]
    ) -> Iterator[tuple[str, set[Name]]]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for one, value in pairs:
                if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "self":
                    if isinstance(node, ast.AnnAssign):
                        yield one.attr, self.classes_in(module, node.annotation)
                    elif value is not None:
                        yield one.attr, self._types(module, value, known, None)

    def _parameters(self, module: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, set[Name]]]:
        for one in _arguments(node):
            if one.annotation is not None:
                yield one.arg, self.classes_in(module, one.annotation)

    def classes_in(self, module: str, node: ast.AST) -> set[Name]:
        """Return the classes of this tree that an annotation names."""
        found: set[Name] = set()
        for one in ast.walk(node):
            text = one.id if isinstance(one, ast.Name) else one.value if isinstance(one, ast.Constant) else None
            if isinstance(text, str) and text.isidentifier():
                named = self._resolve(module, text)
                if named in self.classes:
                    found.add(named)
        return found

    def _types(self, module: str, node: ast.AST, known: Mapping[str, set[Name]], own: Name | None) -> set[Name]:
        """Return the classes that an expression may be of, as far as its source says."""
        if isinstance(node, ast.Name):
            return {own} if node.id == "self" and own is not None else set(known.get(node.id, ()))
        if isinstance(node, ast.Attribute):
            found: set[Name] = set()
            for one in self._types(module, node.value, known, own):
                found |= self._fields[one].get(node.attr, set()) if hasattr(self, "_fields") else set()
            return found
        if isinstance(node, ast.Call):
            found = set()
            for one in self._targets(module, node.func, known, own):
                if one in self.classes:
                    found.add(one)
                elif (returns := self.functions[one].returns) is not None:
                    found |= self.classes_in(one.module, returns)
            return found
        if isinstance(node, ast.Subscript | ast.Await):
            return self._types(module, node.value, known, own)
        return set()

    def _targets(self, module: str, node: ast.AST, known: Mapping[str, set[Name]], own: Name | None) -> Iterator[Name]:
        """Yield the functions and classes that a call may mean."""
        if isinstance(node, ast.Name):
            if (found := self._resolve(module, node.id)) is not None:
                yield found
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name):
                target = self._modules[module].names.get(node.value.id, "")
                if target in self._modules and (named := self._resolve(target, node.attr)) is not None:
                    yield named
            for one in self._types(module, node.value, known, own):
                yield from self._methods(one, node.attr)

    def _methods(self, owner: Name, method: str) -> Iterator[Name]:
        """Yield a method of a class: its own, that of a base, and those of what stands in for it."""
        waiting, seen = [owner], set[Name]()
        while waiting:
            one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            if (own := Name(one.module, f"{one.name}.{method}")) in self.functions:
                yield own
            waiting += self._below.get(one, ())
        for base in self.classes[owner].bases:
            found = self._resolve(owner.module, ast.unparse(base).split("[")[0])
            if found is not None and (inherited := Name(found.module, f"{found.name}.{method}")) in self.functions:
                yield inherited

    def _called(self, name: Name) -> Iterator[Name]:
        node, module = self.functions[name], name.module
        own = Name(module, name.name.split(".")[0]) if "." in name.name else None
        known = dict(self._parameters(module, node))
        for inner in ast.walk(node):
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                known[inner.target.id] = self.classes_in(module, inner.annotation)
            elif isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
                known[inner.targets[0].id] = self._types(module, inner.value, known, own)
            elif isinstance(inner, ast.With):
                for item in inner.items:
                    if isinstance(item.optional_vars, ast.Name):
                        known[item.optional_vars.id] = self._types(module, item.context_expr, known, own)
            elif isinstance(inner, ast.For | ast.comprehension) and isinstance(inner.target, ast.Name):
                known[inner.target.id] = self._types(module, inner.iter, known, own)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call):
                meant = [*self._targets(module, inner.func, known, own)]
                for argument in (*inner.args, *(one.value for one in inner.keywords)):  # functions that are handed on
                    meant += self._targets(module, argument, known, own)
                for one in meant:
                    if one in self.functions:
                        yield one
                    else:
                        yield from self._methods(one, "__init__")
                        yield from self._methods(one, "__post_init__")

    def holds(self, name: Name) -> bool:
        """Say whether a class holds values: a struct, named tuple or dataclass."""
        node = self.classes[name]
        told = " ".join(ast.unparse(one) for one in (*node.bases, *node.decorator_list))
        return any(word in told for word in _HOLD)

    def crossing(self, name: Name) -> set[Name]:
        """Return the classes that hold values which a function takes or returns."""
        node = self.functions[name]
        found = set[Name]().union(*(types for _, types in self._parameters(name.module, node)))
        if node.returns is not None:
            found |= self.classes_in(name.module, node.returns)
        return {one for one in found if self.holds(one)}

    def way(self, start: Name, end: Name) -> list[Name]:
        """Return the functions on the shortest way of a value from one to another. Raises LookupError: there is none.

        It goes up, with what a function returns to its caller, and then down, into what that calls; never down and up
        again, since a function that many call would join what has nothing to do with each other.
        """
        before: dict[tuple[Name, bool], tuple[Name, bool] | None] = {(start, False): None}
        waiting = deque(before)
        while waiting:
            one, fell = at = waiting.popleft()
            returns = self.functions[one].returns
            up = [] if fell or returns is None or ast.unparse(returns) == "None" else self.callers[one]
            for other in [*((name, fell) for name in sorted(up)), *((name, True) for name in sorted(self.calls[one]))]:
                if other not in before:
                    before[other] = at
                    waiting.append(other)
                if other[0] == end:
                    found: list[Name] = []
                    back: tuple[Name, bool] | None = other
                    while back is not None:
                        found.append(back[0])
                        back = before[back]
                    return found[::-1]
        raise LookupError(f"no way from {start} to {end}")

    def _end(self, names: str) -> Name:
        """Return the first of these functions that there is."""
        found = [Name(*one.split(":")) for one in names.split("|")]
        return next((one for one in found if one in self.functions), found[0])

    def carries(self, name: Name, roots: Sequence[str], seen: frozenset[Name] = frozenset()) -> bool:
        """Say whether a class is one of these, or has one in its fields, however deep."""
        if name.name in roots:
            return True
        inner = set[Name]().union(*self._fields[name].values()) - seen
        return any(self.carries(one, roots, seen | {name}) for one in inner)

    def walk(self, roots: Sequence[str], ends: Sequence[str | None]) -> Walk:
        """Return the walk over these ends of a value that these classes hold."""
        found: list[Name] = []
        at: Name | None = None
        for one in ends:
            there = self._end(one) if one is not None else None
            if there is not None:
                found += self.way(at, there) if at is not None else [there]
            at = there
        functions = tuple(dict.fromkeys(found))
        held = dict.fromkeys(one for name in functions for one in sorted(self.crossing(name)))
        return Walk(functions, tuple(one for one in held if self.carries(one, roots)))

    def around(self, walk: Walk, roots: Sequence[str]) -> set[Name]:
        """Return what the functions of a walk call, however deep, that takes or returns what holds the value.

        Commands are left out: they call everything.
        """
        waiting, seen = [one for one in walk.functions if not one.module.startswith("cli.")], set(walk.functions)
        while waiting:
            for one in self.calls[waiting.pop()] - seen:
                if any(self.carries(held, roots) for held in self.crossing(one)):
                    seen.add(one)
                    waiting.append(one)
        return seen


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Sequence[ast.arg]:
    return (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)


def main() -> None:
    """Print every walk."""
    code = Code(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
    for title, (roots, ends) in WALKS.items():
        found = code.walk(roots, ends)
        around = {one.module for one in code.around(found, roots)}
        print(f"{title}: {len(found.files)} files, {len(found.held)} representations, {len(around)} files around it")
        print("  functions:", *(f"{one.module}:{one.name}" for one in found.functions), sep="\n    ")
        print("  representations:", ", ".join(one.name for one in found.held))


if __name__ == "__main__":
    main()
