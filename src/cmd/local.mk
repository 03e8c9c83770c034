# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += zerofs
zerofs_SOURCES = \
	src/cmd/access.c \
	src/cmd/access.h \
	src/cmd/cache.c \
	src/cmd/cat.c \
	src/cmd/config_note.c \
	src/cmd/cmd.h \
	src/cmd/export.c \
	src/cmd/export_failed.c \
	src/cmd/export_failed.h \
	src/cmd/export_progress.c \
	src/cmd/export_progress.h \
	src/cmd/export_verify.c \
	src/cmd/export_verify.h \
	src/cmd/helper.c \
	src/cmd/index.c \
	src/cmd/kept.c \
	src/cmd/kept.h \
	src/cmd/info.c \
	src/cmd/info.h \
	src/cmd/lost.c \
	src/cmd/ls.c \
	src/cmd/main.c \
	src/cmd/mount.c \
	src/cmd/mount.h \
	src/cmd/mountable.c \
	src/cmd/mountable.h \
	src/cmd/mounted.c \
	src/cmd/mounted.h \
	src/cmd/open.c \
	src/cmd/open.h \
	src/cmd/option_value.c \
	src/cmd/option_value.h \
	src/cmd/options.c \
	src/cmd/options.def \
	src/cmd/options.h \
	src/cmd/print.c \
	src/cmd/print.h \
	src/cmd/remote.c \
	src/cmd/remote.h \
	src/cmd/supervise.c \
	src/cmd/supervise.h \
	src/cmd/table.def \
	src/cmd/umount.c \
	src/cmd/where.c \
	src/cmd/where.h \
	$(NULL)
zerofs_LDADD = libzf-export.la libzf-overlay.la libzf-fs.la libzf-view.la libzf-keep.la libzf-find.la libzf-format.la libzf-dcp.la \
	libzf-assemble.la libzf-model.la libzf-remote.la libzf-codec.la libzf-source.la libzf-base.la

# What mount(8) looks for when fstab says "zerofs" or "fuse.zerofs".  Its directory is outside the prefix, so nothing is
# put there unless configure was told to.
MOUNT_HELPERS = mount.zerofs mount.fuse.zerofs

install-exec-hook:
	@if test -n '$(mounthelperdir)'; then \
	    echo " $(MKDIR_P) '$(DESTDIR)$(mounthelperdir)'"; \
	    $(MKDIR_P) '$(DESTDIR)$(mounthelperdir)' || exit 1; \
	    for h in $(MOUNT_HELPERS); do \
	        rm -f "$(DESTDIR)$(mounthelperdir)/$$h"; \
	        echo " $(LN_S) '$(bindir)/zerofs' '$(DESTDIR)$(mounthelperdir)/$$h'"; \
	        $(LN_S) '$(bindir)/zerofs' "$(DESTDIR)$(mounthelperdir)/$$h" || exit 1; \
	    done; \
	else \
	    echo 'For mount(8) and fstab, as root:'; \
	    for h in $(MOUNT_HELPERS); do echo "    ln -s '$(bindir)/zerofs' /sbin/$$h"; done; \
	fi

uninstall-hook:
	@if test -n '$(mounthelperdir)'; then \
	    for h in $(MOUNT_HELPERS); do rm -f "$(DESTDIR)$(mounthelperdir)/$$h"; done; \
	fi
