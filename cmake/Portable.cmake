# The program as it goes into `make tarball`: cluster and page are linked into it, and gRPC, protobuf and abseil as
# archives. Not as part of a shared library: Debian compiles abseil's and re2's archives for programs only. Built on
# demand, as build/portable/tracesmith.
find_package(PkgConfig QUIET)
if(NOT TARGET tracesmith OR NOT PKG_CONFIG_FOUND)
  return()
endif()
find_package(OpenSSL REQUIRED)
pkg_check_modules(TRACESMITH_GRPC QUIET grpc++ protobuf)
set(archives "")
foreach(name IN LISTS TRACESMITH_GRPC_STATIC_LIBRARIES)
  if(name MATCHES "^(ssl|crypto|z)$")  # shared: the HTTP library needs them, too
    continue()
  endif()
  find_library(TRACESMITH_ARCHIVE_${name} NAMES lib${name}.a)
  mark_as_advanced(TRACESMITH_ARCHIVE_${name})
  if(TRACESMITH_ARCHIVE_${name} AND NOT name MATCHES "^(rt|dl|m|pthread|atomic)$")  # those of libc are in every process already
    list(APPEND archives ${TRACESMITH_ARCHIVE_${name}})
  endif()
endforeach()
list(REMOVE_DUPLICATES archives)
if(NOT archives MATCHES "libgrpc[.]a")
  message(STATUS "Building without the program of `make tarball`: gRPC's archives are missing")
  return()
endif()

get_target_property(sources tracesmith SOURCES)
get_target_property(folder tracesmith SOURCE_DIR)
list(TRANSFORM sources REPLACE "^([^/].*)" "${folder}/\\1")
add_executable(tracesmith_portable EXCLUDE_FROM_ALL ${sources}
  $<TARGET_OBJECTS:ts_cli> $<TARGET_OBJECTS:ts_cluster> $<TARGET_OBJECTS:ts_server>)
target_link_libraries(tracesmith_portable PRIVATE ts_sink ts_all ts_interface_versions $<TARGET_FILE:ts_cluster_proto>
  -Wl,--start-group ${archives} -Wl,--end-group ext_cli11 ext_simdjson ext_httplib OpenSSL::SSL OpenSSL::Crypto Threads::Threads
  ${CMAKE_DL_LIBS} -Wl,--gc-sections)
add_dependencies(tracesmith_portable ts_cluster_proto)
# The commands look for these in the program before they look for a library.
foreach(entry tracesmithCreateCluster tracesmithCreateServer)
  target_link_options(tracesmith_portable PRIVATE LINKER:--export-dynamic-symbol=${entry})
endforeach()
# An old-style run path: it also holds for the libraries that bundled libraries load.
target_link_options(tracesmith_portable PRIVATE LINKER:--disable-new-dtags)
set_target_properties(tracesmith_portable PROPERTIES OUTPUT_NAME tracesmith
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/portable)
