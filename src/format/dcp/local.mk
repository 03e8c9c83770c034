# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += \
	src/format/dcp/bytes_items.c \
	src/format/dcp/composed.c \
	src/format/dcp/dcp.c \
	src/format/dcp/files.c \
	src/format/dcp/items.c \
	src/format/dcp/mcore_data.c \
	src/format/dcp/metadata.c \
	src/format/dcp/metadata_file.c \
	src/format/dcp/paths.c \
	src/format/dcp/placing.c \
	src/format/dcp/replicas.c \
	src/format/dcp/state_metadata.c \
	src/format/dcp/storage_data.c \
	src/format/dcp/tensors.c \
	src/format/dcp/whole.c \
	$(NULL)

noinst_HEADERS += \
	src/format/dcp/bytes_items.h \
	src/format/dcp/composed.h \
	src/format/dcp/files.h \
	src/format/dcp/items.h \
	src/format/dcp/mcore_data.h \
	src/format/dcp/metadata.h \
	src/format/dcp/metadata_file.h \
	src/format/dcp/paths.h \
	src/format/dcp/placing.h \
	src/format/dcp/replicas.h \
	src/format/dcp/state_metadata.h \
	src/format/dcp/storage_data.h \
	src/format/dcp/tensors.h \
	src/format/dcp/whole.h \
	$(NULL)
