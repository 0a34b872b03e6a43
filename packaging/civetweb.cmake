# SPDX-License-Identifier: Apache-2.0
#
# Target roce_civetweb: CivetWeb as a static library, without file serving, CGI, websockets and scripts, with IPv6 and
# OpenSSL 3. The source comes from packaging/civetweb/fetch (which says why not from Debian 12's binary package) into
# $ROCE_CACHE/civetweb, without ROCE_CACHE into build/civetweb, where all presets share it. With ROCE_SYSTEM_CIVETWEB=ON
# the system's library is taken instead, of version 1.16 or later; whether it holds the fixes is then the builder's word.

if(ROCE_SYSTEM_CIVETWEB)
  find_path(ROCE_CIVETWEB_INCLUDE civetweb.h)
  find_library(ROCE_CIVETWEB_LIBRARY civetweb)
  if(NOT ROCE_CIVETWEB_INCLUDE OR NOT ROCE_CIVETWEB_LIBRARY)
    message(FATAL_ERROR "ROCE_SYSTEM_CIVETWEB: no civetweb.h or libcivetweb found")
  endif()
  file(STRINGS ${ROCE_CIVETWEB_INCLUDE}/civetweb.h version_line REGEX "define CIVETWEB_VERSION ")
  string(REGEX REPLACE ".*\"([0-9.]+)\".*" "\\1" civetweb_version "${version_line}")
  if(civetweb_version VERSION_LESS 1.16)
    message(FATAL_ERROR "ROCE_SYSTEM_CIVETWEB: CivetWeb ${civetweb_version} crashes with OpenSSL 3, 1.16 is needed")
  endif()
  add_library(roce_civetweb INTERFACE)
  target_include_directories(roce_civetweb SYSTEM INTERFACE ${ROCE_CIVETWEB_INCLUDE})
  target_link_libraries(roce_civetweb INTERFACE ${ROCE_CIVETWEB_LIBRARY})
else()
  if(DEFINED ENV{ROCE_CACHE})
    set(civetweb_default $ENV{ROCE_CACHE}/civetweb)
  else()
    set(civetweb_default ${CMAKE_SOURCE_DIR}/build/civetweb)
  endif()
  set(ROCE_CIVETWEB_DIR ${civetweb_default} CACHE PATH "Where CivetWeb's source is, or is fetched to")
  # Also where the source is there: the script judges whether it holds the fixes.
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/packaging/civetweb/fetch ${ROCE_CIVETWEB_DIR}
                  RESULT_VARIABLE civetweb_failed ERROR_VARIABLE civetweb_says ERROR_STRIP_TRAILING_WHITESPACE)
  if(civetweb_failed)
    message(FATAL_ERROR "${civetweb_says}")
  elseif(civetweb_says)
    message(STATUS "${civetweb_says}")
  endif()

  # Changed where it is known to be wrong. `what` says what a version does that does it otherwise.
  file(READ ${ROCE_CIVETWEB_DIR}/src/civetweb.c civetweb_text)
  function(roce_change_civetweb before after what)
    string(FIND "${civetweb_text}" "${before}" found)
    if(found EQUAL -1)
      message(FATAL_ERROR "civetweb.c ${what} in another way than packaging/civetweb.cmake knows")
    endif()
    string(REPLACE "${before}" "${after}" civetweb_text "${civetweb_text}")
    set(civetweb_text "${civetweb_text}" PARENT_SCOPE)
  endfunction()
  # At a line that is no header (folded, without a name) it takes the head for ended, and loses the headers that follow.
  roce_change_civetweb("/* End of headers reached. */" "if ((*dp != 0) && (*dp != '\\r') && (*dp != '\\n')) return -1;"
                       "ends headers")
  if(ROCE_SANITIZE MATCHES thread)
    # Its stop flag is a plain volatile; STOP_FLAG_NEEDS_LOCK makes it an atomic, but for one read when it is set.
    roce_change_civetweb("sf = mg_atomic_compare_and_swap(f, *f, v);" "__atomic_store_n(f, v, __ATOMIC_SEQ_CST), sf = v;"
                         "sets its stop flag")
  endif()
  set(civetweb_source ${CMAKE_BINARY_DIR}/civetweb/civetweb.c)
  file(CONFIGURE OUTPUT ${civetweb_source} CONTENT "${civetweb_text}" @ONLY)
  add_library(roce_civetweb STATIC ${civetweb_source})
  target_include_directories(roce_civetweb PRIVATE ${ROCE_CIVETWEB_DIR}/src)
  target_include_directories(roce_civetweb SYSTEM PUBLIC ${ROCE_CIVETWEB_DIR}/include)
  target_compile_definitions(roce_civetweb PRIVATE
    NO_FILES NO_CGI NO_CACHING USE_IPV6 OPENSSL_API_3_0 NO_SSL_DL NDEBUG
    SOCKET_TIMEOUT_QUANTUM=250    # ms: how long an idle connection may hold up the stop
    USE_STACK_SIZE=1048576)       # one thread a connection
  # Not our code: its warnings are not ours, the sanitizers and hardening are.
  target_compile_options(roce_civetweb PRIVATE -w -fstack-protector-strong ${ROCE_RELEASE_FLAGS})
  target_compile_definitions(roce_civetweb PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:_FORTIFY_SOURCE=2>)
  if(ROCE_SANITIZE)
    target_compile_options(roce_civetweb PRIVATE -fsanitize=${ROCE_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=all)
    target_link_options(roce_civetweb INTERFACE -fsanitize=${ROCE_SANITIZE})
    if(ROCE_SANITIZE MATCHES thread)
      target_compile_definitions(roce_civetweb PRIVATE STOP_FLAG_NEEDS_LOCK)
    endif()
  endif()
  if(ROCE_FUZZ)
    target_compile_options(roce_civetweb PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  target_link_libraries(roce_civetweb PUBLIC OpenSSL::SSL OpenSSL::Crypto Threads::Threads ${CMAKE_DL_LIBS})
endif()
