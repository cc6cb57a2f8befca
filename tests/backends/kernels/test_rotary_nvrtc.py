"""The CUDA kernel as NVRTC compiles it, for three architectures, with the options of CuPy.

A compiler needs no GPU.  Its output must have 16-byte loads and stores, no flushing of subnormals
although CuPy asks for it, no local memory and no spilled registers.
"""

import ctypes
import functools
import importlib.util
import os
import re
from pathlib import Path

import pytest

from posenc_ref.backends.cupy_device import OPTIONS, SOURCE

ARCHITECTURES = (80, 90, 100)
#: CuPy appends this to the user's options, and the last option wins.
FLUSH = "-ftz=true"
PACKS = {"half16": 8, "brain16": 8, "float": 4, "double": 2}
LAYOUTS = ("false", "true")


def name_of(kind, width, interleaved="false", table="false"):
    return f"rotary<{kind}, {width}, {interleaved}, {table}, 4>"


@functools.cache
def nvrtc():
    """Return the library of the package nvidia-cuda-nvrtc, which CI requires."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*")):
            for builtins in path.parent.glob("libnvrtc-builtins.so.*"):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(path))
    message = "nvidia-cuda-nvrtc is not installed: pip install 'posenc-ref[test]'"
    if os.environ.get("CI"):
        pytest.fail(message)
    return pytest.skip(message)


def compiled(names, options, what="PTX", source=None):
    """Return the text (PTX) or code (CUBIN) of kernels, and the compiler's log."""
    library, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    text = (source or SOURCE.read_text(encoding="utf-8")).encode()
    assert not library.nvrtcCreateProgram(ctypes.byref(program), text, b"rotary.cu", 0, None, None)
    try:
        for name in names:
            assert not library.nvrtcAddNameExpression(program, name.encode())
        given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        status = library.nvrtcCompileProgram(program, len(options), given)
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        if status:
            raise ValueError(log.value.decode())
        getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{what}")(program, code)
        return code.raw.rstrip(b"\0"), log.value.decode()
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


@functools.cache
def ptx(name, architecture=90):
    options = (*OPTIONS, f"-arch=compute_{architecture}", FLUSH)
    return compiled([name], options)[0].decode()


def count(pattern, text):
    return len(re.findall(pattern, text))


@pytest.mark.parametrize("interleaved", LAYOUTS)
@pytest.mark.parametrize("kind", PACKS)
def test_sixteen_bytes_at_a_time(kind, interleaved):
    """A thread loads four heads, two packs each, before it stores any."""
    text = ptx(name_of(kind, PACKS[kind], interleaved))
    pack = r"\.v2\.(b|f|u)64" if kind == "double" else r"\.v4\.(b|f|u)32"
    assert count(r"ld\.global" + pack, text) >= 8
    assert count(r"st\.global" + pack, text) >= 8
    loads = [m.start() for m in re.finditer(r"ld\.global" + pack, text)]
    stores = [m.start() for m in re.finditer(r"st\.global" + pack, text)]
    assert sum(at < stores[0] for at in loads) >= 8
    assert count(r"global\.v[24]\.", ptx(name_of(kind, 1, interleaved))) == 0


@pytest.mark.parametrize("table", LAYOUTS)
@pytest.mark.parametrize("kind", PACKS)
def test_no_flushing_and_no_local_memory(kind, table):
    for width in (1, PACKS[kind]):
        text = ptx(name_of(kind, width, "false", table))
        assert ".entry" in text
        assert count(r"\.ftz", text) == 0
        assert count(r"\.local", text) == 0
        assert count(r"\b(sin|cos)\.approx", text) == 0


def test_flushing_is_detected():
    """The source with a plain product is flushed."""
    source = SOURCE.read_text(encoding="utf-8")
    product = 'asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));'
    plain = source.replace(product, "r = a * b;")
    assert plain != source
    options = (*OPTIONS, "-arch=compute_90", FLUSH)
    text = compiled([name_of("float", 4)], options, source=plain)[0].decode()
    assert count(r"mul\.(rn\.)?ftz", text) > 0


def test_the_compiler_contracts_no_products_and_sums():
    """Only the fused multiply-adds of the source remain, so the CPU model has the same bits."""
    text = ptx(name_of("float", 1, "false", "true"))
    assert count(r"fma\.rn\.f32", text) == 8  # two for each of four heads
    assert count(r"\b(add|sub)\.\w*\.?f32", text) == 0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_machine_code_without_spills(architecture):
    names = [name_of("brain16", 8, "true"), name_of("half16", 8, "false", "true"),
             name_of("float", 4), name_of("double", 1)]  # fmt: skip
    options = (*OPTIONS, f"-arch=sm_{architecture}", "--ptxas-options=-v", FLUSH)
    code, log = compiled(names, options, what="CUBIN")
    assert code[:4] == b"\x7fELF"
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes", log)
    assert spills == [("0", "0", "0")] * len(names)
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
    assert len(registers) == len(names)
    assert max(registers) <= 65536 // (128 * 3)  # three blocks of 128 threads fit


def test_cupy_finds_the_kernel_by_its_name():
    """CuPy's binding of NVRTC, which RawModule uses, needs no device."""
    nvrtc()
    compiler = pytest.importorskip(
        "cupy", reason="CuPy's own binding of NVRTC is what compiles"
    ).cuda.compiler
    name = name_of("brain16", 8, "true")
    program = compiler._NVRTCProgram(
        SOURCE.read_text(encoding="utf-8"), "rotary.cu", name_expressions=(name,), method="cubin"
    )
    code, found = program.compile((*OPTIONS, FLUSH, "-arch=sm_90"))
    assert code[:4] == b"\x7fELF"
    assert found[name].encode() in code


def test_a_compile_error_is_raised():
    with pytest.raises(ValueError, match=r"rotary\.cu"):
        compiled([name_of("float", 4)], (*OPTIONS, "-arch=compute_90"), source="broken")
