# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
view_tests = \
	tests/unit/view/test_bulk \
	tests/unit/view/test_hf \
	tests/unit/view/test_layout \
	tests/unit/view/test_memory \
	tests/unit/view/test_nodes \
	tests/unit/view/test_shelf \
	$(NULL)
check_PROGRAMS += $(view_tests)
TESTS += $(view_tests)

noinst_HEADERS += tests/support/compares.h tests/unit/view/made.h

tests_unit_view_test_bulk_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_view_test_bulk_LDADD = $(ZF_VIEW) $(CMOCKA_LIBS) -lpthread
tests_unit_view_test_hf_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_view_test_hf_LDADD = $(ZF_VIEW) $(CMOCKA_LIBS)
tests_unit_view_test_layout_SOURCES = tests/unit/view/test_layout.c tests/support/compares.c
tests_unit_view_test_layout_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_view_test_layout_LDADD = $(ZF_VIEW) $(CMOCKA_LIBS)
tests_unit_view_test_memory_SOURCES = tests/unit/view/test_memory.c tests/support/broken_io.c tests/support/tight_arena.c
tests_unit_view_test_memory_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_view_test_memory_LDADD = $(ZF_VIEW) $(CMOCKA_LIBS) -ldl
tests_unit_view_test_nodes_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_view_test_nodes_LDADD = $(ZF_VIEW) $(CMOCKA_LIBS)
tests_unit_view_test_shelf_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_view_test_shelf_LDADD = $(ZF_VIEW) $(CMOCKA_LIBS)
endif

# Every presentation, written out and read by Python.
check_PROGRAMS += tests/unit/view/view_tool
tests_unit_view_view_tool_CPPFLAGS = $(AM_CPPFLAGS)
tests_unit_view_view_tool_LDADD = $(ZF_VIEW)
dist_check_SCRIPTS += tests/unit/view/test_presentations.py
TESTS += tests/unit/view/test_presentations.py
