"""Objects that are defined by the parameters of their constructor, and the short text of results."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from html import escape
from inspect import Signature, signature
from reprlib import Repr
from typing import TYPE_CHECKING, Any, Self, TypeVar

_Kind = TypeVar("_Kind")


def defaults_of(kind: Any) -> dict[str, Any]:
    """Default values of the constructor parameters of a class, by name, in alphabetical order."""
    return _defaults(kind)


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    return {
        parameter.name: parameter.default
        for parameter in sorted(signature(kind).parameters.values(), key=lambda parameter: parameter.name)
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


#: Parameters of other libraries' estimators, and the way here.
ELSEWHERE = {
    "probability": "for probabilities of classes use CalibratedSVC(SVC(...))",
    **dict.fromkeys(("random_state", "seed"), "leave it out, nothing is drawn at random"),
    **dict.fromkeys(("gamma", "degree", "coef0"), "it belongs to a kernel, as in kernel=Gaussian(gamma=0.1)"),
    "cache_size": "compute=Compute(memory=...) bounds the memory",
    "decision_function_shape": 'use multiclass="ovr" or "ovo"',
    **dict.fromkeys(("analyzer", "ngram_range"), 'use kernel=Spectrum((1, 5)), or tokens="words" for words'),
}


@cache
def _takes_all(kind: Any) -> bool:
    """Whether the constructor passes other parameters on."""
    own = signature(kind.__init__).parameters.values()
    return any(parameter.kind == parameter.VAR_KEYWORD for parameter in own)


def checked_new(kind: Any, *values: object, **parameters: object) -> Any:
    """``__new__`` that raises TypeError, with the remedy, for an unknown parameter of the constructor."""
    own = defaults_of(kind)
    for name in parameters:
        if name not in own and not _takes_all(kind):
            near = get_close_matches(name.casefold(), {other.casefold(): other for other in own}, 1, 0.7)
            similar = [other for other in own if other.casefold() in near]
            remedy = (
                f"did you mean {similar[0]}?" if similar else ELSEWHERE.get(name, f"it has {', '.join(own)}")
            )
            raise TypeError(f"{kind.__name__} has no parameter {name!r}; {remedy}")
    return object.__new__(kind)


class ConstructorSignature:
    """Signature of a class; before 3.11.4 Python shows that of `checked_new` for a subclass with a mix-in."""

    def __get__(self, instance: object, owner: Any) -> Signature:
        if instance is not None:  # a kernel is called with texts
            raise AttributeError("__signature__")
        own = signature(owner.__init__)
        return own.replace(parameters=list(own.parameters.values())[1:])


#: Types of parameters that are not copied; bool is an int, and most NumPy floats are floats.
_IMMUTABLE = (str, int, float, type(None))


class NamedParameters:
    """Base of classes whose constructor names an unknown parameter and the remedy."""

    if not TYPE_CHECKING:  # type checkers read the constructor
        __new__ = checked_new
        __signature__ = ConstructorSignature()


class Parameters(NamedParameters):
    """scikit-learn's parameter interface without its `BaseEstimator`, whose import takes more than a second.

    The constructor stores its parameters under their names.
    """

    if TYPE_CHECKING:

        def __init__(self, *values: object, **parameters: object) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` nested ones as well, as "name__parameter"."""
        params: dict[str, Any] = {}
        for name in defaults_of(type(self)):
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{key}": inner for key, inner in value.get_params().items()}
            params[name] = value
        return params

    def set_params(self, **parameters: object) -> Self:
        """Set parameters, also nested ones ("name__parameter")."""
        names, nested = self.get_params(), dict[str, dict[str, Any]]()
        for key, value in parameters.items():
            name, _, rest = key.partition("__")
            if name not in names:
                raise ValueError(
                    f"Invalid parameter {name!r} for {self!r}; there is {', '.join(defaults_of(type(self)))}"
                )
            if rest:
                nested.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        current = self.get_params() if nested else {}
        for name, values in nested.items():
            part = self._default_of(name) if current[name] is None else current[name]
            if hasattr(part, "set_params"):
                part.set_params(**values)
            elif is_dataclass(part) and set(values) <= set(vars(part)):
                setattr(self, name, replace(part, **values))  # type: ignore[type-var]
            else:
                remedy = "; set kernel=Spectrum(...) or another kernel first" if name == "kernel" else ""
                raise ValueError(f"{name} is {part!r} and has no parameter {next(iter(values))!r}{remedy}")
        return self

    def _default_of(self, name: str) -> Any:
        """The object that None stands for."""
        return None

    def __sklearn_clone__(self) -> Self:
        """An object with copies of the parameters and without anything learnt."""
        values = {name: getattr(self, name) for name in defaults_of(type(self))}
        return type(self)(
            **{
                name: value if isinstance(value, _IMMUTABLE) else self._copied(name, value)
                for name, value in values.items()
            }
        )

    def _copied(self, name: str, value: object) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(self._copied(name, item) for item in value)
        return value.__sklearn_clone__() if isinstance(value, Parameters) else deepcopy(value)

    def __repr__(self) -> str:
        defaults, values = defaults_of(type(self)), self.get_params(deep=False)
        changed = (f"{key}={values[key]!r}" for key in values if repr(values[key]) != repr(defaults[key]))
        return f"{type(self).__name__}({', '.join(changed)})"


class _ShortRepr(Repr):
    """`reprlib.Repr` with few digits, shapes of arrays, and names of inner results."""

    def repr_float(self, x: float, level: int) -> str:
        return f"{x:.4g}"

    def repr_ndarray(self, x: Any, level: int) -> str:
        return f"<array of {x.dtype}, shape {x.shape}>"

    def repr_instance(self, x: object, level: int) -> str:
        if is_dataclass(x):
            return f"{type(x).__name__}(...)"
        return super().repr_instance(x, level)


_SHORT = _ShortRepr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 3
_SHORT.maxother = _SHORT.maxstring = 40
_SHOWN = 500  #: Characters of the fields that are shown.
_CELL, _ROWS = 120, 12  #: Most characters of a cell, and rows, of a table in a notebook.


def with_short_repr(kind: type[_Kind]) -> type[_Kind]:
    """Class decorator of a dataclass of results: a prompt or a notebook shows at most 600 characters."""

    def short(self: Any) -> str:
        values = (f"{field.name}={_SHORT.repr(vars(self)[field.name])}" for field in fields(self))
        shown = ", ".join(values)
        return f"{kind.__name__}({shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'})"

    kind.__repr__ = short  # type: ignore[method-assign]
    return kind


def notebook_table(title: str, rows: Sequence[Sequence[object]]) -> str:
    """Table for a notebook. Every cell is escaped; numbers have four digits."""

    def cell(value: object) -> str:
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        return escape(shown if len(shown) <= _CELL else f"{shown[:_CELL]}...")

    lines = ("".join(f"<td>{cell(value)}</td>" for value in row) for row in rows[:_ROWS])
    return f"<b>{cell(title)}</b><table><tr>{'</tr><tr>'.join(lines)}</tr></table>"
