# make install: a tree that runs from any place. bin/ and lib/ find each other by relative paths; what is ours alone
# goes to lib/tracesmith, so that no other program of the prefix loads it by accident. `make tarball` takes the component
# "common" alone, `make deb` also "libraries" and "development"; "bundled" are libraries of the system.
set(CMAKE_INSTALL_LIBDIR lib)  # where bin/tracesmith looks, also on systems that would say lib64
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(private ${CMAKE_INSTALL_LIBDIR}/tracesmith)

install(TARGETS tracesmith RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT libraries)
install(PROGRAMS $<TARGET_FILE_DIR:tracesmith>/gsprof DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT common)
set(common tracesmith_probe tracesmith_stacks)
if(TARGET tracesmith_query)
  list(APPEND common tracesmith_query)
  install(PROGRAMS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libduckdb.so DESTINATION ${private} COMPONENT common)
endif()
install(TARGETS ${common} LIBRARY DESTINATION ${private} COMPONENT common)
install(TARGETS tracesmith_cluster tracesmith_server tracesmith_c tracesmith_c_cluster
        LIBRARY DESTINATION ${private} COMPONENT libraries)
get_property(copied GLOBAL PROPERTY TRACESMITH_COPIED_LIBRARIES)
install(FILES ${copied} DESTINATION ${private} COMPONENT bundled)

install(TARGETS tracesmith_library EXPORT TraceSmithTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        COMPONENT development NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tracesmith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/TraceSmith)
install(EXPORT TraceSmithTargets NAMESPACE TraceSmith:: DESTINATION ${package} COMPONENT development)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/TraceSmithConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/TraceSmithConfig.cmake ${CMAKE_BINARY_DIR}/cmake/TraceSmithConfigVersion.cmake
        DESTINATION ${package} COMPONENT development)
configure_file(${PROJECT_SOURCE_DIR}/cmake/tracesmith.pc.in ${CMAKE_BINARY_DIR}/cmake/tracesmith.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/cmake/tracesmith.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# What Python programs under `run` load by themselves.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/tracesmith/hooks/ DESTINATION ${private}/tracesmith_hooks COMPONENT common
        FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/playbooks DESTINATION ${CMAKE_INSTALL_DATADIR}/tracesmith COMPONENT common)

foreach(part man bash-completion zsh)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/${part} DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT common)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT common)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT common)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/deploy DESTINATION ${CMAKE_INSTALL_DATADIR}/tracesmith COMPONENT common
        USE_SOURCE_PERMISSIONS PATTERN secrets EXCLUDE PATTERN data EXCLUDE)
