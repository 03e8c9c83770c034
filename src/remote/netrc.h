/* SPDX-License-Identifier: Apache-2.0 */
/* ~/.netrc, the file of user names and passwords by host.  Sources: ftp(1) and curl's lib/netrc.c
 * (7.88): `machine HOST login USER password SECRET`, words between blanks or newlines, in quotes where
 * they hold blanks (\" \\ \n \r \t inside), `default` for all other hosts, `macdef` up to an empty
 * line; what is not known is passed over. */
#ifndef REMOTE_NETRC_H
#define REMOTE_NETRC_H

#include <zf/base/out.h>

struct netrc_login {
    struct zf_out user, password; /* texts, "" where the file says none */
};
void netrc_fini(struct netrc_login *l); /* the password's memory is wiped */
static inline void zf_auto_netrc(struct netrc_login *l)
{
    netrc_fini(l);
}

/* Looks up `host` (case does not matter) in text[n]: the first `machine` of that name that has a
 * password, else the first `default`.  *found_out false: nothing.  Errors: ZF_E_FORMAT a quote that is
 * not closed; ZF_E_NOMEM. */
bool netrc_find(const char *text, size_t n, const char *host, struct netrc_login *out,
                bool *found_out, struct zf_err *err) ZF_CHECKED;

#endif
