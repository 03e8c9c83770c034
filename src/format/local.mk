# SPDX-License-Identifier: Apache-2.0
# A family is a folder: its sources and its local.mk, which scripts/bootstrap finds.
noinst_LTLIBRARIES += libzf-format.la
libzf_format_la_SOURCES =
libzf_format_la_LIBADD =

noinst_HEADERS += include/zf/format.h

include src/format/families.mk
