/* SPDX-License-Identifier: Apache-2.0 */
/* The listing of one directory of a bucket: the pages of ListObjectsV2 with delimiter "/", in their order.  The server's
 * answers are checked against the request: every key below the prefix, no name that a path cannot have, no file and
 * directory of one name, no page that leads nowhere.
 *
 * Source: "ListObjectsV2" of the S3 API reference; botocore/handlers.py, decode_list_object_v2 (1.43):
 * with encoding-type=url keys, prefixes and the delimiter are encoded as in forms ('+' is a space),
 * but only where the reply says so. */
#include "listings.h"

#include <stdlib.h>

#include <zf/base/hash.h>
#include <zf/base/num.h>

#include "timestamp.h"
#include "url.h"
#include "xml.h"

#define S3_LIST_IDLE 100 /* pages in a row without a new name: S3 may send a few, ListObjectsV2 */

struct list_token {
    UT_hash_handle hh; /* key: the token */
};

struct list_page {
    struct s3_list *l;
    bool encoded, v2, root;
    struct zf_out key, etag, version;
    uint64_t size;
    bool have_size;
    time_t mtime; /* the HTTP header that it is compared with has no fractions */
};

static inline void zf_auto_list_page(struct list_page *p)
{
    zf_auto_out(&p->key);
    zf_auto_out(&p->etag);
    zf_auto_out(&p->version);
}

static bool list_is(const struct xml_event *e, const char *path)
{
    return !e->open && strcmp(e->path, path) == 0;
}

/* Elements in front of the first key: the encoding and the continuation token. */
static bool list_head(void *ctx, const struct xml_event *e, struct zf_err *err)
{
    struct list_page *p = ctx;

    if (!p->root && e->open) {
        p->root = true;
        if (strcmp(e->path, "ListBucketResult") != 0) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "found <%s>, expected <ListBucketResult>: this is not a listing of an "
                           "object store",
                           e->path);
        }
    } else if (list_is(e, "ListBucketResult/EncodingType")) {
        p->encoded = strcmp(e->text, "url") == 0;
    } else if (list_is(e, "ListBucketResult/IsTruncated")) {
        p->l->more = strcmp(e->text, "true") == 0;
    } else if (list_is(e, "ListBucketResult/NextContinuationToken")) {
        zf_out_cut(&p->l->token, 0);
        zf_out_add(&p->l->token, e->text, e->n);
        p->v2 = e->n > 0;
    }
    return true;
}

static bool list_key(struct list_page *p, const struct xml_event *e, struct zf_err *err)
{
    zf_out_cut(&p->key, 0);
    if (!p->encoded) {
        zf_out_add(&p->key, e->text, e->n);
    } else if (!url_decode(&p->key, e->text, e->n, true)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the listing names a key without the encoding that it declares: %.100s",
                       e->text);
    }
    return zf_out_ok(&p->key, err);
}

/* The rest of the key below the prefix; NULL: it is no file of this directory, which is said where it
 * is a fault. */
static const char *list_name(struct list_page *p, bool dir, bool *bad, struct zf_err *err)
{
    const char *key = zf_out_text(&p->key);
    size_t n = strlen(p->l->prefix);

    *bad = true;
    if (strncmp(key, p->l->prefix, n) != 0) {
        return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "the listing of \"%.100s\" names \"%.100s\", which is not below it",
                               p->l->prefix, key));
    }
    char *name = p->key.p ? p->key.p + n : NULL;
    if (dir && p->key.n > n && key[p->key.n - 1] == '/')
        zf_out_cut(&p->key, p->key.n - 1);
    /* The directory's own marker, and keys with two slashes in a row, which no path can name. */
    if (p->key.n == n) {
        p->l->marker = p->l->marker || !dir;
        *bad = false;
        return NULL;
    }
    if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return zf_null(
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "the listing names \"%.200s\", which cannot be the name of a file in a "
                    "directory. Remove that object, or point at a directory below",
                    key));
    }
    return name;
}

