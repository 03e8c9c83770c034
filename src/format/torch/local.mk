# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += \
	src/format/torch/ranks.c \
	src/format/torch/torch.c \
	$(NULL)
