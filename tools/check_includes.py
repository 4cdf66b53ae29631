#!/usr/bin/env python3
"""Who may include whom. Dependencies point down only: any edge that is not in this table fails.

Prints one line for each offence, `file:line: reason`, and exits 1 if there was one.
Adding an edge is a change of the architecture: say why in the commit, and keep
docs/architecture.md in step.
"""
import pathlib
import re
import sys

BASE = {"base"}
TENSOR = BASE | {"tensor"}
DEVICE = TENSOR | {"device"}
OPS = TENSOR | {"parallel", "ops"}
CHECKPOINT = TENSOR | {"quant", "parallel", "checkpoint"}
REQUEST = BASE | {"request"}
ENGINE = OPS | CHECKPOINT | REQUEST | {"models", "cache", "scheduler", "engine"}

# folder -> folders it may include; the longest folder name that fits decides
ALLOWED = {
    "base": BASE,
    "tensor": TENSOR,
    "parallel": BASE | {"parallel"},
    "request": REQUEST,
    "tokenizer": BASE | {"tokenizer"},
    "grammar": REQUEST | {"tokenizer", "grammar"},
    "cache": BASE | {"cache"},
    "device": DEVICE,
    "kernels": DEVICE | {"kernels"},
    "quant": TENSOR | {"quant"},
    "ops": OPS,
    "ops/cpu": OPS | {"quant", "ops/cpu"},
    "ops/cpu_fast": OPS | {"quant", "ops/cpu_fast"},
    "ops/cuda": OPS | DEVICE | {"kernels", "ops/cuda"},
    "checkpoint": CHECKPOINT,
    "models": OPS | CHECKPOINT | {"models"},
    "scheduler": REQUEST | {"cache", "scheduler"},
    "engine": ENGINE,
    "chat": REQUEST | {"tokenizer", "grammar", "chat"},
    "api": REQUEST | {"tokenizer", "grammar", "chat", "api"},
    "load": BASE | {"load"},
    "simulator": ENGINE | {"load", "simulator"},
    "server": REQUEST | {"api", "chat", "tokenizer", "server"},
}
# Single headers that cross the table, each for a reason.
ALSO = {
    "server": {"engine/engine.h"},  # submit, cancel, events, statistics
    "request": {"tensor/kv_layout.h"},  # which pages a step copies
    "cache": {"tensor/kv_layout.h"},  # pages follow from the layout; no tensor is touched
    "scheduler": {"tensor/kv_layout.h"},
}
# Outside headers that only some folders may see: a prefix of the name, and the folders.
CONFINED = {
    "boost/asio": {"server"},
    "boost/beast": {"server"},
    "cuda": {"device", "kernels", "ops/cuda"},
    "cublas": {"device", "kernels", "ops/cuda"},
    "nccl": {"device", "kernels", "ops/cuda"},
    "llguidance": {"grammar"},
    "openssl/": {"server"},
    "CLI/": set(),
}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def folder_of(name):
    """The table's folder that a path below src/ belongs to, or None."""
    fitting = [f for f in ALLOWED if name.startswith(f + "/")]
    return max(fitting, key=len, default=None)


def offence(folder, own, quote, target, src):
    """What is wrong with an include of `target` from `folder`, or None. `own` is the file's name."""
    if quote == "<":
        for prefix, folders in CONFINED.items():
            if target.startswith(prefix) and folder not in folders:
                return f"<{target}> is confined to {sorted(folders) or 'apps'}"
        if (src / target).exists():
            return f"<{target}> is our own header: write it with quotes"
        return None
    if not (src / target).exists():
        return f'"{target}" is not a file below src/: name own headers from there'
    if target == own:
        return "a header includes itself"
    target_folder = folder_of(target)
    if target_folder in ALLOWED[folder] or target in ALSO.get(folder, ()):
        return None
    return f"{folder} may not include {target_folder} ({target})"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    src = root / "src"
    offences = []
    files = sorted(p for p in src.rglob("*") if p.suffix in {".h", ".cc", ".cu", ".cuh"})
    for path in files:
        own = path.relative_to(src).as_posix()
        folder = folder_of(own)
        if folder is None:
            offences.append(f"src/{own}:1: its folder is not in this table")
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            reason = match and offence(folder, own, match[1], match[2], src)
            if reason:
                offences.append(f"src/{own}:{number}: {reason}")
    print("\n".join(offences + [f"includes: {len(files)} files, {len(offences)} offences"]))
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
