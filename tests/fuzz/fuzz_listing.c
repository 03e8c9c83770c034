/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are read as everything that a web server or the hub may send: a listing in HTML and JSON, a page of the
 * hub, a manifest, a Link header.  What is listed are names of one component, each once. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "src/remote/listings.h"
#include "src/remote/index_file.h"

static void check(const struct entries *e)
{
    for (size_t i = 0; i < e->n; i++) {
        const char *name = e->at[i].name;

        if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            entries_find(e, name) != &e->at[i])
            abort();
    }
}

static void listings(const char *p, size_t n, const struct zf_limits *lim)
{
    static const char *const type[] = {"text/html", "application/json", NULL};

    for (size_t i = 0; i < 4; i++) {
        zf_auto(entries) struct entries e = {.text = NULL};
        struct zf_err err = {.code = ZF_OK};
        bool ok = entries_init(&e, lim, &err) &&
                  (i < 3 ? autoindex_read(p, n, type[i], "http://host/dir/", lim, &e, &err)
                         : hub_tree_page(p, n, "dir", lim, &e, &err));

        if (!ok && err.code == ZF_OK)
            abort();
        check(&e);
    }
}

static void manifest(const char *p, size_t n, const struct zf_limits *lim)
{
    zf_auto(index_file) struct index_file f = {.text = NULL};
    zf_auto(entries) struct entries e = {.text = NULL};
    struct zf_err err = {.code = ZF_OK};

    if (index_file_read(p, n, lim, &f, &err) && entries_init(&e, lim, &err) &&
        index_file_list(&f, "", &e, &err))
        check(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    zf_auto(out) struct zf_out url = {.p = NULL};
    zf_auto(mem) char *text = malloc(size + 1);
    char commit[41];

    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    lim.dir_entries = 1000;
    listings((const char *)data, size, &lim);
    manifest((const char *)data, size, &lim);
    (void)hub_next(text, &url);
    (void)!hub_commit((const char *)data, size, &lim, commit, &err);
    return 0;
}