static bool list_add(struct list_page *p, bool dir, struct zf_err *err)
{
    bool bad;
    struct entry e = {.name = list_name(p, dir, &bad, err), .dir = dir};

    if (!e.name)
        return !bad;
    if (!dir && !p->have_size) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the listing does not give the size of %.200s", e.name);
    }
    if (!dir) {
        e.sized = true;
        e.size = p->size;
        e.mtime = p->mtime;
        e.etag = zf_out_text(&p->etag);
        e.version = zf_out_text(&p->version);
    }
    return zf_out_ok(&p->etag, err) && zf_out_ok(&p->version, err) &&
           entries_add(p->l->out, &e, p->key.n - strlen(p->l->prefix), err);
}

static bool list_size(struct list_page *p, const char *text, struct zf_err *err)
{
    uint64_t v = 0;
    size_t i = 0;

    for (; text[i] >= '0' && text[i] <= '9'; i++)
        if (!zf_mul_add(v, 10, (uint64_t)(text[i] - '0'), &v))
            break;
    p->size = v;
    p->have_size = i > 0 && !text[i] && v <= INT64_MAX;
    return p->have_size ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the listing has \"%.40s\" as a size, which is not a size", text);
}

static bool list_entry(void *ctx, const struct xml_event *e, struct zf_err *err)
{
    struct list_page *p = ctx;
    struct timespec t;

    if (e->open && strcmp(e->path, "ListBucketResult/Contents") == 0) {
        zf_out_cut(&p->key, 0);
        zf_out_cut(&p->etag, 0);
        zf_out_cut(&p->version, 0);
        p->have_size = false;
        p->mtime = 0;
    } else if (list_is(e, "ListBucketResult/Contents/Key") ||
               list_is(e, "ListBucketResult/CommonPrefixes/Prefix")) {
        return list_key(p, e, err) && (!strstr(e->path, "/Prefix") || list_add(p, true, err));
    } else if (list_is(e, "ListBucketResult/Contents/Size")) {
        return list_size(p, e->text, err);
    } else if (list_is(e, "ListBucketResult/Contents/ETag")) {
        zf_out_add(&p->etag, e->text, e->n);
    } else if (list_is(e, "ListBucketResult/Contents/Generation")) {
        zf_out_add(&p->version, e->text, e->n);
    } else if (list_is(e, "ListBucketResult/Contents/LastModified")) {
        p->mtime = timestamp_iso(e->text, &t) ? t.tv_sec : 0;
    } else if (list_is(e, "ListBucketResult/Contents")) {
        return list_add(p, false, err);
    }
    return true;
}

/* Does the listing get anywhere? */
static bool list_goes_on(struct list_page *p, bool fresh, struct zf_err *err)
{
    struct s3_list *l = p->l;

    l->idle = fresh ? 0 : l->idle + 1;
    if (!l->more)
        return true;
    if (!p->v2) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the server's listing continues, but without a NextContinuationToken: it "
                       "does not support ListObjectsV2");
    }
    const char *token = zf_out_text(&l->token);
    if (zf_table_find(l->tokens, token, l->token.n) || l->idle > S3_LIST_IDLE) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the server's listing is endless: after %zu names it %s", l->out->n,
                       l->idle > S3_LIST_IDLE ? "brings nothing new"
                                              : "leads back to an earlier page");
    }
    return zf_table_make(l->tokens, token, l->token.n, err) != NULL;
}

bool s3_list_page(struct s3_list *l, const void *p, size_t n, struct zf_err *err)
{
    zf_auto(list_page) struct list_page page = {.l = l};

    const size_t was = l->out->n;

    l->more = false;
    return xml_walk(p, n, list_head, &page, err) && xml_walk(p, n, list_entry, &page, err) &&
           zf_out_ok(&l->token, err) && list_goes_on(&page, l->out->n > was, err);
}

void s3_list_fini(struct s3_list *l)
{
    zf_auto_out(&l->token);
    zf_table_free(l->tokens);
}
