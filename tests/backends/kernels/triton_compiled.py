"""Check the code that Triton's compiler makes of the kernel.  Needs Triton but no GPU; run by hand.

pip install triton && python -m tests.backends.kernels.triton_compiled

For every architecture, dtype and layout, x is read and written 16 bytes at a time, nothing is
flushed to zero, no register spills to local memory, and bfloat16 is rounded to nearest.
"""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from posenc_ref.backends.kernels.triton_rotary import _kernel

ARCHITECTURES = (80, 90, 100)
DTYPES = {"bf16": "fp32", "fp16": "fp32", "fp32": "fp32", "fp64": "fp64"}
#: The constants of a launch for [B, 32, S, 128]: 64 pairs, four heads and four rows at a time.
CONSTANTS = {"HEADS": 4, "ROWS": 4, "PAIRS": 64, "SHARED": True}
#: The arguments that are 1 in this launch, and those that are multiples of 16.
ONES = ("xd", "od")
SIXTEENS = ("x", "out", "factor", "pairs", "part", "xb", "xh", "xs", "ob", "oh", "os", "fb", "fs")


def compiled(architecture, dtype, wide, side_by_side):
    constants = {**CONSTANTS, "SIDE_BY_SIDE": side_by_side, **dict.fromkeys(ONES, 1)}
    kinds = {"x": f"*{dtype}", "out": f"*{dtype}", "factor": f"*{wide}", "sign": "fp32"}
    names = _kernel.arg_names
    signature = {n: "constexpr" if n in constants else kinds.get(n, "i32") for n in names}
    divisible = {(names.index(n),): [["tt.divisibility", 16]] for n in SIXTEENS}
    source = ASTSource(_kernel, signature, constants, divisible)
    return triton.compile(source, target=GPUTarget("cuda", architecture, 32))


def main():
    for architecture in ARCHITECTURES:
        for dtype, wide in DTYPES.items():
            for side_by_side in (False, True):
                kernel = compiled(architecture, dtype, wide, side_by_side)
                text = kernel.asm["ptx"]
                loads = re.findall(r"ld\.global\S*\.(v\d)\.b(\d+)", text)
                stores = re.findall(r"st\.global\S*\.(v\d)\.b(\d+)", text)
                layout = "side by side" if side_by_side else "halves"
                counts = f"{len(loads)} wide loads, {len(stores)} wide stores"
                print(f"sm_{architecture} {dtype} {layout}: {counts}")
                wide_loads = [1 for v, bits in loads if int(v[1:]) * int(bits) == 128]
                assert len(wide_loads) >= len(stores) > 0  # tables may be read 8 bytes at a time
                assert all(int(v[1:]) * int(bits) == 128 for v, bits in stores)
                assert len(re.findall(r"st\.global", text)) == len(stores)
                assert ".ftz" not in text
                assert ".local" not in text
                assert kernel.metadata.shared <= 1024  # for the layout of the table
                assert dtype != "bf16" or re.search(r"cvt\.rn\.bf16", text)
    print("right")


if __name__ == "__main__":
    main()
