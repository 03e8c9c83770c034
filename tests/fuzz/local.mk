# SPDX-License-Identifier: Apache-2.0
# Fuzz targets.  Each is tests/fuzz/fuzz_NAME.c with LLVMFuzzerTestOneInput, a corpus tests/fuzz/corpus/NAME
# (small files; at most 60) and, below, its name in fuzz_names and two lines.  `make check` replays the
# corpus through driver.c and tries every truncation of it.  With --enable-fuzzing (CC=clang) the same
# program is libFuzzer's:  ./tests/fuzz/fuzz_NAME -max_total_time=180 NEW_DIR .../corpus/NAME
fuzz_programs = \
	tests/fuzz/fuzz_bucket \
	tests/fuzz/fuzz_build \
	tests/fuzz/fuzz_cred \
	tests/fuzz/fuzz_dcp \
	tests/fuzz/fuzz_hf \
	tests/fuzz/fuzz_json \
	tests/fuzz/fuzz_keep \
	tests/fuzz/fuzz_megatron \
	tests/fuzz/fuzz_olmo \
	tests/fuzz/fuzz_legacy \
	tests/fuzz/fuzz_open \
	tests/fuzz/fuzz_pickle \
	tests/fuzz/fuzz_s3 \
	tests/fuzz/fuzz_safetensors \
	tests/fuzz/fuzz_torch \
	tests/fuzz/fuzz_tpinfo \
	tests/fuzz/fuzz_yaml \
	tests/fuzz/fuzz_zarr \
	tests/fuzz/fuzz_zstd \
	$(NULL)
if HAVE_CURL
fuzz_programs += tests/fuzz/fuzz_http
tests_fuzz_fuzz_http_SOURCES = tests/fuzz/fuzz_http.c $(fuzz_driver)
tests_fuzz_fuzz_http_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_http_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_http_LDADD = libzf-remote.la $(ZF_CODEC)
endif

if HAVE_CURL
fuzz_programs += tests/fuzz/fuzz_listing
endif

check_PROGRAMS += $(fuzz_programs)
if FUZZING
fuzz_driver =
fuzz_ldflags = $(AM_LDFLAGS) -fsanitize=fuzzer
else
fuzz_driver = tests/fuzz/driver.c
fuzz_ldflags = $(AM_LDFLAGS)
TESTS += $(fuzz_programs)
endif

tests_fuzz_fuzz_bucket_SOURCES = tests/fuzz/fuzz_bucket.c $(fuzz_driver)
tests_fuzz_fuzz_bucket_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_bucket_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_bucket_LDADD = $(ZF_FORMAT)
tests_fuzz_fuzz_build_SOURCES = tests/fuzz/fuzz_build.c $(fuzz_driver)
tests_fuzz_fuzz_build_CPPFLAGS = $(TEST_CPPFLAGS)
tests_fuzz_fuzz_build_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_build_LDADD = $(ZF_MODEL)
tests_fuzz_fuzz_dcp_SOURCES = tests/fuzz/fuzz_dcp.c $(fuzz_driver)
tests_fuzz_fuzz_dcp_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_dcp_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS)
tests_fuzz_fuzz_hf_SOURCES = tests/fuzz/fuzz_hf.c $(fuzz_driver)
tests_fuzz_fuzz_hf_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_hf_LDADD = $(ZF_FORMAT)
tests_fuzz_fuzz_json_SOURCES = tests/fuzz/fuzz_json.c $(fuzz_driver)
tests_fuzz_fuzz_json_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_fuzz_fuzz_json_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_json_LDADD = $(ZF_CODEC) $(JANSSON_LIBS)
tests_fuzz_fuzz_keep_SOURCES = tests/fuzz/fuzz_keep.c $(fuzz_driver)
tests_fuzz_fuzz_keep_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_fuzz_fuzz_keep_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_keep_LDADD = libzf-keep.la $(ZF_FORMAT)
tests_fuzz_fuzz_olmo_SOURCES = tests/fuzz/fuzz_olmo.c $(fuzz_driver)
tests_fuzz_fuzz_olmo_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_olmo_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_olmo_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS)
tests_fuzz_fuzz_legacy_SOURCES = tests/fuzz/fuzz_legacy.c $(fuzz_driver)
tests_fuzz_fuzz_legacy_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_legacy_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_legacy_LDADD = $(ZF_FORMAT)
tests_fuzz_fuzz_listing_SOURCES = tests/fuzz/fuzz_listing.c $(fuzz_driver)
tests_fuzz_fuzz_listing_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_listing_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_listing_LDADD = $(ZF_REMOTE) $(JANSSON_LIBS)
tests_fuzz_fuzz_megatron_SOURCES = tests/fuzz/fuzz_megatron.c $(fuzz_driver)
tests_fuzz_fuzz_megatron_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_megatron_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_megatron_LDADD = $(ZF_FORMAT)
tests_fuzz_fuzz_open_SOURCES = tests/fuzz/fuzz_open.c $(fuzz_driver)
tests_fuzz_fuzz_open_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_open_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS)

