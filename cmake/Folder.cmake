# ts_folder(<target> [OBJECT] [EXCLUDE <file>...] [PUBLIC <library>...] [PRIVATE <library>...])
# One library from all sources in the calling folder and below it. New files are picked up by the next build;
# a folder that has only headers, or nothing yet, is a library too.
function(ts_folder target)
  cmake_parse_arguments(arg "OBJECT" "" "EXCLUDE;PUBLIC;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(file IN LISTS arg_EXCLUDE)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  if(sources)
    set(kind STATIC)
    if(arg_OBJECT)
      set(kind OBJECT)
    endif()
    add_library(${target} ${kind} ${sources})
    target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    if(TRACESMITH_SANITIZE MATCHES undefined AND target MATCHES "^ts_(base|trace|model|capture)$")
      target_compile_options(${target} PRIVATE -fsanitize=alignment)
    endif()
    ts_standard_headers(${target})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_PUBLIC} ${arg_PRIVATE})
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  endif()
endfunction()

# The standard headers that most files include are precompiled once, in the lowest folder, for all others: half of the
# time a file took was reading them. Not with clang, which sees that every file includes what it uses.
function(ts_standard_headers target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU OR target STREQUAL ts_query)
    return()
  endif()
  if(target STREQUAL ts_base)
    target_precompile_headers(ts_base PRIVATE <algorithm> <atomic> <charconv> <chrono> <cmath> <condition_variable>
      <cstdint> <cstdio> <cstring> <deque> <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <set>
      <span> <string> <string_view> <thread> <tuple> <unordered_map> <variant> <vector>)
  else()
    target_precompile_headers(${target} REUSE_FROM ts_base)
  endif()
endfunction()

# Sources with options of their own, which the precompiled headers were not compiled with.
function(ts_compile_options files)
  set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${ARGN}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# Precompiled headers, where the target has sources to use them.
function(ts_precompile target)
  get_target_property(kind ${target} TYPE)
  if(NOT kind STREQUAL INTERFACE_LIBRARY)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
