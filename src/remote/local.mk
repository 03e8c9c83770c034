# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libzf-remote.la
libzf_remote_la_SOURCES = \
	src/remote/aws_conf.c \
	src/remote/aws_conf.h \
	src/remote/aws_plan.c \
	src/remote/aws_plan.h \
	src/remote/aws_reply.c \
	src/remote/aws_reply.h \
	src/remote/diskcache.h \
	src/remote/diskcache_files.c \
	src/remote/gs_cred.c \
	src/remote/gs_cred.h \
	src/remote/headers.c \
	src/remote/headers.h \
	src/remote/ini.c \
	src/remote/ini.h \
	src/remote/remote.c \
	src/remote/rs256.c \
	src/remote/rs256.h \
	src/remote/s3_error.c \
	src/remote/s3_error.h \
	src/remote/s3_list.c \
	src/remote/s3_list.h \
	src/remote/settings.c \
	src/remote/settings.h \
	src/remote/sigv4.c \
	src/remote/sigv4.h \
	src/remote/timestamp.c \
	src/remote/timestamp.h \
	src/remote/unlisted.c \
	src/remote/unlisted.h \
	src/remote/uri.c \
	src/remote/uri.h \
	src/remote/url.c \
	src/remote/url.h \
	src/remote/version.c \
	src/remote/xml.c \
	src/remote/xml.h \
	$(NULL)
libzf_remote_la_LIBADD = $(EXPAT_LIBS) $(HOGWEED_LIBS) $(NETTLE_LIBS) $(JANSSON_LIBS)
if HAVE_CURL
libzf_remote_la_SOURCES += \
	src/remote/auth.h \
	src/remote/aws_auth.c \
	src/remote/aws_auth.h \
	src/remote/aws_fetch.c \
	src/remote/aws_fetch.h \
	src/remote/blockcache.c \
	src/remote/blockcache.h \
	src/remote/curl_late.c \
	src/remote/curl_late.h \
	src/remote/diskblocks.c \
	src/remote/diskblocks.h \
	src/remote/diskcache.c \
	src/remote/fetch.c \
	src/remote/fetch.h \
	src/remote/gs_auth.c \
	src/remote/gs_auth.h \
	src/remote/http.h \
	src/remote/http_call.c \
	src/remote/http_call.h \
	src/remote/http_check.c \
	src/remote/http_client.c \
	src/remote/http_head.c \
	src/remote/http_head.h \
	src/remote/http_host.c \
	src/remote/http_host.h \
	src/remote/http_inside.h \
	src/remote/http_judge.c \
	src/remote/http_loop.c \
	src/remote/http_place.c \
	src/remote/http_reply.c \
	src/remote/noted.c \
	src/remote/noted.h \
	src/remote/object.c \
	src/remote/object.h \
	src/remote/object_inside.h \
	src/remote/place.c \
	src/remote/place.h \
	src/remote/s3_place.c \
	src/remote/sizes.c \
	src/remote/sizes.h \
	src/remote/store.c \
	src/remote/store.h \
	src/remote/table.def \
	$(NULL)
libzf_remote_la_LIBADD += $(DL_LIBS)
endif

noinst_HEADERS += include/zf/remote.h

# Listings of web servers, the hub, the manifest
libzf_remote_la_SOURCES += \
	src/remote/entries.c \
	src/remote/entries.h \
	src/remote/index_file.c \
	src/remote/index_file.h \
	src/remote/index_make.c \
	$(NULL)
if HAVE_CURL
libzf_remote_la_SOURCES += \
	src/remote/autoindex.c \
	src/remote/autoindex.h \
	src/remote/autoindex_html.c \
	src/remote/autoindex_json.c \
	src/remote/href.c \
	src/remote/href.h \
	src/remote/hub.c \
	src/remote/hub_json.c \
	src/remote/hub_json.h \
	src/remote/login.c \
	src/remote/login.h \
	src/remote/names.c \
	src/remote/names.def \
	src/remote/names.h \
	src/remote/netrc.c \
	src/remote/netrc.h \
	$(NULL)
endif
