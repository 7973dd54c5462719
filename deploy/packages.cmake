# Packages of what the release build has made, by `cpack` in its directory:
#   cpack -G DEB   a Debian package with two services
#   cpack -G TGZ   the one static file, with what one may want beside it
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # the binary is there; nothing else is installed
set(DEPLOY ${PROJECT_SOURCE_DIR}/deploy)

# Paths as the system has them.
install(TARGETS threadbox RUNTIME DESTINATION usr/bin COMPONENT system)
install(FILES ${DEPLOY}/systemd/threadbox.service ${DEPLOY}/systemd/threadbox-keeper.service
        DESTINATION usr/lib/systemd/system COMPONENT system)
install(FILES ${DEPLOY}/threadbox.conf DESTINATION etc/threadbox COMPONENT system
        PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ)  # it may hold a secret
set(MAN_PAGE ${PROJECT_SOURCE_DIR}/docs/man/threadbox.1)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${MAN_PAGE})
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/package)
execute_process(COMMAND gzip -9nc ${MAN_PAGE}
                OUTPUT_FILE ${PROJECT_BINARY_DIR}/package/threadbox.1.gz COMMAND_ERROR_IS_FATAL ANY)
install(FILES ${PROJECT_BINARY_DIR}/package/threadbox.1.gz DESTINATION usr/share/man/man1
        COMPONENT system)
install(FILES ${DEPLOY}/completions/threadbox.bash RENAME threadbox
        DESTINATION usr/share/bash-completion/completions COMPONENT system)
install(FILES ${DEPLOY}/completions/_threadbox DESTINATION usr/share/zsh/vendor-completions
        COMPONENT system)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright DESTINATION usr/share/doc/threadbox
        COMPONENT system)
install(FILES ${DEPLOY}/nginx.conf ${DEPLOY}/grafana.json DESTINATION usr/share/doc/threadbox
        COMPONENT system)

install(TARGETS threadbox RUNTIME DESTINATION . COMPONENT portable)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${MAN_PAGE}
        ${DEPLOY}/nginx.conf ${DEPLOY}/grafana.json ${DEPLOY}/threadbox.conf
        DESTINATION . COMPONENT portable)
install(DIRECTORY ${DEPLOY}/systemd ${DEPLOY}/completions DESTINATION . COMPONENT portable)

set(CPACK_PACKAGE_NAME threadbox)
set(CPACK_PACKAGE_CONTACT "Threadbox maintainers <threadbox@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "isolated, persistent sandboxes for conversations of agents")
set(CPACK_STRIP_FILES ON)
set(CPACK_PROJECT_CONFIG_FILE ${DEPLOY}/package_kind.cmake)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"A server that gives every thread a Linux box of its own, made by the
 kernel alone: commands run in it over HTTP, its files stay, and it
 outlives the server.")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "passwd, init-system-helpers")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS
    "btrfs-progs, python3, jq, gawk, bc, file, procps, ca-certificates")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "nginx")
file(WRITE ${PROJECT_BINARY_DIR}/package/conffiles "/etc/threadbox/threadbox.conf\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    "${DEPLOY}/debian/postinst;${DEPLOY}/debian/prerm;${DEPLOY}/debian/postrm"
    "${PROJECT_BINARY_DIR}/package/conffiles")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_FILE_NAME
    ${PROJECT_NAME}-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_FILE_NAME ${CPACK_ARCHIVE_FILE_NAME})
include(CPack)
