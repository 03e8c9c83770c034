# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-format.la
libzf_format_la_SOURCES = \
	src/format/boxes.c \
	src/format/choose.c \
	src/format/copies.c \
	src/format/dcp.c \
	src/format/dcp_extra.c \
	src/format/dcp_gather.c \
	src/format/dcp_items.c \
	src/format/dcp_metadata.c \
	src/format/dcp_place.c \
	src/format/dcp_table.c \
	src/format/deepspeed.c \
	src/format/ds_column.c \
	src/format/ds_dir.c \
	src/format/ds_model.c \
	src/format/ds_optim.c \
	src/format/ds_rest.c \
	src/format/ds_stored.c \
	src/format/ds_ties.c \
	src/format/ds_util.c \
	src/format/ds_zero12.c \
	src/format/ds_zero3.c \
	src/format/entry.c \
	src/format/groups.c \
	src/format/hashes.c \
	src/format/hf.c \
	src/format/locate.c \
	src/format/names.c \
	src/format/pick.c \
	src/format/ranks_join.c \
	src/format/relpath.c \
	src/format/safetensors.c \
	src/format/place.c \
	src/format/side.c \
	src/format/st_file.c \
	src/format/st_index.c \
	src/format/st_join.c \
	src/format/table.c \
	src/format/tags.c \
	src/format/text.c \
	src/format/walk.c \
	$(NULL)
libzf_format_la_LIBADD = 

noinst_HEADERS += \
	include/zf/format.h \
	src/format/dcp_extra.h \
	src/format/dcp_gather.h \
	src/format/dcp_items.h \
	src/format/dcp_metadata.h \
	src/format/dcp_place.h \
	src/format/dcp_table.h \
	src/format/boxes.h \
	src/format/copies.h \
	src/format/ds.h \
	src/format/entry.h \
	src/format/groups.h \
	src/format/hashes.h \
	src/format/locate.h \
	src/format/names.h \
	src/format/pick.h \
	src/format/ranks_join.h \
	src/format/relpath.h \
	src/format/place.h \
	src/format/side.h \
	src/format/st_file.h \
	src/format/st_index.h \
	src/format/st_join.h \
	src/format/table.def \
	src/format/table.h \
	src/format/tags.h \
	src/format/text.h \
	src/format/walk.h \
	$(NULL)
