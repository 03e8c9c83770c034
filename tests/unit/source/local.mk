# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
source_tests = \
	tests/unit/source/test_beneath \
	tests/unit/source/test_cache \
	tests/unit/source/test_facts \
	tests/unit/source/test_clone \
	tests/unit/source/test_file \
	tests/unit/source/test_inflate \
	tests/unit/source/test_items \
	tests/unit/source/test_kept \
	tests/unit/source/test_later \
	tests/unit/source/test_lead \
	tests/unit/source/test_look \
	tests/unit/source/test_made \
	tests/unit/source/test_source \
	tests/unit/source/test_store \
	tests/unit/source/test_store_threads \
	tests/unit/source/test_want \
	$(NULL)
if HAVE_ZSTD
source_tests += tests/unit/source/test_zstd
endif
check_PROGRAMS += $(source_tests)
TESTS += $(source_tests)

noinst_HEADERS += tests/unit/source/scratch.h

tests_unit_source_test_beneath_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_source_test_beneath_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS)
tests_unit_source_test_cache_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_source_test_cache_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS)
tests_unit_source_test_facts_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_facts_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS)
tests_unit_source_test_clone_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_clone_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS)
tests_unit_source_test_file_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_file_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS) -lpthread -ldl
tests_unit_source_test_inflate_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_inflate_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS) -lpthread $(ZLIB_LIBS)
tests_unit_source_test_items_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_items_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS) -lpthread
tests_unit_source_test_kept_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_kept_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS)
tests_unit_source_test_later_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_later_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS) -lpthread
tests_unit_source_test_lead_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_source_test_lead_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS) -lpthread
tests_unit_source_test_look_SOURCES = tests/unit/source/test_look.c tests/support/compares.c
tests_unit_source_test_look_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_look_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS) -lpthread
tests_unit_source_test_made_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_made_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS)
tests_unit_source_test_source_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_source_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS)
tests_unit_source_test_store_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_store_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS)
tests_unit_source_test_store_threads_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_source_test_store_threads_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS) -lpthread
tests_unit_source_test_want_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_source_test_want_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS) -lpthread
tests_unit_source_test_zstd_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_source_test_zstd_LDADD = $(ZF_SOURCE) $(CMOCKA_LIBS) $(ZSTD_LIBS)
endif
