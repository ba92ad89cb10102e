// The functions of elfutils' libdw that are called here, where it was there when this was built. It is loaded when it
// is needed.
#pragma once

#if __has_include(<elfutils/libdwfl.h>)

#include <elfutils/libdwfl.h>

#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

struct Dw {
// clang-format off
#define TS_DW_FUNCTIONS(X) \
  X(dwfl_begin) X(dwfl_end) X(dwfl_report_begin) X(dwfl_report_module) X(dwfl_report_end) X(dwfl_attach_state) \
  X(dwfl_getthread_frames) X(dwfl_frame_pc) X(dwfl_thread_state_registers) X(dwfl_thread_state_register_pc) \
  X(dwfl_addrmodule) X(dwfl_module_addrinfo) X(dwfl_module_info) X(dwfl_module_getelf) X(dwfl_module_build_id) \
  X(dwfl_module_getsrc) X(dwfl_lineinfo) X(dwfl_module_addrdie) X(dwarf_getscopes) X(dwarf_getscopes_die) X(dwarf_tag) \
  X(dwarf_diename) X(dwarf_attr_integrate) X(dwarf_formstring) X(dwarf_formudata) X(dwfl_module_eh_cfi) \
  X(dwarf_cfi_addrframe) X(dwarf_frame_info) X(dwarf_frame_cfa) X(dwarf_frame_register)
// clang-format on
#define TS_DECLARE(name) decltype(::name)* name = nullptr;
  TS_DW_FUNCTIONS(TS_DECLARE)
#undef TS_DECLARE

  static Result<const Dw*> load();
};

}  // namespace tracesmith::process

#endif
