# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
if HAVE_CURL
remote_tests = \
	tests/unit/remote/test_blockcache \
	tests/unit/remote/test_diskcache \
	tests/unit/remote/test_fetch \
	tests/unit/remote/test_http_loop \
	tests/unit/remote/test_noted \
	$(NULL)
check_PROGRAMS += $(remote_tests)
TESTS += $(remote_tests)

tests_unit_remote_test_blockcache_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_remote_test_blockcache_LDADD = $(ZF_REMOTE) $(CMOCKA_LIBS) -lpthread
tests_unit_remote_test_diskcache_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_remote_test_diskcache_LDADD = $(ZF_REMOTE) $(CMOCKA_LIBS) -lpthread
tests_unit_remote_test_fetch_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_remote_test_fetch_LDADD = $(ZF_REMOTE) $(CMOCKA_LIBS) -lpthread
tests_unit_remote_test_http_loop_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_remote_test_http_loop_LDADD = $(ZF_REMOTE) $(CMOCKA_LIBS) -lpthread
tests_unit_remote_test_noted_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_remote_test_noted_LDADD = $(ZF_REMOTE) $(CMOCKA_LIBS) -lpthread
# Listings, the hub's answers, the manifest, netrc

remote_listing_tests = \
	tests/unit/remote/test_listings \
	tests/unit/remote/test_names \
	tests/unit/remote/test_netrc \
	tests/unit/remote/test_settings \
	tests/unit/remote/test_url \
	$(NULL)
check_PROGRAMS += $(remote_listing_tests)
TESTS += $(remote_listing_tests)
tests_unit_remote_test_listings_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_remote_test_listings_LDADD = $(ZF_REMOTE) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_remote_test_url_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_remote_test_url_LDADD = $(ZF_REMOTE) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_remote_test_names_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_remote_test_names_LDADD = $(ZF_REMOTE) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_remote_test_netrc_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_remote_test_netrc_LDADD = $(ZF_REMOTE) $(CMOCKA_LIBS)
tests_unit_remote_test_settings_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_remote_test_settings_LDADD = $(ZF_REMOTE) $(CMOCKA_LIBS)
endif
endif
