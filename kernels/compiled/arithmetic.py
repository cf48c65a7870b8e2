"""Operations on one lane: integers, floats, comparisons and casts, from MLIR's `arith` and `math` to LLVM.

What LLVM leaves undefined and a GPU computes (division by zero, shifts past the width, casts of floats out of range)
is given a value, because lanes that a mask switches off are computed too. bfloat16 travels as its 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from stalerow.kernels.compiled.mlir import FLOAT_PREDICATES, Op

ADDRESS = ir.IntType(64)
"""Pointers are integers here: kernels compute them from integers, and every one is checked before it is used."""

_FLOATS = {"f16": ir.HalfType(), "f32": ir.FloatType(), "f64": ir.DoubleType()}
SIZES = {"i1": 1, "i8": 1, "i16": 2, "bf16": 2, "f16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8, "index": 8, "ptr": 8}
"""Bytes of an element in memory."""

_INTEGER_PREDICATES = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
_UNSIGNED_FROM = 6


def llvm_type(element: str) -> ir.Type:
    """The LLVM type of a lane. Raises KeyError for an element type that is not translated."""
    if element in _FLOATS:
        return _FLOATS[element]
    if element in ("ptr", "index"):
        return ADDRESS
    if element == "bf16":
        return ir.IntType(16)
    if element not in SIZES:
        raise KeyError(element)
    return ir.IntType(int(element[1:]))


def stored_type(element: str) -> ir.Type:
    """The same in memory, where a bit takes a byte."""
    return ir.IntType(8) if element == "i1" else llvm_type(element)


def constant(element: str, op: Op) -> ir.Constant:
    """The value of an `arith.constant`."""
    if element == "bf16":
        return ir.Constant(ir.IntType(16), _bfloat_bits(op))
    if element in _FLOATS:
        if "bits" in op.attributes:
            width = SIZES[element] * 8
            return ir.Constant(ir.IntType(width), op.attributes["bits"]).bitcast(_FLOATS[element])
        return ir.Constant(_FLOATS[element], float(op.attributes["value"]))
    kind = llvm_type(element)
    return ir.Constant(kind, _wrapped(int(op.attributes["value"]), kind.width))


def _wrapped(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if width > 1 and value >> (width - 1) else value


def _bfloat_bits(op: Op) -> int:
    if "bits" in op.attributes:
        return int(op.attributes["bits"])
    import numpy as np

    bits = int(np.float32(op.attributes["value"]).view(np.uint32))
    return bits >> 16


Emit = Callable[..., ir.Value]


def emit(b: ir.IRBuilder, op: Op, args: list[ir.Value], kinds: list[str], result: str) -> ir.Value:
    """One lane of `op`: `args` of element types `kinds` to an element of type `result`.

    Raises KeyError for an operation that is not translated.
    """
    name = op.name
    if name in _BINARY:
        return _BINARY[name](b, *args)
    if name in _CASTS:
        return _CASTS[name](b, args[0], kinds[0], result)
    if name in _FLOAT_BINARY or name in _FLOAT_UNARY:
        wide = [_widened(b, x, kind) for x, kind in zip(args, kinds)]
        made = (_FLOAT_BINARY.get(name) or _FLOAT_UNARY[name])(b, *wide)
        return _narrowed(b, made, result)
    match name:
        case "arith.cmpi":
            predicate = int(op.attributes["predicate"])
            compare = b.icmp_unsigned if predicate >= _UNSIGNED_FROM else b.icmp_signed
            return compare(_INTEGER_PREDICATES[predicate], args[0], args[1])
        case "arith.cmpf":
            wide = [_widened(b, x, kind) for x, kind in zip(args, kinds)]
            return _compared(b, FLOAT_PREDICATES[int(op.attributes["predicate"])], *wide)
        case "arith.select":
            return b.select(*args)
        case "math.absi":
            return b.select(b.icmp_signed("<", args[0], args[0].type(0)), b.neg(args[0]), args[0])
        case "tt.addptr":
            offset = b.sext(args[1], ADDRESS) if args[1].type.width < 64 else args[1]
            return b.add(args[0], b.mul(offset, ADDRESS(int(op.attributes["size"]))))
    raise KeyError(name)


def _compared(b: ir.IRBuilder, predicate: str, x: ir.Value, y: ir.Value) -> ir.Value:
    if predicate in ("true", "false"):
        return ir.Constant(ir.IntType(1), int(predicate == "true"))
    compare = b.fcmp_ordered if predicate[0] == "o" and predicate != "ord" else b.fcmp_unordered
    words = {"eq": "==", "gt": ">", "ge": ">=", "lt": "<", "le": "<=", "ne": "!="}
    return compare(words.get(predicate[1:], predicate), x, y)


def known(name: str) -> bool:
    """Whether `emit` translates operations called `name`."""
    return (
        name in _BINARY
        or name in _CASTS
        or name in _FLOAT_BINARY
        or name in _FLOAT_UNARY
        or name in ("arith.cmpi", "arith.cmpf", "arith.select", "math.absi", "tt.addptr")
    )


def _divided(signed: bool, remainder: bool) -> Emit:
    def emit_division(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        one = x.type(1)
        undefined = b.icmp_signed("==", y, x.type(0))
        if signed:
            least = b.icmp_signed("==", x, x.type(-(1 << (x.type.width - 1))))
            undefined = b.or_(undefined, b.and_(least, b.icmp_signed("==", y, x.type(-1))))
        y = b.select(undefined, one, y)
        if remainder:
            return b.srem(x, y) if signed else b.urem(x, y)
        return b.sdiv(x, y) if signed else b.udiv(x, y)

    return emit_division


def _shifted(kind: str) -> Emit:
    def emit_shift(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        width = x.type.width
        fits = b.icmp_unsigned("<", y, x.type(width))
        if kind == "ashr":
            return b.ashr(x, b.select(fits, y, x.type(width - 1)))
        made = b.shl(x, b.select(fits, y, x.type(0))) if kind == "shl" else b.lshr(x, b.select(fits, y, x.type(0)))
        return b.select(fits, made, x.type(0))

    return emit_shift


def _extreme(operator: str, signed: bool) -> Emit:
    def emit_extreme(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        compare = b.icmp_signed if signed else b.icmp_unsigned
        return b.select(compare(operator, x, y), x, y)

    return emit_extreme


def _high_product(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    width = x.type.width
    wide = ir.IntType(2 * width)
    product = b.mul(b.zext(x, wide), b.zext(y, wide))
    return b.trunc(b.lshr(product, wide(width)), x.type)


_BINARY: dict[str, Emit] = {
    "arith.addi": lambda b, x, y: b.add(x, y),
    "arith.subi": lambda b, x, y: b.sub(x, y),
    "arith.muli": lambda b, x, y: b.mul(x, y),
    "arith.andi": lambda b, x, y: b.and_(x, y),
    "arith.ori": lambda b, x, y: b.or_(x, y),
    "arith.xori": lambda b, x, y: b.xor(x, y),
    "arith.divsi": _divided(signed=True, remainder=False),
    "arith.divui": _divided(signed=False, remainder=False),
    "arith.remsi": _divided(signed=True, remainder=True),
    "arith.remui": _divided(signed=False, remainder=True),
    "arith.shli": _shifted("shl"),
    "arith.shrsi": _shifted("ashr"),
    "arith.shrui": _shifted("lshr"),
    "arith.minsi": _extreme("<", signed=True),
    "arith.maxsi": _extreme(">", signed=True),
    "arith.minui": _extreme("<", signed=False),
    "arith.maxui": _extreme(">", signed=False),
    "tt.mulhiui": _high_product,
}


def _intrinsic(name: str) -> Emit:
    def emit_call(b: ir.IRBuilder, *args: ir.Value) -> ir.Value:
        kind = args[0].type
        return b.call(declared(b, f"llvm.{name}.{kind.intrinsic_name}", kind, [x.type for x in args]), args)

    return emit_call


def declared(b: ir.IRBuilder, name: str, result: ir.Type, args: list[ir.Type]) -> ir.Function:
    """The function `name` of the module that is built, declared if it is not yet."""
    found = b.module.globals.get(name)
    return found or ir.Function(b.module, ir.FunctionType(result, args), name)


_FLOAT_BINARY: dict[str, Emit] = {
    "arith.addf": lambda b, x, y: b.fadd(x, y),
    "arith.subf": lambda b, x, y: b.fsub(x, y),
    "arith.mulf": lambda b, x, y: b.fmul(x, y),
    "arith.divf": lambda b, x, y: b.fdiv(x, y),
    "tt.precise_divf": lambda b, x, y: b.fdiv(x, y),
    "arith.maximumf": _intrinsic("maximum"),
    "arith.minimumf": _intrinsic("minimum"),
    "arith.maxnumf": _intrinsic("maxnum"),
    "arith.minnumf": _intrinsic("minnum"),
    "math.fma": _intrinsic("fma"),
}

_FLOAT_UNARY: dict[str, Emit] = {
    "arith.negf": lambda b, x: b.fneg(x),
    "math.absf": _intrinsic("fabs"),
    "math.floor": _intrinsic("floor"),
    "math.ceil": _intrinsic("ceil"),
    "math.sqrt": _intrinsic("sqrt"),
    "math.log": _intrinsic("log"),
    "math.log2": _intrinsic("log2"),
    "math.exp": _intrinsic("exp"),
    "math.exp2": _intrinsic("exp2"),
    "tt.precise_sqrt": _intrinsic("sqrt"),
}


def _widened(b: ir.IRBuilder, x: ir.Value, kind: str) -> ir.Value:
    """bfloat16 as float32, in which it is computed; other types as they are."""
    if kind != "bf16":
        return x
    word = ir.IntType(32)
    return b.bitcast(b.shl(b.zext(x, word), word(16)), ir.FloatType())


def _narrowed(b: ir.IRBuilder, x: ir.Value, kind: str) -> ir.Value:
    """The reverse, rounded to nearest even; a NaN stays one."""
    if kind != "bf16":
        return x
    word = ir.IntType(32)
    bits = b.bitcast(x, word)
    odd = b.and_(b.lshr(bits, word(16)), word(1))
    rounded = b.lshr(b.add(bits, b.add(word(0x7FFF), odd)), word(16))
    quiet = b.or_(b.lshr(bits, word(16)), word(0x40))
    return b.trunc(b.select(b.fcmp_unordered("uno", x, x), quiet, rounded), ir.IntType(16))


def _extended(signed: bool) -> Emit:
    def emit_extension(b: ir.IRBuilder, x: ir.Value, kind: str, result: str) -> ir.Value:
        return b.sext(x, llvm_type(result)) if signed else b.zext(x, llvm_type(result))

    return emit_extension


def _index_cast(b: ir.IRBuilder, x: ir.Value, kind: str, result: str) -> ir.Value:
    return b.sext(x, llvm_type(result)) if SIZES[kind] < SIZES[result] else b.trunc(x, llvm_type(result))


def _float_cast(b: ir.IRBuilder, x: ir.Value, kind: str, result: str) -> ir.Value:
    wide = _widened(b, x, kind)
    through = "f32" if result == "bf16" else result
    have, want = SIZES["f32" if kind == "bf16" else kind], SIZES[through]
    if have < want:
        wide = b.fpext(wide, llvm_type(through))
    elif have > want:
        wide = b.fptrunc(wide, llvm_type(through))
    return _narrowed(b, wide, result)


def _from_integer(signed: bool) -> Emit:
    def emit_cast(b: ir.IRBuilder, x: ir.Value, kind: str, result: str) -> ir.Value:
        through = llvm_type("f32" if result == "bf16" else result)
        return _narrowed(b, b.sitofp(x, through) if signed else b.uitofp(x, through), result)

    return emit_cast


def _to_integer(signed: bool) -> Emit:
    def emit_cast(b: ir.IRBuilder, x: ir.Value, kind: str, result: str) -> ir.Value:
        wide, made = _widened(b, x, kind), llvm_type(result)
        name = f"llvm.fpto{'s' if signed else 'u'}i.sat.i{made.width}.{wide.type.intrinsic_name}"
        return b.call(declared(b, name, made, [wide.type]), [wide])

    return emit_cast


def _bitcast(b: ir.IRBuilder, x: ir.Value, kind: str, result: str) -> ir.Value:
    made = llvm_type(result)
    return x if x.type == made else b.bitcast(x, made)


_CASTS: dict[str, Any] = {
    "arith.extsi": _extended(signed=True),
    "arith.extui": _extended(signed=False),
    "arith.trunci": lambda b, x, kind, result: b.trunc(x, llvm_type(result)),
    "arith.index_cast": _index_cast,
    "arith.extf": _float_cast,
    "arith.truncf": _float_cast,
    "tt.fp_to_fp": _float_cast,
    "arith.sitofp": _from_integer(signed=True),
    "arith.uitofp": _from_integer(signed=False),
    "arith.fptosi": _to_integer(signed=True),
    "arith.fptoui": _to_integer(signed=False),
    "arith.bitcast": _bitcast,
    "tt.bitcast": _bitcast,
    "tt.int_to_ptr": lambda b, x, kind, result: x if x.type.width == 64 else b.zext(x, ADDRESS),
    "tt.ptr_to_int": lambda b, x, kind, result: x if SIZES[result] == 8 else b.trunc(x, llvm_type(result)),
}
