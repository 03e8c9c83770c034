/* SPDX-License-Identifier: Apache-2.0 */
/* A line of sha256sum(1) has 64 digits, a blank, a blank or '*', and a name; in a line that starts with '\', "\\" and
 * "\n" in the name mean a backslash and a newline. */
#include "sums.h"

#include <ctype.h>
#include <inttypes.h>
#include <nettle/sha2.h>

#include <zf/base/ahead.h>
#include <zf/base/hex.h>
#include <zf/base/path.h>
#include <zf/base/search.h>
#include <zf/codec/json.h>
#include <zf/each.h>

#define INTEGRITY "integrity.json"
#define DIGITS ((size_t)ZF_SHA256_HEX - 1)
#define CHUNK ((size_t)1 << 20)

/* ---- recorded sums ----------------------------------------------------------------------------- */

static bool sums_is_digest(const char *p)
{
    for (size_t i = 0; i < DIGITS; i++)
        if (!isxdigit((unsigned char)p[i]))
            return false;
    return true;
}

/* Adds a line; takes ownership of name.  want: DIGITS digits. */
static struct sums_line *sums_add(struct sums *s, char *name, const char *by, const char *want,
                                  struct zf_err *err)
{
    struct sums_line *to = name ? zf_vec_push(&s->line, err) : NULL;

    if (!to) {
        free(name);
        (void)(name || zf_fail_sys(err, "read sums"));
        return NULL;
    }
    to->at = s->line.n - 1;
    to->name = name;
    to->by = by;
    for (size_t i = 0; i < DIGITS; i++)
        to->want[i] = (char)tolower((unsigned char)want[i]);
    return to;
}

/* The name in p[n], unescaped; "" if it is invalid.  NULL: out of memory. */
static char *sums_name(const char *p, size_t n, bool escaped)
{
    zf_auto(mem) char *plain = calloc(1, n + 1);
    size_t k = 0;

    for (size_t i = 0; plain && i < n; i++) {
        const bool turn = escaped && p[i] == '\\' && i + 1 < n;

        i += turn ? 1 : 0;
        plain[k++] = turn && p[i] == 'n' ? '\n' : p[i];
    }
    if (!plain || plain[0] == '/' || strlen(plain) != k)
        return plain ? strdup("") : NULL;
    return zf_each_normal(plain);
}

static bool sums_load_line(struct sums *s, const struct verify *v, const char *p, size_t n,
                           uint64_t number, struct zf_err *err)
{
    const bool escaped = n > 0 && p[0] == '\\';
    const char *digits = p + escaped;
    const bool good = n > DIGITS + 2 + escaped && sums_is_digest(digits) && digits[DIGITS] == ' ' &&
                      strchr(" *", digits[DIGITS + 1]);
    const size_t lead = DIGITS + 2 + escaped;
    char *name = good ? sums_name(p + lead, n - lead, escaped) : NULL;

    if (!good) {
        (void)zf_fail(
            err, ZF_E_USAGE, ZF_OFF_NONE,
            "line %" PRIu64
            " is not written by sha256sum, expected 64 hexadecimal digits, two spaces and a name",
            number);
        return zf_err_in(err, "%s", v->o->list_name);
    }
    if (name && !zf_relpath_ok(name)) {
        free(name);
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "line %" PRIu64 " names a file outside of the checkpoint: %.*s", number,
                      (int)(n - lead), p + lead);
        return zf_err_in(err, "%s", v->o->list_name);
    }
    return sums_add(s, name, v->o->list_name, digits, err) != NULL;
}

static bool sums_load_list(struct sums *s, const struct verify *v, struct zf_err *err)
{
    uint64_t number = 1;

    for (const char *p = v->o->list; p && *p; number++) {
        const char *end = strchrnul(p, '\n');
        const size_t n = (size_t)(end - p), cut = n > 0 && end[-1] == '\r' ? 1 : 0;

        if (n > cut && !sums_load_line(s, v, p, n - cut, number, err))
            return false;
        p = *end ? end + 1 : end;
    }
    return true;
}

