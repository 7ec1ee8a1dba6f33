"""Kernels as text, ``spectrum:2-7,log,idf+gap:4,decay=0.5*edit:gamma=0.1``, parsed and written.

    kernel := term + term + ...         the mean of the terms (Sum)
    term   := part * part * ...         the product of the parts (Product)
    part   := leaf, or column=leaf, or column,column,...=leaf      (On)
    leaf   := name, or name:option,option,...
    option := the value of an option that may stand without its name, a flag, or option=value

Names and options are those of `KERNELS` and `NAMED`; other parameters have their defaults. A column name that
contains any of ``+*:=,"`` or begins or ends with a blank stands in double quotes, with its quotes doubled:
``subject=spectrum:1-5,log,idf + "price, net",hour=gaussian:gamma=0.5``.

This module imports no kernel: the command line needs it for its help.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textsvm.errors import InputError
from textsvm.kernels import KERNELS
from textsvm.kernels.options import Option

if TYPE_CHECKING:
    from textsvm.kernels.base import Kernel

#: Further names of kernels: the name of the kernel, its fixed options, and other defaults.
NAMED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "words": ("spectrum", ("tokens=words",), ("p=1",)),
    "encoder": ("encoder", (), ()),  # needs the name of an encoder
}
#: Names of kernels in scikit-learn.
IN_SKLEARN = {"rbf": "gaussian", "poly": "polynomial"}
_SIGNS = {"sum": "+", "product": "*"}
_SPECIAL = '+*:=,"'


def is_spelled_out(text: str) -> bool:
    """Whether a text is not just the name of a registered kernel."""
    return text in NAMED or any(sign in text for sign in ":+*=")


def names() -> list[str]:
    """Names of kernels that can be leaves."""
    return [*KERNELS.simple(), *NAMED]


def parse(text: str) -> Kernel:
    """Parse a kernel; raises InputError with the part in error."""
    if text.count('"') % 2:
        raise InputError(f"a quote is not closed in {text}")
    terms = [_join("product", list(map(_part, _split(term, "*")))) for term in _split(text, "+")]
    kernel = _join("sum", terms)
    kernel.check()
    return kernel


def spell(kernel: Kernel) -> str:
    """Write a kernel. `parse` returns an equal kernel if the syntax can express it.

    It cannot express weights of a sum, sums in sums and products, products in products, sums and products on
    a column, and parameters that are no options.
    """
    if kernel.name == "on":
        parameters = kernel.get_params(deep=False)
        columns = [parameters["column"]] if isinstance(parameters["column"], str) else parameters["column"]
        form = "{}=({})" if parameters["kernel"].name in _SIGNS else "{}={}"
        return form.format(",".join(map(_quote, columns)), spell(parameters["kernel"]))
    if kernel.name not in _SIGNS:
        column = kernel.structure.view.column
        columns = [column] if isinstance(column, str) else column or []
        return f"{','.join(map(_quote, columns))}={_spell_part(kernel)}" if columns else _spell_part(kernel)
    weights, parts = kernel.get_params(deep=False).get("weights"), kernel.get_params(deep=False)["kernels"]
    inside = [
        f"({spell(part)})" if part.name == "sum" or part.name == kernel.name else spell(part)
        for part in parts
    ]
    if weights is None or len(inside) == 1:
        return _SIGNS[kernel.name].join(inside)
    total = sum(weights)
    return " + ".join(f"{weight / total:.3g} {part}" for weight, part in zip(weights, inside, strict=True))


def _join(name: str, parts: Sequence[Kernel]) -> Kernel:
    return parts[0] if len(parts) == 1 else KERNELS[name](kernels=parts)


def _split(text: str, sign: str, most: int = 0) -> list[str]:
    """Split a text at a sign outside of quotes."""
    return re.split(rf'{re.escape(sign)}(?=(?:[^"]*"[^"]*")*[^"]*$)', text, maxsplit=most)


def _part(text: str) -> Kernel:
    *columns, _ = _split(_split(text, ":", 1)[0], "=", 1)
    if not columns:
        return _leaf(text)
    names = [_unquote(column.strip(), text) for column in _split(columns[0], ",")]
    kernel = _leaf(text[len(columns[0]) + 1 :])
    return KERNELS["on"](column=names[0] if len(names) == 1 else tuple(names), kernel=kernel)


def _unquote(column: str, text: str) -> str:
    if not column or (column.startswith('"') and not re.fullmatch(r'"(?:[^"]|"")+"', column)):
        raise InputError(f"a column is missing in {text.strip()}")
    return column[1:-1].replace('""', '"') if column.startswith('"') else column


def _quote(column: str) -> str:
    plain = column.strip() == column and not any(sign in column for sign in _SPECIAL)
    return column if plain else '"' + column.replace('"', '""') + '"'


def _leaf(text: str) -> Kernel:
    name, colon, options_text = (piece.strip() for piece in text.partition(":"))
    if name not in names():
        error = f"{name!r} is no kernel" if name else "a kernel is missing"
        raise InputError(f"{error}; take one of {', '.join(names())}, as in spectrum:2-7,log,idf+gap:4")
    base, fixed, defaults = NAMED.get(name, (name, (), ()))
    options = {option.name: option for option in KERNELS.options(base)}
    parameters: dict[str, dict[str, object]] = {}
    for piece in (*fixed, *(_split(options_text, ",") if colon else ())):
        option, values = _option(piece.strip(), options, text)
        if option.name in parameters:
            raise InputError(f"{option.name} is given twice in {text}")
        parameters[option.name] = values
    for piece in defaults:
        option, values = _option(piece, options, text)
        parameters.setdefault(option.name, values)
    return KERNELS[base](**{key: value for values in parameters.values() for key, value in values.items()})


def _option(piece: str, options: dict[str, Option], text: str) -> tuple[Option, dict[str, object]]:
    """The option of a piece of a part, and the parameters that it sets."""
    name, equals, value = piece.partition("=")
    if equals and name in options and options[name].metavar:
        try:
            return options[name], options[name].parameters(options[name].convert(value))
        except InputError as error:
            raise InputError(f"{name}={value} {error}") from error
        except ValueError as error:
            raise InputError(f"{name}={value} is no number") from error
    flag = options.get(piece.replace("-", "_"))
    if flag is not None and not flag.metavar:
        return flag, flag.parameters(True)
    for option in options.values():
        if option.bare and (not equals or piece[0] == '"'):
            try:
                return option, option.parameters(option.convert(piece))
            except (InputError, ValueError):
                continue
    forms = ", ".join(map(_form, options.values()))
    trouble = f"{piece!r} is no option" if piece else "an option is missing"
    raise InputError(f"{trouble} in {text}; it takes {forms}")


def _form(option: Option) -> str:
    if not option.metavar:
        return option.name
    return option.metavar if option.bare else f"{option.name}={option.metavar}"


def _spell_part(kernel: Kernel) -> str:
    params, pieces = kernel.get_params(deep=False), []
    options = KERNELS.options(kernel.name)
    defaults: dict[str, object] = type(kernel)().get_params(deep=False) if options else params
    name, fixed = _name_of(kernel, params)
    rest = {key: own for key, own in params.items() if not _same(own, defaults[key]) and key not in fixed}
    for number, option in enumerate(options):
        piece, keys = _piece(option, params)
        if number == 0 or any(key in rest for key in keys):
            pieces += [piece] if keys else []
            rest = {key: value for key, value in rest.items() if key not in keys}
    pieces += [f"{key}={_plain(value)}" for key, value in rest.items()]
    return f"{name}:{','.join(pieces)}" if pieces else name


def _name_of(kernel: Kernel, params: dict[str, object]) -> tuple[str, set[str]]:
    """The most specific name of a kernel, and the parameters that it fixes."""
    options = {option.name: option for option in KERNELS.options(kernel.name)}
    for name, (base, fixed, _) in NAMED.items():
        if base == kernel.name and all(piece.partition("=")[0] in options for piece in fixed):
            values = {key: own for piece in fixed for key, own in _option(piece, options, name)[1].items()}
            if _all_same(values, params):
                return name, set(values)
    return kernel.name, set()


def _piece(option: Option, params: dict[str, object]) -> tuple[str, set[str]]:
    """Text of an option that sets these parameters, and their names; "" and no names if it cannot."""
    text, value = option.name, "True"
    if params.get(option.name) is False:
        return "", set()
    if option.metavar:
        value = (option.text(params) if option.text else str(params[option.name])).replace("e+", "e")
        text = value if option.bare else f"{option.name}={value}"
    try:
        values = option.parameters(option.convert(value) if option.metavar else True)
    except (InputError, ValueError):
        return "", set()
    return (text, set(values)) if _all_same(values, params) else ("", set())


def _all_same(values: dict[str, object], params: dict[str, object]) -> bool:
    return all(_same(value, params[name]) for name, value in values.items())


def _same(a: object, b: object) -> bool:
    """Whether parameters are equal, lists and arrays like tuples."""
    return bool(_plain(a) == _plain(b))


def _plain(value: object) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return getattr(value, "__name__", value) if callable(value) else value
