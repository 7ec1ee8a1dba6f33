"""SIMD vectors for Numba: LANES values side by side in a register.

LLVM vectorises only innermost loops, which cannot be vectorised for a recurrence along a string. Documents
are independent: these operations process a document per lane, on any CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic as _intrinsic
from numba.extending import models, register_model
from numpy.typing import DTypeLike, NDArray

#: Untyped: Numba calls an intrinsic without its first argument.
intrinsic: Any = _intrinsic
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
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Vector) -> None:
        element = dmm.lookup(fe_type.dtype).get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(element, LANES))


@register_model(Stack)
class _StackModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Stack) -> None:
        element = dmm.lookup(fe_type.dtype).get_value_type()
        super().__init__(dmm, fe_type, ir.PointerType(ir.VectorType(element, LANES)))


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> tuple[Any, int]:
    """Address of the vector, and its known alignment in bytes."""
    data = context.make_array(array_type)(context, builder, array).data
    element = context.get_value_type(array_type.dtype)
    vector = builder.bitcast(builder.gep(data, [index]), ir.PointerType(ir.VectorType(element, LANES)))
    return vector, array_type.dtype.bitwidth // 8


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
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")
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


def _elementwise(floats: str, integers: str):
    """Intrinsic of an operation on two vectors, by the names of LLVM's instructions."""

    @intrinsic
    def operation(typingctx, a, b):
        def codegen(context, builder, signature, args):
            real = isinstance(signature.args[0].dtype, types.Float)
            return getattr(builder, floats if real else integers)(*args)

        return a(a, b), codegen

    return operation


add, subtract = _elementwise("fadd", "add"), _elementwise("fsub", "sub")
multiply = _elementwise("fmul", "mul")
#: Of integers; `shift_right` of unsigned integers.
bit_and, bit_or, bit_xor = _elementwise("", "and_"), _elementwise("", "or_"), _elementwise("", "xor")
shift_left, shift_right = _elementwise("", "shl"), _elementwise("", "lshr")


@intrinsic
def count_bits(typingctx, a):
    """Number of set bits of each integer."""

    def codegen(context, builder, signature, args):
        kind = context.get_value_type(signature.return_type)
        name = f"llvm.ctpop.v{LANES}i{a.dtype.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name)
        return builder.call(function, args)

    return a(a), codegen


@intrinsic
def any_set(typingctx, a):
    """Whether an integer is not 0."""

    def codegen(context, builder, signature, args):
        whole = ir.IntType(LANES * signature.args[0].dtype.bitwidth)
        return builder.icmp_unsigned("!=", builder.bitcast(args[0], whole), ir.Constant(whole, 0))

    return types.boolean(a), codegen


@intrinsic
def multiply_add(typingctx, a, b, c):
    """a * b + c, rounded once where the CPU can."""

    def codegen(context, builder, signature, args):
        kind = context.get_value_type(signature.return_type)
        name = f"llvm.fmuladd.v{LANES}f{a.dtype.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
        return builder.call(function, args)

    return a(a, b, c), codegen


def _where(comparison: str):
    """Intrinsic (a, b, yes, no): `yes` where a comparison of signed integers holds, `no` elsewhere."""

    @intrinsic
    def operation(typingctx, a, b, yes, no):
        def codegen(context, builder, signature, args):
            return builder.select(builder.icmp_signed(comparison, args[0], args[1]), args[2], args[3])

        return yes(a, b, yes, no), codegen

    return operation


where_equal, where_less = _where("=="), _where("<")


@intrinsic
def widen(typingctx, a):
    """The same values in float64."""

    def codegen(context, builder, signature, args):
        if a.dtype == types.float64:
            return args[0]
        return builder.fpext(args[0], context.get_value_type(signature.return_type))

    return Vector(types.float64)(a), codegen


@intrinsic
def to_float(typingctx, a):
    """Integers in float64."""

    def codegen(context, builder, signature, args):
        convert = builder.sitofp if signature.args[0].dtype.signed else builder.uitofp
        return convert(args[0], context.get_value_type(signature.return_type))

    return Vector(types.float64)(a), codegen


@intrinsic
def larger(typingctx, a, b):
    """max(a, b) of floats in a form whose reductions LLVM vectorises: assumes no NaN and +0 equal to -0."""

    def codegen(context, builder, signature, args):
        kind = args[0].type
        function = builder.module.declare_intrinsic(
            "llvm.maxnum", [kind], ir.FunctionType(kind, [kind, kind])
        )
        return builder.call(function, args, fastmath=("nnan", "nsz"))

    return a(a, b), codegen


@intrinsic
def stack(typingctx, sizes, value):
    """As many vectors as the tuple `sizes` has items, of the type of `value`; write before reading."""

    def codegen(context, builder, signature, args):
        return cgutils.alloca_once(builder, context.get_value_type(value), size=len(sizes))

    return Stack(value.dtype)(sizes, value), codegen


@intrinsic
def get(typingctx, vectors, index):
    """vectors[index], unchecked."""

    def codegen(context, builder, signature, args):
        return builder.load(builder.gep(args[0], [args[1]]))

    return Vector(vectors.dtype)(vectors, types.intp), codegen


@intrinsic
def put(typingctx, vectors, index, vector):
    """vectors[index] = vector, unchecked."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], builder.gep(args[0], [args[1]]))
        return context.get_dummy_value()

    return types.void(vectors, types.intp, vector), codegen


def _store(array: Any, index: Any, vector: Any) -> None:
    array[index : index + LANES] = vector


def _count_bits(a: Any) -> Any:
    return sum((a >> np.uint64(place)) & np.uint64(1) for place in range(64))


#: Forms of NumPy for NUMBA_DISABLE_JIT (coverage, debuggers): a vector is an array, a stack is a list.
_UNCOMPILED: dict[str, Callable[..., Any]] = {
    "load": lambda array, index: array[index : index + LANES].copy(),
    "prefetch": lambda array, index: None,
    "store": _store,
    "fill": lambda value: np.full(LANES, value),
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "count_bits": _count_bits,
    "any_set": np.any,
    "multiply_add": lambda a, b, c: a * b + c,
    "where_equal": lambda a, b, yes, no: np.where(a == b, yes, no),
    "where_less": lambda a, b, yes, no: np.where(a < b, yes, no),
    "widen": lambda a: a.astype(np.float64),
    "larger": max,
    "to_float": lambda a: a.astype(np.float64),
    "stack": lambda sizes, value: [value] * len(sizes),
    "get": lambda vectors, index: vectors[index],
    "put": list.__setitem__,
}
if config.DISABLE_JIT:  # type: ignore[attr-defined]
    globals().update(_UNCOMPILED)
