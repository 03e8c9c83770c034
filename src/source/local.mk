# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-source.la
libzf_source_la_SOURCES = \
	src/source/beneath.c \
	src/source/beneath.h \
	src/source/blocks.c \
	src/source/blocks.h \
	src/source/cache.c \
	src/source/cache.h \
	src/source/clone.c \
	src/source/decoded.c \
	src/source/digest.c \
	src/source/doubts.c \
	src/source/doubts.h \
	src/source/file.c \
	src/source/file.h \
	src/source/gate.c \
	src/source/inflate.c \
	src/source/items.c \
	src/source/kinds.c \
	src/source/kinds.h \
	src/source/kept.c \
	src/source/lead.c \
	src/source/lead.h \
	src/source/listing.c \
	src/source/lost.c \
	src/source/mem.c \
	src/source/pool.c \
	src/source/pool.h \
	src/source/reach.c \
	src/source/reach.h \
	src/source/same.c \
	src/source/same.h \
	src/source/source.c \
	src/source/store.c \
	src/source/store_dir.c \
	src/source/store_expect.c \
	src/source/store_facts.c \
	src/source/store_look.c \
	src/source/store_table.c \
	src/source/store_table.h \
	src/source/swap.c \
	src/source/want.c \
	src/source/want.h \
	src/source/window.c \
	src/source/zstd.c \
	$(NULL)
libzf_source_la_LIBADD = $(NETTLE_LIBS) $(ZLIB_LIBS) $(ZSTD_LIBS)

noinst_HEADERS += \
	include/zf/source/clone.h \
	include/zf/source/decoded.h \
	include/zf/source/gate.h \
	include/zf/source/facts.h \
	include/zf/source/items.h \
	include/zf/source/recipe.h \
	include/zf/source/source.h \
	include/zf/source/store.h \
	include/zf/source/store_kind.h \
	include/zf/source/want.h \
	$(NULL)
