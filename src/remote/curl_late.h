/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl, loaded when the first address is opened.  It brings two dozen libraries along (TLS, Kerberos,
 * LDAP …), and to be linked with them costs every command 7 ms and 4 MiB, though most never see an
 * address.  Whoever includes this calls libcurl's functions by their own names. */
#ifndef REMOTE_CURL_LATE_H
#define REMOTE_CURL_LATE_H

/* Its checks of types are macros around the functions' names. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include <zf/base/err.h>

#define CURL_LATE(X)                                                                               \
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

/* libcurl's functions, once curl_late_load found them. */
struct curl_late {
#define X(name) __typeof__(curl_##name) *name;
    CURL_LATE(X)
#undef X
};
const struct curl_late *curl_late(void);

#define curl_easy_cleanup curl_late()->easy_cleanup
#define curl_easy_getinfo curl_late()->easy_getinfo
#define curl_easy_init curl_late()->easy_init
#define curl_easy_setopt curl_late()->easy_setopt
#define curl_easy_strerror curl_late()->easy_strerror
#define curl_global_init curl_late()->global_init
#define curl_multi_add_handle curl_late()->multi_add_handle
#define curl_multi_cleanup curl_late()->multi_cleanup
#define curl_multi_info_read curl_late()->multi_info_read
#define curl_multi_init curl_late()->multi_init
#define curl_multi_perform curl_late()->multi_perform
#define curl_multi_poll curl_late()->multi_poll
#define curl_multi_remove_handle curl_late()->multi_remove_handle
#define curl_multi_setopt curl_late()->multi_setopt
#define curl_multi_wakeup curl_late()->multi_wakeup
#define curl_slist_append curl_late()->slist_append
#define curl_slist_free_all curl_late()->slist_free_all
#define curl_version_info curl_late()->version_info

/* Loads and initialises it, once; it stays.  From any thread.
 * Errors: ZF_E_UNSUPPORTED it cannot be loaded. */
bool curl_late_load(struct zf_err *err) ZF_CHECKED;

#endif
