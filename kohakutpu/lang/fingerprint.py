"""A digest of a function and of everything that its result can depend on."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from kohakuaccel.ir.expr import Expr
from kohakuaccel.ir.nodes import Buffer
from kohakuaccel.ir.scalar import Scalar
from kohakuaccel.source import is_internal

_tokens: dict[int, tuple[object, int]] = {}


def fingerprint(function: Callable[..., Any]) -> str:
    """Return a digest of the function's code, defaults, closure and globals, helpers included.

    Helpers are followed through the user's own modules; the standard library, installed packages
    and this toolchain count by name. Objects without comparable content count by identity.
    """
    digest = _Digest()
    digest.add(function)
    return digest.hash.hexdigest()


class _Digest:
    def __init__(self) -> None:
        self.hash = hashlib.blake2b(sys.version.encode(), digest_size=16)
        self.seen: dict[int, int] = {}
        self.alive: list[object] = []  # ids stay unique while the objects live

    def write(self, *texts: object) -> None:
        for text in texts:
            raw = text if isinstance(text, bytes) else repr(text).encode()
            self.hash.update(len(raw).to_bytes(8, "little") + raw)

    def add(self, value: Any) -> None:
        """Add a value by content."""
        self.write(type(value).__qualname__)
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self.write(value)
            return
        if id(value) in self.seen:
            self.write("seen", self.seen[id(value)])
            return
        self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        self._add_object(value)

    def _add_object(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, MethodType):
            self._add_all((value.__func__, value.__self__))
        elif isinstance(value, CodeType):
            self._add_code(value)
        elif isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            self.write(array.dtype.str, array.shape)
            if array.dtype.hasobject:
                self._add_all(array.ravel().tolist())
            else:
                self.write(np.ascontiguousarray(array).tobytes())
        elif isinstance(value, (tuple, list)):
            self._add_all(value)
        elif isinstance(value, (set, frozenset)):
            parts = [self._alone(item) for item in value]
            self.write(*sorted(parts))
        elif isinstance(value, dict):
            self._add_all(x for pair in value.items() for x in pair)
        elif isinstance(value, (ModuleType, type)) or _is_installed(value):
            self._add_named(value)
        elif isinstance(value, (Expr, Scalar)):
            self.write(str(value), *sorted(f"{s.kind} {s.name}" for s in value.symbols()))
        elif isinstance(value, Buffer):
            axes = (value.name, value.role, value.dtype, value.batched, value.any_rank)
            self._add_all((*axes, value.shape, value.value))
        else:
            self._add_state(value)

    def _add_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.add(value)
        self.write("end")

    def _alone(self, value: Any) -> str:
        other = _Digest()
        other.add(value)
        return other.hash.hexdigest()

    def _add_function(self, function: FunctionType) -> None:
        if _is_installed(function):
            self._add_named(function)
            return
        code = function.__code__
        self._add_code(code)
        self._add_all((function.__defaults__, function.__kwdefaults__))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self.write(name)
            try:
                self.add(cell.cell_contents)
            except ValueError:  # not assigned yet
                self.write("empty")
        for name in _names(code):
            if name in function.__globals__:
                self.write(name)
                self._add_reference(function.__globals__[name], code)

    def _add_reference(self, value: Any, code: CodeType) -> None:
        """Add a global; of a module of the user's, what the code may take from it."""
        self.add(value)
        if isinstance(value, ModuleType) and not _is_installed(value):
            for name in _names(code):
                if name in vars(value):
                    self.write(name)
                    self.add(vars(value)[name])

    def _add_code(self, code: CodeType) -> None:
        self.write(code.co_code, code.co_names, code.co_varnames, code.co_filename)
        self.write(code.co_firstlineno, code.co_linetable, code.co_flags)
        self._add_all(code.co_consts)

    def _add_named(self, value: Any) -> None:
        self.write(getattr(value, "__module__", None), getattr(value, "__qualname__", None))
        self.write(getattr(value, "__name__", None))
        if isinstance(value, type) and not _is_installed(value):
            self._add_all(value.__bases__)
            for name, member in sorted(vars(value).items()):
                if isinstance(member, (FunctionType, int, float, str, bytes, tuple, property)):
                    self.write(name)
                    self.add(member)

    def _add_state(self, value: Any) -> None:
        """Add an object by its class and attributes, else by a number of its own."""
        if isinstance(value, property):
            self._add_all((value.fget, value.fset))
            return
        state = dict(getattr(value, "__dict__", {}))
        for kind in type(value).__mro__:
            for name in _slots(kind):
                if hasattr(value, name):
                    state[name] = getattr(value, name)
        self.add(type(value))
        if state:
            self.add(state)
            return
        token = _tokens.setdefault(id(value), (value, len(_tokens)))[1]
        self.write("identity", token)


def _names(code: CodeType) -> list[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(_names(constant))
    return sorted(names)


def _slots(kind: type) -> tuple[str, ...]:
    slots: Any = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_installed(value: Any) -> bool:
    """Return whether a module, class or function comes with Python, a package or this toolchain."""
    if not isinstance(value, (ModuleType, type, FunctionType)) and not callable(value):
        return False
    name: Any = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    if not isinstance(name, str):
        return isinstance(value, type)
    if name.split(".")[0] in sys.stdlib_module_names or is_internal(name):
        return name != "__main__"
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None) or ""
    return "site-packages" in file or (module is not None and not file and name == "builtins")