/* Loads integrity.json; a damaged one was reported when the checkpoint was opened. */
static bool sums_load_integrity(struct sums *s, const struct verify *v, struct zf_err *err)
{
    const struct zf_blob *blob = zf_checkpoint_blob(v->c, "state/" INTEGRITY);
    const uint64_t n = blob ? zf_map_size(blob->data) : 0;
    struct zf_err ignored;
    const char *name;
    json_t *sum;

    if (n == 0 || n > v->o->lim->json_bytes)
        return true;
    zf_auto(mem) char *text = calloc(1, (size_t)n + 1);
    if (!text)
        return zf_fail_sys(err, "read sums");
    zf_auto(json) json_t *j = zf_map_read(blob->data, text, (size_t)n, 0, &ignored)
                                  ? zf_json_load(text, n, v->o->lim, &ignored)
                                  : NULL;
    json_t *files = json_object_get(j, "files");
    const char *algorithm = json_string_value(json_object_get(j, "algorithm"));

    json_object_foreach(algorithm && strcmp(algorithm, "sha256") == 0 ? files : NULL, name, sum)
    {
        const char *want = json_string_value(sum);

        if (want && strlen(want) == DIGITS && sums_is_digest(want) && zf_relpath_ok(name) &&
            !sums_add(s, strdup(name), INTEGRITY, want, err))
            return false;
    }
    return true;
}

/* ---- the files they belong to ------------------------------------------------------------------ */

/* The directory of the first shard within the store, or, if no shard is known, that of the save that a run directory
 * names; "" = the store's root. */
static char *sums_shard_dir(const struct verify *v)
{
    if (v->places.file.n == 0 && *v->c->tag && zf_store_has(v->c->store, v->c->tag, ZF_ENTRY_DIR))
        return strdup(v->c->tag);
    const char *name = v->places.file.n ? v->places.file.at[0].src->name : "",
               *root = zf_store_name(v->c->store);
    const size_t n = strlen(root);
    const char *inner = strncmp(name, root, n) == 0 && name[n] == '/' ? name + n + 1 : "",
               *slash = strrchr(inner, '/');

    return strndup(inner, slash ? (size_t)(slash - inner) : 0);
}

static bool sums_find_file(struct sums_line *l, const struct verify *v, const char *dir,
                           struct zf_err *err)
{
    zf_auto(mem) char *below = zf_relpath_join(dir, l->name, err);
    struct zf_err ignored;

    if (!below)
        return false;
    const char *path = zf_store_has(v->c->store, below, ZF_ENTRY_FILE) ? below : l->name;
    if (zf_store_has(v->c->store, path, ZF_ENTRY_FILE))
        l->src = zf_store_open(v->c->store, path, &ignored);
    return true;
}

