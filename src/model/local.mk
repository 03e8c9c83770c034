# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-model.la
libzf_model_la_SOURCES = \
	src/model/empty.c \
	$(NULL)
libzf_model_la_LIBADD = 

noinst_HEADERS += \
	include/zf/model/build.h \
	include/zf/model/cast.h \
	include/zf/model/map.h \
	include/zf/model/model.h \
	$(NULL)
