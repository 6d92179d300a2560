"""The C header beside a shared library: what the model takes and gives, and how to run it."""

from __future__ import annotations

from math import prod

from compiler.dtype import DType
from compiler.runtime.image import Image, TensorSpec
from compiler.runtime.library.interface import ERRORS, MAX_THREADS

_C_TYPES = {
    DType.BOOL: "uint8_t, 0 or 1",
    DType.I8: "int8_t",
    DType.U8: "uint8_t",
    DType.I16: "int16_t",
    DType.I32: "int32_t",
    DType.I64: "int64_t",
    DType.F16: "uint16_t, the bits of an IEEE half",
    DType.BF16: "uint16_t, the bits of a bfloat16",
    DType.F32: "float",
    DType.F64: "double",
}


def header_text(image: Image, name: str, file: str) -> str:
    """The header of library `file`; `name` begins every name in it."""
    upper = name.upper()
    ports = [
        *_ports(upper, "INPUT", image.inputs),
        *_ports(upper, "OUTPUT", image.outputs),
    ]
    errors = ",\n".join(f"    {upper}_{key} = {code}" for code, (key, _) in enumerate(ERRORS))
    return _HEADER.format(
        name=name,
        upper=upper,
        file=file,
        link=file.removesuffix(".so"),
        model=_comment(image.name),
        target=f"{image.target.name} ({image.target.triple}, {image.target.cpu})",
        threads=image.threads,
        max_threads=MAX_THREADS,
        ports="\n".join(ports),
        errors=errors,
    )


def _ports(upper: str, kind: str, specs: tuple[TensorSpec, ...]) -> list[str]:
    sizes = ", ".join(str(_count(spec) * spec.dtype.size_bytes) for spec in specs)
    lines = [f"#define {upper}_{kind}S {len(specs)}", f"#define {upper}_{kind}S_BYTES {{{sizes or 0}}}"]
    for number, spec in enumerate(specs):
        name, shape = f"{upper}_{kind}_{number}", spec.sizes()
        # C has no arrays of no elements: a scalar's shape is not to be read.
        extents = ", ".join(map(str, shape)) or "1"
        lines += [
            f"/* {_comment(spec.name)}: {_C_TYPES[spec.dtype]} [{', '.join(map(str, shape))}] */",
            f"#define {name}_NAME {_string(spec.name)}",
            f'#define {name}_TYPE "{spec.dtype.numpy.name}"',
            f"#define {name}_RANK {len(shape)}",
            f"#define {name}_SHAPE {{{extents}}}",
            f"#define {name}_COUNT {_count(spec)}",
            f"#define {name}_BYTES {_count(spec) * spec.dtype.size_bytes}",
        ]
    return [*lines, ""]


def _count(spec: TensorSpec) -> int:
    return prod(spec.sizes())


def _string(text: str) -> str:
    """A C string literal; what is not plain ASCII is escaped as octal bytes of UTF-8."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'


def _comment(text: str) -> str:
    """Text that cannot end a comment."""
    return "".join(c if c.isprintable() else " " for c in text).replace("*/", "* /").replace("/*", "/ *")


_HEADER = """/*
 * Model {model}, compiled by Luthier for {target}.
 *
 *     {name}_context *context;
 *     if ({name}_create(0, &context) != {upper}_OK) ...
 *     const void *inputs[{upper}_INPUTS] = {{x}};
 *     void *outputs[{upper}_OUTPUTS] = {{y}};
 *     {name}_run(context, inputs, outputs);
 *     {name}_destroy(context);
 *
 * Build: cc main.c -L. -l:{file} -Wl,-rpath,'$ORIGIN'    The library needs the C library and its mathematics only.
 *
 * All arrays are dense, in row-major order, aligned as their elements are. Functions with contexts of their own may run
 * at the same time; one context serves one call at a time.
 */
#ifndef LUTHIER_{upper}_H
#define LUTHIER_{upper}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{ports}
/* Threads that the model was compiled for: the fastest choice, not the only one. */
#define {upper}_THREADS {threads}

enum {{
{errors}
}};

/* Memory for intermediate values, and a team of threads. */
typedef struct {name}_context {name}_context;

/*
 * Makes a context with a team of `threads` threads (1 to {max_threads}, the caller included; 0: {upper}_THREADS) and
 * stores it in *context. Returns {upper}_OK, or else leaves *context alone and returns {upper}_ARGUMENT, {upper}_CPU,
 * {upper}_MEMORY or {upper}_THREADS_REFUSED.
 */
int32_t {name}_create(int32_t threads, {name}_context **context);

/*
 * Runs the model: reads {upper}_INPUTS arrays, writes {upper}_OUTPUTS arrays, none of which may overlap.
 * Allocates nothing. Returns {upper}_OK, or {upper}_ARGUMENT where a pointer is null.
 */
int32_t {name}_run({name}_context *context, const void *const *inputs, void *const *outputs);

/* Ends the context's threads and frees its memory; null is allowed. */
void {name}_destroy({name}_context *context);

/* What an error code means, in English. Never null; not to be freed. */
const char *{name}_error(int32_t code);

#ifdef __cplusplus
}}
#endif
#endif
"""
