# SPDX-License-Identifier: Apache-2.0
#
# With ROCE_PORTABLE=ON the programs are to run on the RHEL 9 family, wherever they are built: what that lacks or has in
# another version is linked statically. fmt and prometheus-cpp come from their sources (packaging/rpm/build leaves them in
# build/), RE2, libfyaml and libcrypt (bcrypt) from the archives of this machine, and so does the C++ library, whose
# symbols may be newer than there. What the last two ask of a newer glibc is in arc4random.c. libgcc_s stays shared: the
# unwinder of a newer one asks glibc 2.35 for help.

foreach(source fmtlib prometheus-cpp)
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/build/${source}/CMakeLists.txt)
    message(FATAL_ERROR "ROCE_PORTABLE: no build/${source}; packaging/debian-source ${source} - build/${source}")
  endif()
endforeach()
foreach(unwanted ENABLE_PULL ENABLE_PUSH ENABLE_COMPRESSION ENABLE_TESTING GENERATE_PKGCONFIG OVERRIDE_CXX_STANDARD_FLAGS)
  set(${unwanted} OFF CACHE BOOL "of prometheus-cpp" FORCE)
endforeach()
foreach(source fmtlib prometheus-cpp)
  add_subdirectory(build/${source} ${source} EXCLUDE_FROM_ALL SYSTEM)
endforeach()
# Where the machine has the same headers they are taken, and its definitions: then what is compiled is what every other
# build here compiles, and only the link differs.
function(roce_archive name target source header definitions)
  target_compile_options(${target} PRIVATE -w -fstack-protector-strong ${ROCE_RELEASE_FLAGS})
  target_compile_definitions(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:_FORTIFY_SOURCE=2>)
  add_library(${name} INTERFACE)
  find_path(${name}_headers ${header})
  if(${name}_headers)
    file(SHA256 ${${name}_headers}/${header} theirs)
  endif()
  file(SHA256 ${source}/${header} ours)
  if(ours STREQUAL theirs)
    target_link_libraries(${name} INTERFACE $<LINK_ONLY:${target}>)
    target_compile_definitions(${name} INTERFACE ${definitions})
  else()
    target_link_libraries(${name} INTERFACE ${target})
  endif()
endfunction()
roce_archive(roce_fmt fmt ${CMAKE_SOURCE_DIR}/build/fmtlib/include fmt/core.h FMT_SHARED)
roce_archive(roce_prometheus_cpp core ${CMAKE_SOURCE_DIR}/build/prometheus-cpp/core/include prometheus/counter.h "")
set(ROCE_FMT roce_fmt)
set(ROCE_PROMETHEUS_CPP roce_prometheus_cpp)

# An archive where there is one; a distribution that has none has the shared library.
find_library(ROCE_RE2 NAMES libre2.a re2 REQUIRED)
find_library(ROCE_FYAML NAMES libfyaml.a fyaml REQUIRED)
find_library(ROCE_CRYPT NAMES libcrypt.a crypt REQUIRED)
set_target_properties(PkgConfig::RE2 PROPERTIES INTERFACE_LINK_LIBRARIES ${ROCE_RE2})
set_target_properties(PkgConfig::FYAML PROPERTIES INTERFACE_LINK_LIBRARIES ${ROCE_FYAML})
add_library(roce_arc4random OBJECT packaging/rpm/arc4random.c)
target_compile_options(roce_arc4random PRIVATE -Wall -Wextra -Werror -fstack-protector-strong ${ROCE_RELEASE_FLAGS})
set_target_properties(roce_arc4random PROPERTIES C_VISIBILITY_PRESET hidden)
add_library(crypt UNKNOWN IMPORTED)
set_target_properties(crypt PROPERTIES IMPORTED_LOCATION ${ROCE_CRYPT}
                      INTERFACE_LINK_LIBRARIES "$<TARGET_OBJECTS:roce_arc4random>")

# Debian's libcurl gives its symbols versions that no other distribution's has.
add_library(curl_without_versions SHARED packaging/rpm/libcurl.c)
set_target_properties(curl_without_versions PROPERTIES OUTPUT_NAME curl SOVERSION 4
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/to-link)
set_target_properties(PkgConfig::CURL PROPERTIES INTERFACE_LINK_LIBRARIES curl_without_versions)

set(CMAKE_SKIP_RPATH ON)  # the programs never load the library above
target_link_options(roce_flags INTERFACE -static-libstdc++)
