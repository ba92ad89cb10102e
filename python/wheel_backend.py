"""Builds the wheel with Python's own library alone: the package, and in `tracesmith/native` the program, its libraries,
and the libraries of the system that they need and that another machine may not have.

    python3 python/wheel_backend.py OUT [BUILD]     make wheel: a wheel in the folder OUT, from what is in BUILD
    pip install .                                   (PEP 517) builds first, unless TRACESMITH_BUILD names a build
"""

import base64
import hashlib
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Every Linux with glibc has these, and a second one in a process would do harm.
SYSTEM = re.compile(r"^(ld-linux.*|lib(c|m|pthread|dl|rt|util|resolv|nsl|anl|stdc\+\+|gcc_s)[.]so.*|linux-vdso.*)$")
RUNPATH, RPATH = 29, 15  # tags of a dynamic section


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(tracesmith VERSION ([0-9.]+)", file.read()).group(1)


def tag():
    """One wheel for every Python, on machines with this glibc or a newer one."""
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    return "py3-none-manylinux_{}_{}".format(glibc, platform.machine())


def needed(files):
    """The libraries of the system that ELF files load, and those that these load: {name: path}."""
    found = {}
    out = subprocess.run(["ldd"] + files, stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    for line in out.splitlines():
        match = re.match(r"\s+(\S+) => (\S+)", line)
        if match and match.group(2) == "not":
            raise RuntimeError("{} is missing on this machine".format(match.group(1)))
        if match and not SYSTEM.match(match.group(1)):
            found[match.group(1)] = os.path.realpath(match.group(2))
    return found


def inherit_path(path):
    """Turns the run path of an ELF file into one that also holds for the libraries which its libraries load: those are
    the system's, have none of their own, and lie beside ours."""
    with open(path, "r+b") as file:
        data = file.read()
        if data[:5] != b"\x7fELF\x02":
            raise RuntimeError("{} is not a 64-bit ELF file".format(path))
        (start,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for i in range(count):
            kind, _, offset, _, _, bytes_in_file = struct.unpack_from("<IIQQQQ", data, start + i * size)
            for at in range(offset, offset + bytes_in_file, 16) if kind == 2 else ():
                (name,) = struct.unpack_from("<q", data, at)
                if name == RUNPATH:
                    file.seek(at)
                    file.write(struct.pack("<q", RPATH))
                if name == 0:
                    break


def native(build, stage):
    """Puts the program and all it needs into stage/bin and stage/lib."""
    libraries = os.path.join(build, "lib")
    ours = [name for name in os.listdir(libraries) if re.match(r"libtracesmith_\w+[.]so$", name)]
    program = os.path.join(build, "bin", "tracesmith")
    if not os.path.exists(program) or "libtracesmith_c.so" not in ours:
        raise RuntimeError("{} has no build of the program: run `make build`".format(build))
    sources = {"bin/tracesmith": program}
    sources.update(("lib/" + name, os.path.join(libraries, name)) for name in ours)
    if os.path.exists(os.path.join(libraries, "libduckdb.so")):
        sources["lib/libduckdb.so"] = os.path.join(libraries, "libduckdb.so")
    others = needed(sorted(sources.values()))
    for place, source in sorted(sources.items()):
        path = os.path.join(stage, place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if place.endswith("duckdb.so"):
            shutil.copy(source, path)  # as it was released
            continue
        subprocess.run(["strip", "-o", path, source], check=True)
        inherit_path(path)
    for name, source in sorted(others.items()):
        if "lib/" + name not in sources:
            shutil.copy(source, os.path.join(stage, "lib", name))
    shutil.copytree(os.path.join(ROOT, "python", "tracesmith", "hooks"), os.path.join(stage, "lib", "tracesmith_hooks"),
                    ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(os.path.join(ROOT, "playbooks"), os.path.join(stage, "share", "tracesmith", "playbooks"))


class Wheel:
    def __init__(self, folder):
        self.name = "tracesmith-{}-{}.whl".format(version(), tag())
        self.info = "tracesmith-{}.dist-info".format(version())
        self.path = os.path.join(folder, self.name)
        self.record = []
        self.file = zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED, compresslevel=int(os.environ.get("LEVEL", "6")))

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same files give the same wheel
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.file.writestr(entry, data)
        sum = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append("{},sha256={},{}".format(name, sum, len(data)))

    def add_tree(self, folder, place):
        for base, folders, names in os.walk(folder):
            folders[:] = sorted(f for f in folders if f not in ("__pycache__", "native"))
            for name in sorted(names):
                path = os.path.join(base, name)
                with open(path, "rb") as file:
                    data = file.read()
                run = data[:4] == b"\x7fELF" or os.access(path, os.X_OK)
                self.add(place + "/" + os.path.relpath(path, folder), data, 0o755 if run else 0o644)

    def close(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            readme = file.read()
        self.add(self.info + "/METADATA", (
            "Metadata-Version: 2.1\nName: tracesmith\nVersion: {}\nSummary: Shows what every GPU of a cluster did, on one "
            "clock, and who made the others wait\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{}"
        ).format(version(), readme).encode())
        self.add(self.info + "/WHEEL", "Wheel-Version: 1.0\nGenerator: tracesmith\nRoot-Is-Purelib: false\nTag: {}\n".format(
            tag()).encode())
        self.add(self.info + "/entry_points.txt", b"[console_scripts]\ntracesmith = tracesmith.__main__:main\n")
        with open(os.path.join(ROOT, "LICENSE"), "rb") as file:
            self.add(self.info + "/LICENSE", file.read())
        lines = "\n".join(self.record + [self.info + "/RECORD,,", ""])
        self.file.writestr(self.info + "/RECORD", lines)
        self.file.close()
        return self.name


def stubs(build):
    """Signatures of the classes that are made from the libraries' description, for type checkers."""
    environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), TRACESMITH_HOME=build, PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run([sys.executable, os.path.join(ROOT, "python", "stubs.py")], stdout=subprocess.PIPE, check=True,
                          env=environment).stdout


def make(folder, build):
    os.makedirs(folder, exist_ok=True)
    wheel = Wheel(folder)
    wheel.add_tree(os.path.join(ROOT, "python", "tracesmith"), "tracesmith")
    wheel.add("tracesmith/cluster/__init__.pyi", stubs(build))
    with tempfile.TemporaryDirectory() as stage:
        native(build, stage)
        wheel.add_tree(stage, "tracesmith/native")
    return wheel.close()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build = os.environ.get("TRACESMITH_BUILD")
    if not build:
        build = os.path.join(ROOT, "build")
        subprocess.run([os.path.join(ROOT, "scripts", "build"), "release", "product"], check=True)
    return make(wheel_directory, build)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel that only points here; the program is that of the build folder."""
    wheel = Wheel(wheel_directory)
    wheel.add("tracesmith.pth", (os.path.join(ROOT, "python") + "\n").encode())
    return wheel.close()


if __name__ == "__main__":
    try:
        out = sys.argv[1]
        name = make(out, sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "build"))
        size = os.path.getsize(os.path.join(out, name))
        print("{}: {:.0f} MB".format(os.path.join(out, name), size / 1e6))
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        sys.exit("wheel: {}".format(error))
