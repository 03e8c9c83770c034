/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries loaded lazily (zf/base/library.h): libcurl with the first URL, GnuTLS with the first key of a service account.
 * They depend on two dozen other libraries (TLS, Kerberos, LDAP …); linked normally, they would cost every command 7 ms and
 * 4 MiB, though most commands use no URL.  Files that include this header call libcurl's functions by their usual names. */
#ifndef REMOTE_LIBRARIES_H
#define REMOTE_LIBRARIES_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* libcurl's type checks are macros with the names of its functions, which would collide with ours. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include <zf/base/err.h>

#define CURL_FUNCTIONS(X)                                                                          \
    X(easy_cleanup)                                                                                \
    X(easy_getinfo)                                                                                \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_strerror)                                                                               \
    X(global_init)                                                                                 \
    X(multi_add_handle)                                                                            \
    X(multi_cleanup)                                                                               \
    X(multi_info_read)                                                                             \
    X(multi_init)                                                                                  \
    X(multi_perform)                                                                               \
    X(multi_poll)                                                                                  \
    X(multi_remove_handle)                                                                         \
    X(multi_setopt)                                                                                \
    X(multi_wakeup)                                                                                \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(version_info)

#undef curl_easy_getinfo
#undef curl_easy_setopt
#undef curl_multi_setopt

struct lib_curl {
#define X(name) __typeof__(curl_##name) *name;
    CURL_FUNCTIONS(X)
#undef X
};
/* libcurl's functions; valid after lib_curl_load. */
const struct lib_curl *lib_curl(void);

#define curl_easy_cleanup lib_curl()->easy_cleanup
#define curl_easy_getinfo lib_curl()->easy_getinfo
#define curl_easy_init lib_curl()->easy_init
#define curl_easy_setopt lib_curl()->easy_setopt
#define curl_easy_strerror lib_curl()->easy_strerror
#define curl_global_init lib_curl()->global_init
#define curl_multi_add_handle lib_curl()->multi_add_handle
#define curl_multi_cleanup lib_curl()->multi_cleanup
#define curl_multi_info_read lib_curl()->multi_info_read
#define curl_multi_init lib_curl()->multi_init
#define curl_multi_perform lib_curl()->multi_perform
#define curl_multi_poll lib_curl()->multi_poll
#define curl_multi_remove_handle lib_curl()->multi_remove_handle
#define curl_multi_setopt lib_curl()->multi_setopt
#define curl_multi_wakeup lib_curl()->multi_wakeup
#define curl_slist_append lib_curl()->slist_append
#define curl_slist_free_all lib_curl()->slist_free_all
#define curl_version_info lib_curl()->version_info

/* Loads and initialises libcurl once; it is never unloaded.  Thread: any.  Errors: ZF_E_UNSUPPORTED it cannot be loaded. */
bool lib_curl_load(struct zf_err *err) ZF_CHECKED;

#ifdef HAVE_GNUTLS
#include <gnutls/abstract.h>

#define GNUTLS_FUNCTIONS(X)                                                                        \
    X(check_version)                                                                               \
    X(privkey_deinit)                                                                              \
    X(privkey_get_pk_algorithm)                                                                    \
    X(privkey_import_x509_raw)                                                                     \
    X(privkey_init)                                                                                \
    X(privkey_sign_data2)

struct lib_gnutls {
#define X(name) __typeof__(gnutls_##name) *name;
    GNUTLS_FUNCTIONS(X)
#undef X
};
/* The same for GnuTLS. */
const struct lib_gnutls *lib_gnutls(void);
bool lib_gnutls_load(struct zf_err *err) ZF_CHECKED;
#endif

#endif
