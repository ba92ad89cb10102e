# Libraries of the system, as targets ext_<name>. Static where the archive is there; a shared one is copied into lib/,
# where the programs look first: bin/ and lib/ work when copied to another machine.
# What each is for: docs/dependencies.md.

function(ts_external name header)  # [library [SHARED]]; SHARED: its archive does not go into a shared library
  find_path(TRACESMITH_${name}_INCLUDE ${header})
  mark_as_advanced(TRACESMITH_${name}_INCLUDE)
  set(found ${TRACESMITH_${name}_INCLUDE})
  add_library(ext_${name} INTERFACE)
  if(ARGN)
    list(GET ARGN 0 library)
    set(names lib${library}.a ${library})
    if("SHARED" IN_LIST ARGN)
      set(names ${library})
    endif()
    find_library(TRACESMITH_${name}_LIBRARY NAMES ${names})
    mark_as_advanced(TRACESMITH_${name}_LIBRARY)
    set(found ${found} AND ${TRACESMITH_${name}_LIBRARY})
    target_link_libraries(ext_${name} INTERFACE ${TRACESMITH_${name}_LIBRARY})
    if(TRACESMITH_${name}_LIBRARY MATCHES "[.]so$")
      file(GLOB shared ${TRACESMITH_${name}_LIBRARY}.*)  # libx.so.14 and the file it points to
      file(COPY ${shared} DESTINATION ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
      set_property(GLOBAL APPEND PROPERTY TRACESMITH_COPIED_LIBRARIES ${shared})
    endif()
  endif()
  if("${found}" MATCHES NOTFOUND)
    message(FATAL_ERROR "${name} is missing: run scripts/setup build")
  endif()
  target_include_directories(ext_${name} SYSTEM INTERFACE ${TRACESMITH_${name}_INCLUDE})
endfunction()

ts_external(zstd zstd.h zstd)
ts_external(zlib zlib.h z)
ts_external(simdjson simdjson.h simdjson)
ts_external(sqlite sqlite3.h sqlite3)
ts_external(xxhash xxhash.h)
target_compile_definitions(ext_xxhash INTERFACE "XXH_INLINE_ALL=")  # the header alone
ts_external(cli11 CLI/CLI.hpp)
ts_external(yaml yaml-cpp/yaml.h yaml-cpp SHARED)