static int sums_by_line(const void *a, const void *b)
{
    const struct sums_line *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

static int sums_by_source(const void *a, const void *b)
{
    const struct sums_line *x = a, *y = b;

    return ((uintptr_t)x->src > (uintptr_t)y->src) - ((uintptr_t)x->src < (uintptr_t)y->src);
}

bool sums_init(struct sums *s, struct verify *v, struct zf_err *err)
{
    zf_auto(mem) char *dir = sums_shard_dir(v);

    *s = (struct sums){.line = {0}};
    if (!dir)
        return zf_fail_sys(err, "read sums");
    if (!sums_load_list(s, v, err) || !sums_load_integrity(s, v, err))
        return false;
    for (size_t i = 0; i < s->line.n; i++)
        if (!sums_find_file(&s->line.at[i], v, dir, err))
            return false;
    if (s->line.n > 0)
        qsort(s->line.at, s->line.n, sizeof *s->line.at, sums_by_source);
    return true;
}

void sums_fini(struct sums *s)
{
    for (size_t i = 0; i < s->line.n; i++) {
        free(s->line.at[i].name);
        zf_source_unref(&s->line.at[i].src);
    }
    zf_vec_fini(&s->line);
}

/* Index of the file's first line; the number of lines if it has none. */
static size_t sums_first(const struct sums *s, const struct zf_source *file)
{
    size_t i;

    ZF_SEARCH(i, s->line.n, (uintptr_t)s->line.at[i].src >= (uintptr_t)file);
    return i < s->line.n && s->line.at[i].src == file ? i : s->line.n;
}

bool sums_want(const struct sums *s, const struct zf_source *file)
{
    return sums_first(s, file) < s->line.n;
}

void sums_set(struct sums *s, const struct zf_source *file, const char is[ZF_SHA256_HEX])
{
    for (size_t i = sums_first(s, file); i < s->line.n && s->line.at[i].src == file; i++)
        memcpy(s->line.at[i].is, is, ZF_SHA256_HEX);
}

/* ---- actual sums ------------------------------------------------------------------------------- */

/* Computes the sum of a file of the tree; "" if it cannot be read, for the reason *why. */
static bool sums_of_tree(struct zf_tree *t, const struct zf_stat *st, char out[ZF_SHA256_HEX],
                         struct zf_err *why)
{
    struct zf_through w = {.tree = t, .ino = st->ino, .size = st->size};
    zf_auto(mem) uint8_t *buf = malloc(CHUNK);
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx ctx;
    size_t n = 0;

    out[0] = '\0';
    if (!buf)
        return zf_fail_sys(why, "read a file of the tree");
    sha256_init(&ctx);
    for (uint64_t at = 0; at < st->size; at += n) {
        if (!zf_through_read(&w, buf, CHUNK, at, &n, why))
            return false;
        if (n == 0)
            return zf_fail(why, ZF_E_STALE, at, "the file ends here");
        sha256_update(&ctx, n, buf);
    }
    sha256_digest(&ctx, sizeof digest, digest);
    zf_hex(out, digest, sizeof digest);
    return true;
}

struct sums_tree {
    struct sums *s;
    struct zf_tree *tree;
};

/* What was found for a line without a matching file in the checkpoint. */
struct sums_seen {
    bool there;
    char is[ZF_SHA256_HEX];
    struct zf_err why; /* why it cannot be read; code ZF_OK: it was read */
};

static bool sums_fits(const struct sums_line *l)
{
    return strcmp(l->is, l->want) == 0;
}

static void *sums_make(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct sums_tree *t = ctx;
    const struct sums_line *l = &t->s->line.at[i];
    struct sums_seen *seen = calloc(1, sizeof *seen);
    struct zf_stat st;

    if (!seen) {
        (void)zf_fail_sys(err, "read sums");
        return NULL;
    }
    zf_err_clear(&seen->why);
    seen->there =
        !sums_fits(l) && t->tree && zf_tree_walk(t->tree, l->name, &st) && st.kind == ZF_NODE_FILE;
    if (seen->there && !sums_of_tree(t->tree, &st, seen->is, &seen->why) && seen->why.code == ZF_OK)
        (void)zf_fail(&seen->why, ZF_E_IO, ZF_OFF_NONE, "it cannot be read");
    return seen;
}

static bool sums_report_line(const struct sums_line *l, const struct sums_seen *seen,
                             struct verify *v, struct zf_err *err)
{
    struct verify_about about = {
        .kind = ZF_FOUND_SUM, .weight = ZF_WEIGHT_DAMAGE, .file = l->src ? l->src->name : l->name};
    const char *is = l->is[0] ? l->is : seen->is;

    if (sums_fits(l) || (seen->there && strcmp(seen->is, l->want) == 0))
        return true;
    if (is[0]) {
        /* Any byte of the file may be wrong, and so any tensor that has data in it. */
        return (!l->src || places_tensors(&v->places, l->src, 0, l->src->size, &v->hit, err)) &&
               verify_found(v, &about, err, "its SHA-256 is %.16s…, %s has %.16s…", is, l->by,
                            l->want);
    }
    if (seen->why.code != ZF_OK) {
        about.weight = verify_weight(&seen->why);
        return verify_found(v, &about, err, "%s", seen->why.msg);
    }
    if (l->src)
        return true; /* the failed read was reported */
    return verify_found(v, &about, err, "the file is missing, but %s lists its SHA-256", l->by);
}

bool sums_report(struct sums *s, struct verify *v, struct zf_err *err)
{
    struct sums_tree t = {.s = s, .tree = v->o->tree};
    const struct zf_ahead_work work = {
        .make = sums_make, .drop = free, .ctx = &t, .few = v->o->jobs, .most = v->o->jobs};

    if (s->line.n > 0)
        qsort(s->line.at, s->line.n, sizeof *s->line.at, sums_by_line);
    zf_auto(ahead) struct zf_ahead *ahead = zf_ahead_new(work, s->line.n, err);

    for (size_t i = 0; ahead && i < s->line.n; i++) {
        zf_auto(mem) struct sums_seen *seen = zf_ahead_take(ahead, err);

        if (!seen || !sums_report_line(&s->line.at[i], seen, v, err))
            return false;
    }
    return ahead != NULL;
}
