# SPDX-License-Identifier: Apache-2.0
#
# What is installed and where, by component: exporter, prober, monitoring. The packages are made of it; `cmake --install`
# puts it all below /usr/local. Configuration is installed as examples: a package makes files below /etc of them.

set(ROCE_UNIT_DIR lib/systemd/system CACHE STRING "Folder of systemd units, below the prefix or absolute")
set(ROCE_DEFAULTS_DIR /etc/default CACHE PATH "Folder of the files that hold the flags of a unit")
set(roce_examples ${CMAKE_INSTALL_DATADIR}/doc)

foreach(program exporter prober)
  configure_file(packaging/systemd/roce-${program}.service.in packaging/roce-${program}.service @ONLY)
  install(TARGETS roce_${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${program})
  install(FILES ${CMAKE_BINARY_DIR}/packaging/roce-${program}.service DESTINATION ${ROCE_UNIT_DIR} COMPONENT ${program})
  foreach(kind sysusers tmpfiles)
    install(FILES packaging/systemd/roce-${program}.${kind} DESTINATION lib/${kind}.d RENAME roce-${program}.conf
            COMPONENT ${program})
  endforeach()
  install(FILES packaging/completion/roce_exporter DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME roce_${program} COMPONENT ${program})
  install(FILES packaging/config/web.yml packaging/config/roce_${program}.yml
          DESTINATION ${roce_examples}/roce-${program}/examples COMPONENT ${program})
  install(FILES packaging/docs/web.md DESTINATION ${roce_examples}/roce-${program} COMPONENT ${program})
endforeach()
if(TARGET roce_storage_probe)
  configure_file(packaging/systemd/roce-storage-probe@.service.in packaging/roce-storage-probe@.service @ONLY)
  install(TARGETS roce_storage_probe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT prober)
  install(FILES ${CMAKE_BINARY_DIR}/packaging/roce-storage-probe@.service DESTINATION ${ROCE_UNIT_DIR} COMPONENT prober)
endif()
install(FILES packaging/config/profile.yml DESTINATION ${roce_examples}/roce-exporter/examples COMPONENT exporter)
install(FILES packaging/config/keys.yml DESTINATION ${roce_examples}/roce-prober/examples COMPONENT prober)
install(FILES packaging/docs/metrics.md packaging/docs/checks.md packaging/docs/units.md
        DESTINATION ${roce_examples}/roce-exporter COMPONENT exporter)
install(FILES packaging/docs/metrics-prober.md packaging/docs/probes.md DESTINATION ${roce_examples}/roce-prober
        COMPONENT prober)
install(PROGRAMS packaging/integrations/roce-slurm-health DESTINATION lib/roce_exporter COMPONENT exporter)
install(DIRECTORY packaging/systemd/drop-ins DESTINATION lib/roce_exporter COMPONENT exporter)
install(DIRECTORY packaging/integrations/node-problem-detector DESTINATION ${CMAKE_INSTALL_DATADIR}/roce_exporter
        COMPONENT exporter)
install(FILES packaging/integrations/README.md DESTINATION ${roce_examples}/roce-exporter RENAME integrations.md
        COMPONENT exporter)
install(DIRECTORY alerts DESTINATION ${CMAKE_INSTALL_DATADIR}/roce_exporter COMPONENT monitoring
        USE_SOURCE_PERMISSIONS PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY dashboards DESTINATION ${CMAKE_INSTALL_DATADIR}/roce_exporter COMPONENT monitoring OPTIONAL
        FILES_MATCHING PATTERN "*.json" PATTERN "src" EXCLUDE PATTERN "node_modules" EXCLUDE)

# Manual pages are what the programs say of themselves, which one with a sanitizer in it would say slowly.
if(NOT ROCE_SANITIZE)
  function(roce_manual program component description)
    set(page ${CMAKE_BINARY_DIR}/packaging/${program}.1)
    set(more ${CMAKE_SOURCE_DIR}/packaging/man/${program}.more)
    add_custom_command(OUTPUT ${page}
      COMMAND ${CMAKE_SOURCE_DIR}/packaging/man/generate $<TARGET_FILE:${program}> ${description} ${more} ${page}
      DEPENDS ${program} ${CMAKE_SOURCE_DIR}/packaging/man/generate ${more} VERBATIM)
    add_custom_target(${program}_manual ALL DEPENDS ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
  endfunction()
  roce_manual(roce_exporter exporter "publish the RDMA and RoCE state of a host for Prometheus")
  roce_manual(roce_prober prober "measure latency, loss and congestion of an RDMA fabric")
  if(TARGET roce_storage_probe)
    roce_manual(roce_storage_probe prober "measure how long reads of an NVMe namespace take")
  endif()
endif()
