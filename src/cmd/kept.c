/* SPDX-License-Identifier: Apache-2.0 */
#include "kept.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <config.h>

#include <zf/base/clock.h>
#include <zf/base/out.h>

#include "opening.h"
#include "where.h"

/* A model that was read faster than this is not cached: reading it again costs no more. */
#define KEPT_WORTH_NS 50000000

char *kept_home(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *out = NULL;
    int n = -1;

    /* A relative path is to be ignored (XDG Base Directory Specification 0.8). */
    if (cache && cache[0] == '/')
        n = asprintf(&out, "%s/zerofs/models", cache);
    else if (home && home[0] == '/')
        n = asprintf(&out, "%s/.cache/zerofs/models", home);
    return n < 0 ? NULL : out;
}

/* ---- the key: all that a model depends on, except the files of the checkpoint ------------------- */

static void kept_line(struct zf_out *key, const char *name, const char *value)
{
    zf_out_fmt(key, "%s=%s\n", name, value ? value : "");
}

static void kept_stat(struct zf_out *key, const char *name, const char *path)
{
    struct stat st = {0};
    char text[200];

    if (stat(path, &st) != 0)
        st.st_size = -1;
    (void)snprintf(text, sizeof text, "%lld %lld.%09ld %lld.%09ld", (long long)st.st_size,
                   (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec,
                   st.st_ctim.tv_nsec);
    kept_line(key, name, text);
}

static bool kept_key(struct zf_out *key, const char *path, const struct opts *o)
{
    const bool far = where_is_remote(path);
    zf_auto(mem) char *real = far ? strdup(path) : realpath(path, NULL);
    uint8_t options[32];
    struct zf_err err;

    if (!real || !opts_digest(o, OPTS_MODEL, options, &err))
        return false;
    for (size_t n = strlen(real); far && n && real[n - 1] == '/';)
        real[--n] = '\0';
    zf_out_fmt(key, "%s\n", real);
    kept_line(key, "program", PACKAGE_VERSION);
    kept_stat(key, "exe", "/proc/self/exe");
    if (o->current)
        kept_line(key, "tag", "the newest that is whole"); /* not among the options */
    zf_out_str(key, "options=");
    zf_out_hex(key, options, sizeof options);
    zf_out_str(key, "\n");
    return zf_out_ok(key, &err);
}

/* ---- one opening ------------------------------------------------------------------------------- */

static void kept_say(const struct opts *o, const char *what, const struct zf_err *err)
{
    char text[1024];

    if (o->verbose) {
        opening_clear();
        (void)fprintf(stderr, "zerofs: model_cache: %s%s%s\n", what, err ? ": " : "",
                      err ? zf_err_text(err, text, sizeof text) : "");
    }
}

/* True if files may come from another place the next time: an address with local_cache=. */
static bool kept_is_elsewhere(const char *path, const struct opts *o)
{
    return where_is_remote(path) && o->local_cache;
}

bool kept_begin(struct kept *k, const char *path, const struct opts *o, struct zf_err *err)
{
    const char *how = o->model_cache;
    zf_auto(mem) char *home = NULL;
    zf_auto(out) struct zf_out key = {0};

    *k = (struct kept){.always = strcmp(how, "auto") != 0};
    k->began = zf_clock_ns();
    /* Not cached: with side=, whose files this store does not track; with degraded, because what
     * could not be read may become readable without any file's date changing.  An address never has
     * credentials in it, which are refused. */
    if (strcmp(how, "off") == 0 || o->degraded || o->side || kept_is_elsewhere(path, o))
        return true;
    home = k->always ? strdup(how) : kept_home();
    if (home && kept_key(&key, path, o)) {
        k->keep = zf_keep_new(home, key.p, KEPT_MOST, &o->lim, &k->why);
        if (!k->keep)
            kept_say(o, "not used", &k->why);
    }
    /* A problem of a directory that the user named is an error; with the default one the save is just read. */
    const bool ok = k->keep || !k->always || k->why.code != ZF_E_USAGE;
    *err = ok ? *err : k->why;
    return ok;
}

bool kept_has(struct kept *k)
{
    return k->keep &&
           (zf_keep_has(k->keep) || zf_fail(&k->why, ZF_E_NOENT, ZF_OFF_NONE, "there is none"));
}

struct zf_checkpoint *kept_load(struct kept *k, struct zf_store *st)
{
    struct zf_checkpoint *c = zf_keep_load(k->keep, st, &k->why);

    k->why.code = c ? ZF_OK : k->why.code;
    return c;
}

static bool kept_worth(const struct kept *k)
{
    return k->always || zf_clock_ns() - k->began > KEPT_WORTH_NS;
}

void kept_put(struct kept *k, struct zf_store *st, struct zf_checkpoint *c, const struct opts *o)
{
    struct zf_err err;
    char text[1024];

    if (!k->keep)
        return;
    if (k->why.code != ZF_E_NOENT) {
        kept_say(o, "the cached model is unusable", &k->why);
        c->not_kept = zf_arena_fmt(c->arena, &err, "the cached model is not used: %s",
                                   zf_err_text(&k->why, text, sizeof text));
    }
    if (kept_worth(k)) {
        bool ok = zf_keep_put(k->keep, st, c, &err);

        kept_say(o, ok ? "the model is cached" : "the model is not cached", ok ? NULL : &err);
        if (!ok && err.sys) {
            opening_clear();
            (void)fprintf(stderr, "zerofs: note: the model is not cached: %s\n", strerror(err.sys));
            c->not_kept =
                zf_arena_fmt(c->arena, &err, "the model is not cached: %s", strerror(err.sys));
        }
    }
}

void kept_note(const char *path, const struct opts *o, const struct zf_checkpoint *c,
               const char *text)
{
    zf_auto(kept) struct kept k = {.keep = NULL};
    struct zf_err err;

    if ((c->kept_as[0] || c->kept_as[1]) && kept_begin(&k, path, o, &err) && k.keep &&
        !zf_keep_note(k.keep, c, text, &err))
        kept_say(o, "the note is not cached", &err);
}

void kept_end(struct kept *k)
{
    zf_keep_free(k->keep);
    k->keep = NULL;
}
