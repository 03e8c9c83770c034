# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
model_tests = \
	tests/unit/model/test_build \
	tests/unit/model/test_draft_read \
	tests/unit/model/test_hidden \
	tests/unit/model/test_loss \
	tests/unit/model/test_map_random \
	tests/unit/model/test_pack \
	tests/unit/model/test_part \
	tests/unit/model/test_prove \
	tests/unit/model/test_reads \
	tests/unit/model/test_run \
	tests/unit/model/test_slots \
	tests/unit/model/test_turn \
	tests/unit/model/test_undo \
	$(NULL)
check_PROGRAMS += $(model_tests)
TESTS += $(model_tests)

tests_unit_model_test_build_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_model_test_build_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS)
tests_unit_model_test_hidden_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_model_test_hidden_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS)
tests_unit_model_test_draft_read_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_model_test_draft_read_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS)
tests_unit_model_test_loss_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_model_test_loss_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS) -lm
tests_unit_model_test_map_random_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_model_test_map_random_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS)
tests_unit_model_test_pack_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_model_test_pack_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS)
tests_unit_model_test_part_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_model_test_part_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS)
tests_unit_model_test_prove_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_model_test_prove_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS)
tests_unit_model_test_reads_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_model_test_reads_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS) -lpthread
tests_unit_model_test_run_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_model_test_run_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS)
tests_unit_model_test_slots_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_model_test_slots_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS)
tests_unit_model_test_turn_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_model_test_turn_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS)
tests_unit_model_test_undo_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_model_test_undo_LDADD = $(ZF_MODEL) $(CMOCKA_LIBS)
endif

check_PROGRAMS += tests/unit/model/cast_tool
tests_unit_model_cast_tool_LDADD = $(ZF_MODEL)
TESTS += tests/unit/model/test_cast.py
dist_check_SCRIPTS += tests/unit/model/test_cast.py
