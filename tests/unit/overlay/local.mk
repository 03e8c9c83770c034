# SPDX-License-Identifier: Apache-2.0
# Trees over trees have tests in tests/cli and tests/mount; here is what needs no mount.
if HAVE_CMOCKA
overlay_tests = \
	tests/unit/overlay/test_log \
	tests/unit/overlay/test_lost \
	tests/unit/overlay/test_save \
	$(NULL)
check_PROGRAMS += $(overlay_tests)
TESTS += $(overlay_tests)

tests_unit_overlay_test_log_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_overlay_test_log_LDADD = libzf-overlay.la $(ZF_VIEW) $(CMOCKA_LIBS)
tests_unit_overlay_test_lost_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_overlay_test_lost_LDADD = libzf-overlay.la $(ZF_VIEW) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_overlay_test_save_SOURCES = tests/unit/overlay/test_save.c tests/support/broken_io.c
tests_unit_overlay_test_save_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_overlay_test_save_LDADD = libzf-overlay.la libzf-view.la $(ZF_FORMAT) $(JANSSON_LIBS) $(CMOCKA_LIBS) -ldl
endif
