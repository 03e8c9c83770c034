# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += \
	src/format/megatron/axes.c \
	src/format/megatron/bucket_flat.c \
	src/format/megatron/bucket_match.c \
	src/format/megatron/bucket_order.c \
	src/format/megatron/bucket_rows.c \
	src/format/megatron/bucket_walk.c \
	src/format/megatron/dcp_lists.c \
	src/format/megatron/fsdp.c \
	src/format/megatron/fsdp_ids.c \
	src/format/megatron/fsdp_keys.c \
	src/format/megatron/integrity.c \
	src/format/megatron/iteration.c \
	src/format/megatron/buckets.c \
	src/format/megatron/keys.c \
	src/format/megatron/masters.c \
	src/format/megatron/megatron.c \
	src/format/megatron/local_save.c \
	src/format/megatron/parts.c \
	src/format/megatron/place.c \
	src/format/megatron/save.c \
	src/format/megatron/settings.c \
	src/format/megatron/settings_yaml.c \
	src/format/megatron/torch_dist.c \
	src/format/megatron/verl.c \
	src/format/megatron/zarr.c \
	src/format/megatron/zarr_array.c \
	src/format/megatron/zarr_objects.c \
	$(NULL)

noinst_HEADERS += \
	src/format/megatron/bucket_flat.h \
	src/format/megatron/bucket_match.h \
	src/format/megatron/bucket_order.h \
	src/format/megatron/bucket_rows.h \
	src/format/megatron/bucket_walk.h \
	src/format/megatron/dcp_lists.h \
	src/format/megatron/fsdp_ids.h \
	src/format/megatron/fsdp_keys.h \
	src/format/megatron/integrity.h \
	src/format/megatron/iteration.h \
	src/format/megatron/keys.h \
	src/format/megatron/local_save.h \
	src/format/megatron/save.h \
	src/format/megatron/settings.h \
	src/format/megatron/settings_yaml.h \
	src/format/megatron/verl.h \
	src/format/megatron/zarr_array.h \
	src/format/megatron/zarr_objects.h \
	src/format/megatron/steps.h \
	$(NULL)

include src/format/megatron/legacy/local.mk
