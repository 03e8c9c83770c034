# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
format_tests = \
	tests/unit/format/deepspeed/test_deepspeed \
	tests/unit/format/deepspeed/test_autoep \
	tests/unit/format/deepspeed/test_files \
	tests/unit/format/deepspeed/test_mappings \
	tests/unit/format/deepspeed/test_tp_digest \
	tests/unit/format/dcp/test_dcp \
	tests/unit/format/megatron/test_bucket_order \
	tests/unit/format/megatron/test_bucket_walk \
	tests/unit/format/megatron/test_keys \
	tests/unit/format/megatron/test_fsdp_keys \
	tests/unit/format/megatron/test_legacy \
	tests/unit/format/megatron/test_settings \
	tests/unit/format/megatron/test_settings_yaml \
	tests/unit/format/olmo/test_rank_files \
	tests/unit/format/test_ranks \
	tests/unit/format/test_safetensors \
	tests/unit/format/test_torchfile \
	$(NULL)
check_PROGRAMS += $(format_tests)
TESTS += $(format_tests)
tests_unit_format_deepspeed_test_deepspeed_SOURCES = tests/unit/format/deepspeed/test_deepspeed.c tests/support/golden.c
tests_unit_format_deepspeed_test_deepspeed_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_format_deepspeed_test_deepspeed_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_format_deepspeed_test_autoep_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_deepspeed_test_autoep_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_deepspeed_test_files_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_deepspeed_test_files_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_deepspeed_test_mappings_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_deepspeed_test_mappings_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_deepspeed_test_tp_digest_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_deepspeed_test_tp_digest_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_dcp_test_dcp_SOURCES = tests/unit/format/dcp/test_dcp.c tests/support/golden.c
tests_unit_format_dcp_test_dcp_CPPFLAGS = $(TEST_CPPFLAGS) $(JANSSON_CFLAGS)
tests_unit_format_dcp_test_dcp_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_format_megatron_test_bucket_order_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_megatron_test_bucket_order_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_megatron_test_bucket_walk_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_megatron_test_bucket_walk_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_megatron_test_keys_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_megatron_test_keys_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_megatron_test_fsdp_keys_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_megatron_test_fsdp_keys_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_megatron_test_legacy_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_megatron_test_legacy_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_megatron_test_settings_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_megatron_test_settings_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_megatron_test_settings_yaml_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_megatron_test_settings_yaml_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_olmo_test_rank_files_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_format_olmo_test_rank_files_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_format_test_safetensors_SOURCES = tests/unit/format/test_safetensors.c tests/support/golden.c
tests_unit_format_test_safetensors_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_format_test_safetensors_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_format_test_ranks_SOURCES = tests/unit/format/test_ranks.c tests/support/golden.c
tests_unit_format_test_ranks_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_format_test_ranks_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_format_test_torchfile_SOURCES = tests/unit/format/test_torchfile.c tests/support/golden.c
tests_unit_format_test_torchfile_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_format_test_torchfile_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS) $(CMOCKA_LIBS)
endif

# For the scripts of tests/format, which need no cmocka.
check_PROGRAMS += tests/unit/format/tree_dump
tests_unit_format_tree_dump_SOURCES = tests/unit/format/tree_dump.c
tests_unit_format_tree_dump_LDADD = $(ZF_FORMAT)
