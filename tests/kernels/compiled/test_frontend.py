"""What is read of Triton's IR, through the bindings and from its printed form."""

import pytest

pytestmark = pytest.mark.usefixtures("host")

SIGNATURES = {
    "arithmetic": ("*i64", "*i64", "*i64", "i32", 8),
    "floats": ("*fp32", "*i32", "*bf16", "i32", 8),
    "folds": ("*i32", "*i32", 4, 8),
    "control": ("*i32", "*i32", "*i32", "*i32", "i32", "i32", 4),
    "sorting": ("*i32", 8),
}


class WithoutIntegers:
    """An operation as Triton 3.6 hands it over: its bindings give no integer attributes."""

    def __init__(self, operation):
        self.operation = operation

    def __getattr__(self, name):
        if name == "get_int_attr":
            raise AttributeError(name)
        return getattr(self.operation, name)


def test_integers_are_the_same_from_the_printed_form(monkeypatch):
    import compiled_kernels
    from triton._C.libtriton import ir

    from stalerow.kernels.compiled import frontend

    given, seen = frontend._integer, set()
    if not hasattr(ir.operation, "get_int_attr"):
        pytest.skip("this Triton's bindings give no integers to compare with")

    def both(operation, name, attribute, line):
        number = given(operation, name, attribute, line)
        assert number == given(WithoutIntegers(operation), name, attribute, line), line
        seen.add((name, number))
        return number

    monkeypatch.setattr(frontend, "_integer", both)
    for kernel, kinds in SIGNATURES.items():
        fn = getattr(compiled_kernels, kernel)
        names = [parameter.name for parameter in fn.params]
        signature = {name: kind if isinstance(kind, str) else "constexpr" for name, kind in zip(names, kinds)}
        constants = {(i,): kind for i, kind in enumerate(kinds) if not isinstance(kind, str)}
        frontend.lower(fn, signature, constants)
    operations = {name for name, _ in seen}
    assert {"arith.cmpi", "tt.get_program_id", "tt.make_range", "tt.expand_dims", "tt.reduce", "tt.scan"} <= operations
    assert {("arith.cmpi", 2), ("tt.atomic_rmw", 4)} <= seen
