# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
codec_tests = \
	tests/unit/codec/test_json \
	tests/unit/codec/test_safetensors \
	$(NULL)
check_PROGRAMS += $(codec_tests)
TESTS += $(codec_tests)

tests_unit_codec_test_json_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_json_LDADD = $(ZF_CODEC) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_codec_test_safetensors_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_codec_test_safetensors_LDADD = $(ZF_CODEC) $(JANSSON_LIBS) $(CMOCKA_LIBS)
endif
