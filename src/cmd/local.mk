# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += zerofs
zerofs_SOURCES = \
	src/cmd/main.c \
	$(NULL)
zerofs_LDADD = libzf-fs.la libzf-view.la libzf-format.la libzf-model.la libzf-codec.la \
	libzf-source.la libzf-base.la
