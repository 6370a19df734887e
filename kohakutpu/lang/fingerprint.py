"""A digest of a function and of everything that its result can depend on."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kohakuaccel.ir.expr import Expr
from kohakuaccel.ir.nodes import Buffer
from kohakuaccel.ir.scalar import Scalar
from kohakuaccel.source import is_internal

_identities: dict[int, tuple[object, int]] = {}  # holds the objects, so that ids stay theirs
_UNITS = (bool, int, float, complex, str, bytes)


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
        self.seen: dict[int, tuple[int, object]] = {}

    def write(self, *texts: object) -> None:
        for text in texts:
            raw = text if isinstance(text, bytes) else repr(text).encode()
            self.hash.update(len(raw).to_bytes(8, "little") + raw)

    def add(self, value: Any) -> None:
        """Add a value by content; one that was met before by its number."""
        self.write(type(value).__qualname__)
        if value is None or isinstance(value, _UNITS):
            self.write(value)
        elif id(value) in self.seen:
            self.write("seen", self.seen[id(value)][0])
        else:
            self.seen[id(value)] = len(self.seen), value
            self.add_object(value)

    def add_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.add(value)
        self.write("end")

    def add_object(self, value: Any) -> None:
        for kind, method in _METHODS.items():
            if isinstance(value, kind):
                method(self, value)
                return
        if _is_installed(value):
            self.add_named(value)
        else:
            self.add_state(value)

    def add_function(self, function: FunctionType) -> None:
        if _is_installed(function):
            self.add_named(function)
            return
        code = function.__code__
        self.add_code(code)
        self.add_all((function.__defaults__, function.__kwdefaults__))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self.write(name)
            try:
                self.add(cell.cell_contents)
            except ValueError:  # the variable is not assigned yet
                self.write("empty")
        for name in _names(code):
            if name in function.__globals__:
                self.write(name)
                self.add_global(function.__globals__[name], code)

    def add_global(self, value: Any, code: CodeType) -> None:
        """Add a global; of a module of the user's, what the code may take from it."""
        self.add(value)
        if isinstance(value, ModuleType) and not _is_installed(value):
            for name in _names(code):
                if name in vars(value):
                    self.write(name)
                    self.add(vars(value)[name])

    def add_code(self, code: CodeType) -> None:
        self.write(code.co_code, code.co_names, code.co_varnames, code.co_flags)
        self.write(code.co_filename, code.co_firstlineno, code.co_linetable)  # the debug map
        self.add_all(code.co_consts)

    def add_method(self, method: MethodType) -> None:
        self.add_all((method.__func__, method.__self__))

    def add_array(self, array: Any) -> None:
        contents: NDArray[Any] = np.asarray(array)
        self.write(contents.dtype.str, contents.shape)
        if contents.dtype.hasobject:
            self.add_all(contents.ravel().tolist())
        else:
            self.write(contents.tobytes())

    def add_set(self, values: Any) -> None:
        self.write(*sorted(_alone(value) for value in values))

    def add_dict(self, values: Any) -> None:
        for key in values:
            self.add_all((key, values[key]))

    def add_class(self, kind: Any) -> None:
        self.add_named(kind)
        if not _is_installed(kind):
            self.add_all(kind.__bases__)
            members: dict[str, Any] = dict(kind.__dict__)
            for name, member in sorted(members.items()):
                if isinstance(member, (FunctionType, property, tuple, *_UNITS)):
                    self.write(name)
                    self.add(member)

    def add_symbolic(self, value: Any) -> None:
        self.write(str(value), *sorted(f"{s.kind} {s.name}" for s in value.symbols()))

    def add_buffer(self, buffer: Buffer) -> None:
        self.write(buffer.name, buffer.role, buffer.dtype, buffer.batched, buffer.any_rank)
        self.add_all((buffer.shape, buffer.value))

    def add_property(self, value: property) -> None:
        self.add_all((value.fget, value.fset))

    def add_named(self, value: Any) -> None:
        for attribute in ("__module__", "__qualname__", "__name__"):
            self.write(getattr(value, attribute, None))

    def add_state(self, value: Any) -> None:
        """Add an object by its class and attributes, without any by a number of its own."""
        state = dict(getattr(value, "__dict__", {}))
        for kind in type(value).__mro__:
            for name in _slots(kind):
                if hasattr(value, name):
                    state[name] = getattr(value, name)
        self.add(type(value))
        if state:
            self.add(state)
        else:
            entry = _identities.setdefault(id(value), (value, len(_identities)))
            self.write("identity", entry[1])


_METHODS: dict[Any, Callable[[_Digest, Any], None]] = {
    FunctionType: _Digest.add_function,
    MethodType: _Digest.add_method,
    CodeType: _Digest.add_code,
    (np.ndarray, np.generic): _Digest.add_array,
    (tuple, list): _Digest.add_all,
    (set, frozenset): _Digest.add_set,
    dict: _Digest.add_dict,
    type: _Digest.add_class,
    ModuleType: _Digest.add_named,
    property: _Digest.add_property,
    (Expr, Scalar): _Digest.add_symbolic,
    Buffer: _Digest.add_buffer,
}


def _alone(value: Any) -> str:
    digest = _Digest()
    digest.add(value)
    return digest.hash.hexdigest()


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
    """Return whether a module, class or callable is Python's, a package's or this toolchain's."""
    if isinstance(value, ModuleType):
        name: Any = value.__name__
    elif callable(value):
        name = getattr(value, "__module__", None)
    else:
        return False
    if not isinstance(name, str) or name == "__main__":
        return False
    if name.split(".")[0] in sys.stdlib_module_names or is_internal(name):
        return True
    return "site-packages" in (getattr(sys.modules.get(name), "__file__", None) or "")
