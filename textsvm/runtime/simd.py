"""SIMD vectors for Numba: LANES values side by side in a register.

LLVM vectorises only innermost loops, which cannot be vectorised for a recurrence along a string. Documents
are independent: these operations process a document per lane, on any CPU. Vectors of the same type also have
the operators +, -, * and, of integers, &, |, ^.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic as _intrinsic
from numba.extending import lower_builtin, models, register_model, type_callable
from numpy.typing import DTypeLike, NDArray

intrinsic: Any = _intrinsic  #: Untyped: Numba calls an intrinsic without its first argument
_HOST = llvmlite.binding.get_host_cpu_features()
#: Values per vector: the float32 values of a register.
LANES = 16 if _HOST.get("avx512f") else 8 if _HOST.get("avx2") else 4


def aligned(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """Uninitialised array aligned to a cache line, so that no vector crosses two lines."""
    room = np.empty(size * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : len(room) - 64 + start].view(dtype)


class Vector(types.Type):
    """LANES values of a Numba scalar type."""

    def __init__(self, dtype: types.Type) -> None:
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype})")


class Stack(types.Type):
    """Array of vectors on the stack; in registers once LLVM has unrolled the loops over it."""

    def __init__(self, dtype: types.Type) -> None:
        self.dtype = dtype
        super().__init__(name=f"Stack({dtype})")


@register_model(Vector)
@register_model(Stack)
class _Model(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Vector | Stack) -> None:
        vector = ir.VectorType(dmm.lookup(fe_type.dtype).get_value_type(), LANES)
        super().__init__(dmm, fe_type, ir.PointerType(vector) if isinstance(fe_type, Stack) else vector)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> tuple[Any, int]:
    """Address of the vector, and its known alignment in bytes."""
    data = context.make_array(array_type)(context, builder, array).data
    element = context.get_value_type(array_type.dtype)
    vector = builder.bitcast(builder.gep(data, [index]), ir.PointerType(ir.VectorType(element, LANES)))
    return vector, array_type.dtype.bitwidth // 8


def _declared(module: ir.Module, kind: ir.FunctionType, name: str) -> ir.Function:
    """A function of LLVM, declared in the module once."""
    return module.globals.get(name) or ir.Function(module, kind, name)


@intrinsic
def load(typingctx, array, index):
    """array[index : index + LANES] of a one-dimensional contiguous array, unchecked."""

    def codegen(context, builder, signature, args):
        pointer, align = _address(context, builder, signature.args[0], *args)
        return builder.load(pointer, align=align)

    return Vector(array.dtype)(array, types.intp), codegen


@intrinsic
def prefetch(typingctx, array, index):
    """Ask for the cache line of array[index], which is read soon; changes nothing else."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address, whole, whole, whole])
        function = _declared(builder.module, kind, "llvm.prefetch")
        options = [ir.Constant(whole, value) for value in (0, 3, 1)]  # to read, into all caches, of data
        builder.call(function, [builder.bitcast(builder.gep(data, [args[1]]), address), *options])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@intrinsic
def store(typingctx, array, index, vector):
    """array[index : index + LANES] = vector, unchecked."""

    def codegen(context, builder, signature, args):
        pointer, align = _address(context, builder, signature.args[0], *args[:2])
        builder.store(args[2], pointer, align=align)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), codegen


@intrinsic
def fill(typingctx, value):
    """A vector of equal values."""

    def codegen(context, builder, signature, args):
        kind = context.get_value_type(signature.return_type)
        first = builder.insert_element(
            ir.Constant(kind, ir.Undefined), args[0], ir.Constant(ir.IntType(32), 0)
        )
        order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), order)

    return Vector(value)(value), codegen


def _define(operation, floats: str, integers: str):
    """An operator on two vectors, by the names of LLVM's instructions."""

    def typer(a, b):
        return a if isinstance(a, Vector) and a == b else None

    def codegen(context, builder, signature, args):
        real = isinstance(signature.return_type.dtype, types.Float)
        return getattr(builder, floats if real else integers)(*args)

    type_callable(operation)(lambda context: typer)
    lower_builtin(operation, Vector, Vector)(codegen)


_define(operator.add, "fadd", "add")
_define(operator.sub, "fsub", "sub")
_define(operator.mul, "fmul", "mul")
# Of integers.
_define(operator.and_, "", "and_")
_define(operator.or_, "", "or_")
_define(operator.xor, "", "xor")


