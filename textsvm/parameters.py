"""Objects that are their parameters, as scikit-learn's estimators are: it can set, print and clone them.

scikit-learn's own base class would do, but takes more than a second to import, for which one mail that is
predicted should not wait.
"""

from __future__ import annotations

from copy import deepcopy
from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


_KNOWN: dict[type, dict[str, Any]] = {}


def _defaults(kind: type) -> dict[str, Any]:
    """The parameters of a class by name, in order, and their defaults."""
    if kind not in _KNOWN:
        every = sorted(signature(kind).parameters.values(), key=lambda one: one.name)
        _KNOWN[kind] = {
            one.name: one.default for one in every if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        }
    return _KNOWN[kind]


class Parameters:
    """Its attributes are the parameters of its constructor."""

    if TYPE_CHECKING:

        def __init__(self, *values: Any, **parameters: Any) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Its parameters by name; with `deep` those of its parameters as well, as "name__parameter"."""
        found: dict[str, Any] = {}
        for name in _defaults(type(self)):
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{key}": one for key, one in value.get_params().items()}
            found[name] = value
        return found

    def set_params(self, **given: Any) -> Self:
        """Set some of its parameters, or theirs.

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        known, inner = self.get_params(), dict[str, dict[str, Any]]()
        for key, value in given.items():
            name, _, rest = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for {self!r}; there is {', '.join(_defaults(type(self)))}"
                )
            if rest:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, theirs in inner.items():
            known[name].set_params(**theirs)
        return self

    def copy(self) -> Self:
        """A fresh object with copies of its parameters, and nothing that it learnt."""
        return type(self)(**{name: self.copied(name, getattr(self, name)) for name in _defaults(type(self))})

    def copied(self, name: str, value: Any) -> Any:
        """The value of a parameter for a copy."""
        if isinstance(value, list | tuple):
            return type(value)(self.copied(name, each) for each in value)
        return value.copy() if isinstance(value, Parameters) else deepcopy(value)

    def __sklearn_clone__(self) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        defaults, values = _defaults(type(self)), self.get_params(deep=False)
        changed = (
            f"{name}={values[name]!r}" for name in values if repr(values[name]) != repr(defaults[name])
        )
        return f"{type(self).__name__}({', '.join(changed)})"
