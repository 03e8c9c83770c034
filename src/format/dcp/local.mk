# SPDX-License-Identifier: Apache-2.0
libzf_format_la_SOURCES += src/format/dcp/dcp.c
