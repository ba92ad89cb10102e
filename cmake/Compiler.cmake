# How every file of the project is compiled and linked.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/archive)
# bin/ and lib/ find each other wherever the two are copied to; `make install` puts our own libraries in lib/tracesmith.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../lib/tracesmith")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g -D_GLIBCXX_ASSERTIONS")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer -D_GLIBCXX_ASSERTIONS")

# -fPIC for programs too: with one kind of code, programs and libraries can share precompiled headers.
add_compile_options(-fPIC -fno-semantic-interposition
                    -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
# Messages, __FILE__ and debug information name files relative to the checkout, whichever checkout it was.
# ccache hands the compiler paths relative to the build folder: those too.
file(RELATIVE_PATH up ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${up}=)
add_compile_definitions(TRACESMITH_VERSION="${PROJECT_VERSION}")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 raises these falsely inside std::string and std::vector; the address sanitizer watches for the real ones.
  add_compile_options(-Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
endif()
# AUTO, the presets' value: another compiler may warn about something that nobody has seen yet, and still has to build.
set(werror ${TRACESMITH_WERROR})
if(werror STREQUAL AUTO)
  set(werror OFF)
  string(REGEX MATCH "^[0-9]+" major ${CMAKE_CXX_COMPILER_VERSION})
  if("${CMAKE_CXX_COMPILER_ID} ${major}" MATCHES "^(GNU 12|Clang 14)$")
    set(werror ON)
  endif()
endif()
if(werror)
  add_compile_options(-Werror)
endif()

if(TRACESMITH_SANITIZE)
  add_compile_options(-fsanitize=${TRACESMITH_SANITIZE} -fno-sanitize-recover=all)
  if(TRACESMITH_SANITIZE MATCHES undefined AND NOT TRACESMITH_FUZZ)
    # A third of the time to compile went into checks for null pointers, which the address sanitizer sees as well, and for
    # types of objects. Folders that decode bytes turn the check of alignment on again (cmake/Folder.cmake).
    add_compile_options(-fno-sanitize=null,vptr,object-size,alignment)
  endif()
  # The sanitizers call dlopen in the program's place, and then only an old-style run path is looked at.
  add_link_options(-fsanitize=${TRACESMITH_SANITIZE} -Wl,--disable-new-dtags)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-maybe-uninitialized)  # false alarms in instrumented code
  endif()
else()
  # Not with sanitizers: clang leaves their symbols to the program that loads the library.
  string(APPEND CMAKE_SHARED_LINKER_FLAGS " -Wl,-z,defs")
endif()
if(TRACESMITH_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "Fuzzing needs clang: use the preset 'fuzz', or set CMAKE_CXX_COMPILER=clang++")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(TRACESMITH_MOLD mold)
find_program(TRACESMITH_LLD ld.lld)
if(TRACESMITH_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(TRACESMITH_LLD)
  add_link_options(-fuse-ld=lld)
endif()
add_link_options(-Wl,--as-needed)

find_package(Threads REQUIRED)

find_program(TRACESMITH_CCACHE ccache)
if(TRACESMITH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # -Werror changes no object, and what fails is not kept: builds with and without it share the cache.
  set(settings CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_ABSSTDERR=1 CCACHE_IGNOREOPTIONS=-Werror
               CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime)
  # ccache fails without a folder it may write.
  execute_process(COMMAND ${CMAKE_COMMAND} -E env ${settings} sh -c
                          "d=$(${TRACESMITH_CCACHE} --get-config cache_dir) && mkdir -p \"$d\" && test -w \"$d\""
                  RESULT_VARIABLE unusable OUTPUT_QUIET ERROR_QUIET)
  if(unusable)
    list(APPEND settings CCACHE_DIR=${PROJECT_SOURCE_DIR}/build/ccache)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER env ${settings} ${TRACESMITH_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-fpch-preprocess)  # lets ccache see which precompiled header a file was compiled with
  else()
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()
