# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
codec_tests = \
	tests/unit/codec/test_flip \
	tests/unit/codec/test_json \
	tests/unit/codec/test_jsonin \
	tests/unit/codec/test_safetensors \
	tests/unit/codec/test_yaml \
	$(NULL)
check_PROGRAMS += $(codec_tests)
TESTS += $(codec_tests)

tests_unit_codec_test_flip_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_codec_test_flip_LDADD = $(ZF_CODEC) $(CMOCKA_LIBS)
tests_unit_codec_test_json_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_json_LDADD = $(ZF_CODEC) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_codec_test_jsonin_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_codec_test_jsonin_LDADD = $(ZF_CODEC) $(CMOCKA_LIBS)
tests_unit_codec_test_safetensors_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_yaml_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_yaml_LDADD = $(ZF_CODEC) $(CMOCKA_LIBS)
tests_unit_codec_test_safetensors_LDADD = $(ZF_CODEC) $(JANSSON_LIBS) $(CMOCKA_LIBS)
endif

# JSON as a stream: compared with Python's own
check_PROGRAMS += tests/unit/codec/jsonin_dump
tests_unit_codec_jsonin_dump_SOURCES = tests/unit/codec/jsonin_dump.c
tests_unit_codec_jsonin_dump_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_codec_jsonin_dump_LDADD = $(ZF_CODEC)
dist_check_SCRIPTS += tests/unit/codec/test_jsonin.py
TESTS += tests/unit/codec/test_jsonin.py

# pickle: compared with Python's own
check_PROGRAMS += tests/unit/codec/pickle_dump
tests_unit_codec_pickle_dump_SOURCES = tests/unit/codec/pickle_dump.c
tests_unit_codec_pickle_dump_LDADD = $(ZF_CODEC)
dist_check_SCRIPTS += tests/unit/codec/test_pickle.py
TESTS += tests/unit/codec/test_pickle.py
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/codec/test_pickle_fold tests/unit/codec/test_pickle_value tests/unit/codec/test_pickle_watch
TESTS += tests/unit/codec/test_pickle_fold tests/unit/codec/test_pickle_value tests/unit/codec/test_pickle_watch
endif
tests_unit_codec_test_pickle_fold_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_pickle_fold_LDADD = $(ZF_CODEC) $(CMOCKA_LIBS)
tests_unit_codec_test_pickle_value_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_pickle_value_LDADD = $(ZF_CODEC) $(CMOCKA_LIBS)
tests_unit_codec_test_pickle_watch_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_pickle_watch_LDADD = $(ZF_CODEC) $(CMOCKA_LIBS)

# zip, and reads that fail
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/codec/test_faults tests/unit/codec/test_zip
TESTS += tests/unit/codec/test_faults tests/unit/codec/test_zip
endif
tests_unit_codec_test_faults_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_codec_test_faults_LDADD = $(ZF_CODEC) $(CMOCKA_LIBS)
tests_unit_codec_test_zip_SOURCES = tests/unit/codec/test_zip.c tests/unit/codec/fixture.h
tests_unit_codec_test_zip_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_zip_LDADD = $(ZF_CODEC) $(CMOCKA_LIBS)
EXTRA_DIST += tests/unit/codec/zips.py

# torch.save files
check_PROGRAMS += tests/unit/codec/torch_dump
tests_unit_codec_torch_dump_SOURCES = tests/unit/codec/torch_dump.c
tests_unit_codec_torch_dump_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_codec_torch_dump_LDADD = $(ZF_CODEC)
dist_check_SCRIPTS += tests/unit/codec/test_torch.py
TESTS += tests/unit/codec/test_torch.py
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/codec/test_torch_release tests/unit/codec/test_stream
TESTS += tests/unit/codec/test_torch_release tests/unit/codec/test_stream
endif
tests_unit_codec_test_stream_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_stream_LDADD = $(ZF_CODEC) $(CMOCKA_LIBS)
tests_unit_codec_test_torch_release_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_torch_release_LDADD = $(ZF_CODEC) $(CMOCKA_LIBS)

# zarr
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/codec/test_zarr
TESTS += tests/unit/codec/test_zarr
endif
tests_unit_codec_test_zarr_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_zarr_LDADD = $(ZF_CODEC) $(ZLIB_LIBS) $(ZSTD_LIBS) $(BLOSC_LIBS) $(LZ4_LIBS) $(CMOCKA_LIBS)