def _of_one(result, emit):
    """Intrinsic of a vector, by the type of the result and the code for (builder, types, vector)."""

    @intrinsic
    def operation(typingctx, a):
        def codegen(context, builder, signature, args):
            return emit(builder, a.dtype, context.get_value_type(signature.return_type), *args)

        return result(a)(a), codegen

    return operation


def _call(builder, name, kind, *args, fastmath=()):
    """Call a function of LLVM whose arguments and result have the same type."""
    function = _declared(builder.module, ir.FunctionType(kind, [kind] * len(args)), name)
    return builder.call(function, args, fastmath=fastmath)


#: Number of set bits of each integer.
count_bits = _of_one(
    lambda a: a, lambda builder, dtype, *args: _call(builder, f"llvm.ctpop.v{LANES}i{dtype.bitwidth}", *args)
)
#: The same values in float64.
widen = _of_one(
    lambda a: Vector(types.float64),
    lambda builder, dtype, kind, a: a if dtype == types.float64 else builder.fpext(a, kind),
)


@intrinsic
def multiply_add(typingctx, a, b, c):
    """a * b + c, rounded once where the CPU can."""

    def codegen(context, builder, signature, args):
        kind = context.get_value_type(signature.return_type)
        return _call(builder, f"llvm.fmuladd.v{LANES}f{a.dtype.bitwidth}", kind, *args)

    return a(a, b, c), codegen


@intrinsic
def where_equal(typingctx, a, b, yes, no):
    """`yes` where the integers a and b are equal, `no` elsewhere."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.icmp_signed("==", args[0], args[1]), args[2], args[3])

    return yes(a, b, yes, no), codegen


@intrinsic
def larger(typingctx, a, b):
    """max(a, b) of floats in a form whose reductions LLVM vectorises: assumes no NaN and +0 equal to -0."""

    def codegen(context, builder, signature, args):
        return _call(builder, f"llvm.maxnum.f{a.bitwidth}", args[0].type, *args, fastmath=("nnan", "nsz"))

    return a(a, b), codegen


@intrinsic
def stack(typingctx, sizes, value):
    """As many vectors as the tuple `sizes` has items, of the type of `value`; write before reading."""

    def codegen(context, builder, signature, args):
        kind = context.get_value_type(value)
        with builder.goto_entry_block():  # once, also in a loop
            vectors = builder.alloca(kind, size=ir.Constant(context.get_value_type(types.intp), len(sizes)))
            builder.store(kind(None), vectors)
        return vectors

    return Stack(value.dtype)(sizes, value), codegen


def _get(context, builder, signature, args):
    return builder.load(builder.gep(args[0], [context.cast(builder, args[1], signature.args[1], types.intp)]))


def _put(context, builder, signature, args):
    index = context.cast(builder, args[1], signature.args[1], types.intp)
    builder.store(args[2], builder.gep(args[0], [index]))


# vectors[index] of a stack, unchecked.
lower_builtin(operator.getitem, Stack, types.Integer)(_get)
lower_builtin(operator.setitem, Stack, types.Integer, Vector)(_put)


@type_callable(operator.getitem)
def _type_get(context):
    return lambda vectors, index: Vector(vectors.dtype) if isinstance(vectors, Stack) else None


@type_callable(operator.setitem)
def _type_put(context):
    return lambda vectors, index, vector: types.void if isinstance(vectors, Stack) else None


def _count_bits(a: Any) -> Any:
    return sum((a >> np.uint64(place)) & np.uint64(1) for place in range(64))


#: Forms of NumPy for NUMBA_DISABLE_JIT (coverage, debuggers): a vector is an array, a stack is a list.
_UNCOMPILED: dict[str, Callable[..., Any]] = {
    "load": lambda array, index: array[index : index + LANES].copy(),
    "prefetch": lambda array, index: None,
    "store": lambda array, index, vector: array.__setitem__(slice(index, index + LANES), vector),
    "fill": lambda value: np.full(LANES, value),
    "count_bits": _count_bits,
    "multiply_add": lambda a, b, c: a * b + c,
    "where_equal": lambda a, b, yes, no: np.where(a == b, yes, no),
    "widen": lambda a: a.astype(np.float64),
    "larger": max,
    "stack": lambda sizes, value: [value] * len(sizes),
}
if config.DISABLE_JIT:  # type: ignore[attr-defined]
    globals().update(_UNCOMPILED)
