# SPDX-License-Identifier: Apache-2.0
# What families share, and no family: names, tensors that outlive their pickle, vectors over ranks, joins, replicas and their
# comparison, series of numbered files, indexes.
noinst_LTLIBRARIES += libzf-assemble.la
libzf_assemble_la_SOURCES = \
	src/assemble/adapter.c \
	src/assemble/adapter_name.c \
	src/assemble/adapter_name.h \
	src/assemble/adapter_words.def \
	src/assemble/agree.c \
	src/assemble/agree_compare.c \
	src/assemble/agree_list.h \
	src/assemble/assign.c \
	src/assemble/companions.c \
	src/assemble/composed.c \
	src/assemble/coord.c \
	src/assemble/cut.c \
	src/assemble/degraded.c \
	src/assemble/dtensor_ranges.c \
	src/assemble/files.c \
	src/assemble/flat_vector.c \
	src/assemble/hf_index.c \
	src/assemble/item_json.c \
	src/assemble/join.c \
	src/assemble/join_composed.c \
	src/assemble/names.c \
	src/assemble/optim_index.c \
	src/assemble/optim_key.c \
	src/assemble/param_groups.c \
	src/assemble/parts.c \
	src/assemble/py_pattern.c \
	src/assemble/ranks_agree.c \
	src/assemble/replicas.c \
	src/assemble/rounding.c \
	src/assemble/save_dirs.c \
	src/assemble/st_boxes.c \
	src/assemble/st_files.c \
	src/assemble/tensor_ref.c \
	src/assemble/torch_ahead.c \
	src/assemble/torch_files.c \
	src/assemble/torch_json.c \
	src/assemble/torch_place.c \
	src/assemble/torch_visit.c \
	src/assemble/tp_rules.c \
	src/assemble/tree_join.c \
	src/assemble/values.c \
	src/assemble/wrappers.c \
	$(NULL)
libzf_assemble_la_LIBADD =

noinst_HEADERS += \
	include/zf/assemble/adapter.h \
	include/zf/assemble/agree.h \
	include/zf/assemble/assign.h \
	include/zf/assemble/companions.h \
	include/zf/assemble/composed.h \
	include/zf/assemble/coord.h \
	include/zf/assemble/cut.h \
	include/zf/assemble/degraded.h \
	include/zf/assemble/files.h \
	include/zf/assemble/flat_vector.h \
	include/zf/assemble/hf_index.h \
	include/zf/assemble/item_json.h \
	include/zf/assemble/key_path.h \
	include/zf/assemble/names.h \
	include/zf/assemble/open_opts.h \
	include/zf/assemble/optim_index.h \
	include/zf/assemble/py_pattern.h \
	include/zf/assemble/rounding.h \
	include/zf/assemble/save_dirs.h \
	include/zf/assemble/st_boxes.h \
	include/zf/assemble/st_files.h \
	include/zf/assemble/tensor_ref.h \
	include/zf/assemble/torch_ahead.h \
	include/zf/assemble/torch_files.h \
	include/zf/assemble/torch_place.h \
	include/zf/assemble/torch_visit.h \
	include/zf/assemble/tp_rules.h \
	include/zf/assemble/tree_join.h \
	include/zf/assemble/values.h \
	src/assemble/dtensor_ranges.h \
	src/assemble/join.h \
	src/assemble/join_composed.h \
	src/assemble/optim_key.h \
	src/assemble/param_groups.h \
	src/assemble/parts.h \
	src/assemble/ranks_agree.h \
	src/assemble/replicas.h \
	src/assemble/wrappers.h \
	$(NULL)