tests_fuzz_fuzz_pickle_SOURCES = tests/fuzz/fuzz_pickle.c $(fuzz_driver)
tests_fuzz_fuzz_pickle_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_pickle_LDADD = $(ZF_CODEC)

tests_fuzz_fuzz_safetensors_SOURCES = tests/fuzz/fuzz_safetensors.c $(fuzz_driver)
tests_fuzz_fuzz_safetensors_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_safetensors_LDADD = $(ZF_CODEC) $(JANSSON_LIBS)
tests_fuzz_fuzz_torch_SOURCES = tests/fuzz/fuzz_torch.c $(fuzz_driver)
tests_fuzz_fuzz_torch_CPPFLAGS = $(TEST_CPPFLAGS)
tests_fuzz_fuzz_torch_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_torch_LDADD = $(ZF_CODEC)
tests_fuzz_fuzz_tpinfo_SOURCES = tests/fuzz/fuzz_tpinfo.c $(fuzz_driver)
tests_fuzz_fuzz_tpinfo_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_tpinfo_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_tpinfo_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS)
tests_fuzz_fuzz_yaml_SOURCES = tests/fuzz/fuzz_yaml.c $(fuzz_driver)
tests_fuzz_fuzz_yaml_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_yaml_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_yaml_LDADD = $(ZF_FORMAT)
tests_fuzz_fuzz_zarr_SOURCES = tests/fuzz/fuzz_zarr.c $(fuzz_driver)
tests_fuzz_fuzz_zarr_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_zarr_LDADD = $(ZF_CODEC)
tests_fuzz_fuzz_zstd_SOURCES = tests/fuzz/fuzz_zstd.c $(fuzz_driver)
tests_fuzz_fuzz_zstd_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_zstd_LDADD = $(ZF_SOURCE)

if HAVE_CURL
fuzz_programs += tests/fuzz/fuzz_diskcache
endif
tests_fuzz_fuzz_diskcache_SOURCES = tests/fuzz/fuzz_diskcache.c $(fuzz_driver)
tests_fuzz_fuzz_diskcache_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_fuzz_fuzz_diskcache_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_diskcache_LDADD = libzf-remote.la $(ZF_SOURCE)

noinst_HEADERS += tests/fuzz/fuzz.h tests/fuzz/opened.h
EXTRA_DIST += tests/fuzz/driver.c tests/fuzz/pack_open.py tests/fuzz/corpus
tests_fuzz_fuzz_cred_SOURCES = tests/fuzz/fuzz_cred.c $(fuzz_driver)
tests_fuzz_fuzz_cred_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_cred_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_cred_LDADD = libzf-remote.la $(ZF_CODEC) $(JANSSON_LIBS)
tests_fuzz_fuzz_s3_SOURCES = tests/fuzz/fuzz_s3.c $(fuzz_driver)
tests_fuzz_fuzz_s3_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_fuzz_fuzz_s3_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_s3_LDADD = libzf-remote.la $(ZF_CODEC) $(JANSSON_LIBS)
