// What python_layout.def says, against the headers of the interpreters that are here.
#include <map>
#include <sstream>

#include "process/python_layout.hpp"
#include "process/python_lines.hpp"
#include "pythons.hpp"

namespace tracesmith::test {
namespace {

using namespace process;

const char* kProgram = R"(
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX >= 0x03090000
#include <internal/pycore_runtime.h>
#include <internal/pycore_interp.h>
#else
#include <internal/pycore_pystate.h>
#endif
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
typedef _PyInterpreterFrame Frame;
#else
#include <frameobject.h>
typedef PyFrameObject Frame;
#endif
#define SAY(name, type, field) printf("%s %zu\n", name, offsetof(type, field));
int main() {
  SAY("runtime_interpreters", _PyRuntimeState, interpreters.head)
  SAY("interpreter_next", PyInterpreterState, next)
#if PY_VERSION_HEX >= 0x030b0000
  SAY("interpreter_threads", PyInterpreterState, threads.head)
  SAY("thread_native_id", PyThreadState, native_thread_id)
  SAY("thread_frame", PyThreadState, cframe)
  SAY("cframe_frame", _PyCFrame, current_frame)
  SAY("frame_previous", Frame, previous)
  SAY("frame_instruction", Frame, prev_instr)
  SAY("frame_owner", Frame, owner)
  SAY("code_qualified_name", PyCodeObject, co_qualname)
  SAY("code_begin", PyCodeObject, co_code_adaptive)
  SAY("code_variables", PyCodeObject, co_localsplusnames)
  SAY("frame_locals", Frame, localsplus)
#else
  SAY("code_variables", PyCodeObject, co_varnames)
  SAY("code_cells", PyCodeObject, co_cellvars)
  SAY("code_free", PyCodeObject, co_freevars)
  SAY("frame_locals", Frame, f_localsplus)
  SAY("interpreter_threads", PyInterpreterState, tstate_head)
  SAY("thread_frame", PyThreadState, frame)
  SAY("frame_previous", Frame, f_back)
  SAY("frame_instruction", Frame, f_lasti)
#endif
#if PY_VERSION_HEX >= 0x030c0000
  SAY("interpreter_gil", PyInterpreterState, ceval.gil)
  SAY("gil_holder", struct _gil_runtime_state, last_holder)
  SAY("gil_locked", struct _gil_runtime_state, locked)
#else
  SAY("runtime_current", _PyRuntimeState, gilstate.tstate_current)
#endif
#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
  SAY("frame_is_entry", Frame, is_entry)
#endif
#if PY_VERSION_HEX >= 0x030a0000
  SAY("code_lines", PyCodeObject, co_linetable)
#else
  SAY("code_lines", PyCodeObject, co_lnotab)
#endif
  SAY("frame_code", Frame, f_code)
  SAY("thread_next", PyThreadState, next)
  SAY("thread_id", PyThreadState, thread_id)
  SAY("code_file", PyCodeObject, co_filename)
  SAY("code_name", PyCodeObject, co_name)
  SAY("code_first_line", PyCodeObject, co_firstlineno)
  SAY("object_type", PyObject, ob_type)
  SAY("string_length", PyASCIIObject, length)
  SAY("string_state", PyASCIIObject, state)
  printf("string_ascii %zu\n", sizeof(PyASCIIObject));
  SAY("bytes_length", PyVarObject, ob_size)
  SAY("bytes_begin", PyBytesObject, ob_sval)
  SAY("type_name", PyTypeObject, tp_name)
  SAY("type_flags", PyTypeObject, tp_flags)
  SAY("tuple_length", PyVarObject, ob_size)
  SAY("tuple_items", PyTupleObject, ob_item)
  SAY("list_length", PyVarObject, ob_size)
  SAY("list_items", PyListObject, ob_item)
  SAY("float_value", PyFloatObject, ob_fval)
#if PY_VERSION_HEX >= 0x030c0000
  SAY("int_length", PyLongObject, long_value.lv_tag)
  SAY("int_digits", PyLongObject, long_value.ob_digit)
#else
  SAY("int_length", PyVarObject, ob_size)
  SAY("int_digits", PyLongObject, ob_digit)
#endif
  return 0;
}
)";

TEST(PythonLayout, IsWhatTheHeadersSay) {
  int checked = 0;
  for (const auto& [version, python] : pythons()) {
    const int minor = std::stoi(version.substr(2));
    if (minor > 12) continue;  // these tell it themselves
    const std::string include =
        run({python, "-c", "import sysconfig; print(sysconfig.get_paths()['include'], end='')"}).out;
    if (!exists(include + "/internal")) continue;
    TempDir dir;
    writeFile(dir / "offsets.c", kProgram);
    const Output built =
        run({"gcc", "-w", "-I" + include, "-I" + include + "/internal", dir / "offsets.c", "-o", dir / "offsets"});
    if (built.rc == 127) GTEST_SKIP() << "no gcc here";
    ASSERT_EQ(built.rc, 0) << built.err;
    const Result<PythonLayout> layout = knownLayout({3, minor, 0});
    ASSERT_TRUE(layout);
    std::map<std::string, uint32_t> ours;
#define TS_PYTHON_FIELD(field, ...) ours[#field] = layout->field;
#include "process/python_layout.def"
    std::istringstream lines(run({dir / "offsets"}).out);
    std::string field;
    uint32_t offset = 0;
    int fields = 0;
    for (; lines >> field >> offset; ++fields) EXPECT_EQ(ours[field], offset) << version << " " << field;
    EXPECT_GE(fields, 20);
    ++checked;
  }
  if (checked == 0) GTEST_SKIP() << "no headers of Python here";
}

TEST(PythonLayout, OtherVersionsAreRefusedInOneSentence) {
  EXPECT_EQ(knownLayout({3, 7, 16}).status().message(),
            "Python 3.7.16 is not supported: its stacks can be read from 3.8 to 3.14");
  EXPECT_FALSE(knownLayout({2, 7, 18}));
}

// Every instruction of a module of the standard library has the line that Python itself says.
TEST(PythonLines, AreThoseThatPythonSays) {
  const char* program = R"(
import dis, sys, importlib.util
spec = importlib.util.find_spec('argparse')
def visit(code):
    table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
    if sys.version_info >= (3, 10):
        lines = [(a, l) for a, b, l in code.co_lines() for a in range(a, b, 2)]
    else:
        starts = dict(dis.findlinestarts(code)); lines = []; line = code.co_firstlineno
        for a in range(0, len(code.co_code), 2):
            line = starts.get(a, line); lines.append((a, line))
    print(code.co_firstlineno, table.hex() or '-', len(lines), *[f'{a}:{0 if l is None else l}' for a, l in lines])
    for c in code.co_consts:
        if hasattr(c, 'co_code'): visit(c)
visit(compile(open(spec.origin).read(), spec.origin, 'exec'))
)";
  for (const auto& [version, python] : pythons()) {
    const int minor = std::stoi(version.substr(2));
    const Output out = run({python, "-c", program});
    ASSERT_EQ(out.rc, 0) << out.err;
    std::istringstream in(out.out);
    int64_t first = 0;
    std::string hex;
    size_t count = 0, checked = 0, wrong = 0;
    while (in >> first >> hex >> count) {
      std::string table;
      for (size_t i = 0; i + 1 < hex.size(); i += 2)
        table += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
      for (size_t i = 0; i < count; ++i, ++checked) {
        int64_t at = 0, line = 0;
        char colon = 0;
        in >> at >> colon >> line;
        wrong += lineAt({3, minor, 0}, table, first, at).value_or(0) != line;
      }
    }
    EXPECT_GT(checked, 1000u) << version;
    EXPECT_EQ(wrong, 0u) << version;
  }
}

}  // namespace
}  // namespace tracesmith::test
