/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/find/saves.h>

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/path.h>
#include <zf/find/match.h>

/* `latest` holds a directory name: anything longer is not one. */
enum { POINTER_MAX = 4096 };

bool zf_tags_pointer(struct zf_store *st, const char *file, char **name_out, struct zf_err *err)
{
    zf_auto(mem) char *text = NULL;
    uint64_t n = 0;

    *name_out = NULL;
    text = zf_store_slurp(st, file, POINTER_MAX, &n, err);
    if (!text) {
        return false;
    }
    if (n && text[n - 1] == '\n') {
        text[--n] = '\0';
    }
    if (n && text[n - 1] == '\r') {
        text[--n] = '\0';
    }
    if (strlen(text) != n || strpbrk(text, "\r\n") || !zf_relpath_ok(text)) {
        zf_fail(err, ZF_E_FORMAT, 0,
                "found \"%.60s\", expected the name of a directory beside this file", text);
        return zf_err_in(err, "%s", file);
    }
    *name_out = text;
    text = NULL;
    return true;
}

/* The directory of an iteration: Megatron's, or verl's where that is there instead. */
static char *iteration(struct zf_store *st, unsigned long long step)
{
    zf_auto(mem) char *verl = NULL;
    char *name;

    if (asprintf(&verl, "global_step_%llu", step) < 0) {
        verl = NULL;
        return NULL;
    }
    if (zf_store_has(st, verl, ZF_ENTRY_DIR)) {
        name = verl;
        verl = NULL;
        return name;
    }
    return asprintf(&name, "iter_%07llu", step) < 0 ? NULL : name;
}

bool zf_tags_megatron(struct zf_store *st, char **name_out, struct zf_err *err)
{
    static const char file[] = "latest_checkpointed_iteration.txt";
    zf_auto(mem) char *word = NULL;
    char *end = NULL, *name;

    *name_out = NULL;
    if (!zf_tags_pointer(st, file, &word, err)) {
        return false;
    }
    unsigned long long step = strtoull(word, &end, 10);
    if (strcmp(word, "release") != 0 && (!isdigit((unsigned char)word[0]) || *end)) {
        zf_fail(err, ZF_E_FORMAT, 0, "found \"%.60s\", expected a number or \"release\"", word);
        return zf_err_in(err, "%s", file);
    }
    if (strcmp(word, "release") == 0) {
        name = strdup(word);
    } else {
        name = iteration(st, step);
    }
    if (!name) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    *name_out = name;
    return true;
}

bool zf_tags_is_step(const char *name)
{
    static const char *const word[] = {"step", "iter", "epoch", "checkpoint", "ckpt"};
    static const char *const part[] = {"rank", "shard", "optim", "model"};

    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        if (strcasestr(name, part[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++) {
        if (strcasestr(name, word[i])) {
            return name[strcspn(name, "0123456789")] != '\0';
        }
    }
    return false;
}

/* The number of one component: 60 for "checkpoint-60", the last for "epoch=1-step=20.ckpt". */
static bool tags_number(const char *name, int64_t *step_out)
{
    const char *end = name + strlen(name), *p;

    while (end > name && !isdigit((unsigned char)end[-1])) {
        end--;
    }
    for (p = end; p > name && isdigit((unsigned char)p[-1]);) {
        p--;
    }
    if (p == end || end - p > 15) {
        return false;
    }
    *step_out = strtoll(p, NULL, 10);
    return true;
}

bool zf_tags_step(const char *path, int64_t *step_out)
{
    bool found = false;

    for (const char *end; *path; path = *end ? end + 1 : end) {
        char name[ZF_NAME_MAX + 1];
        size_t n = strcspn(path, "/");
        int64_t step;

        end = path + n;
        (void)snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : 0), path);
        if (zf_tags_is_step(name) && tags_number(name, &step)) {
            *step_out = step;
            found = true;
        }
    }
    return found;
}

/* Directories that hold a part of one save: of a rank (Megatron's legacy layout), of what OLMo's
 * local and OLMo-core's first layout keep apart, of a zarr save, of a diffusers pipeline. */
static bool tags_is_part(const char *path)
{
    static const char *const part[] = {
        "model",         "optim",         "optimizer",     "train",      "mp_rank_[0-9]*",
        "rng_state",     "*_extra_state", "unet",          "vae",        "prior",
        "text_encoder*", "transformer*",  "image_encoder", "controlnet", "safety_checker",
    };
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        if (fnmatch(part[i], name, 0) == 0) {
            return true;
        }
    }
    return false;
}

bool zf_tags_are_parts(const struct zf_tags *t)
{
    size_t n = 0;

    while (n < t->n && tags_is_part(t->name[n])) {
        n++;
    }
    return n == t->n;
}

bool zf_tags_same_series(const char *a, const char *b)
{
    for (;;) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0123456789");
            b += strspn(b, "0123456789");
        } else if (*a != *b) {
            return false;
        } else if (!*a) {
            return true;
        } else {
            a++;
            b++;
        }
    }
}

static bool push(struct zf_tags *t, const char *name, struct zf_err *err)
{
    char **bigger = realloc(t->name, (t->n + 1) * sizeof *bigger);

    if (!bigger) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    t->name = bigger;
    bigger[t->n] = strdup(name);
    if (!bigger[t->n]) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    t->n++;
    return true;
}

bool zf_tags_is_twin(struct zf_store *st, const char *path)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(store) struct zf_store *sub = zf_store_sub(st, path, &ignored);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    zf_auto(mem) char *other = NULL;

    if (!sub || strcmp(zf_store_base(sub), name) == 0) {
        return false;
    }
    if (asprintf(&other, "%.*s%s", (int)(name - path), path, zf_store_base(sub)) < 0) {
        other = NULL;
        return false;
    }
    return zf_store_has(st, other, ZF_ENTRY_DIR);
}

/* How well `dir` fits a family.  Unreadable: NO.  Two families that tie: NAMES, so that opening it
 * reports the tie. */
static enum zf_fit tags_fit(struct zf_store *st, const char *dir, const struct zf_limits *lim)
{
    struct zf_open_opts o = {.lim = lim};
    struct zf_err err = {.code = ZF_OK};
    struct zf_pick pick;
    zf_auto(store) struct zf_store *sub = zf_store_sub(st, dir, &err);

    /* A parameter of a universal checkpoint is no save.  Source: deepspeed/checkpoint/constants.py
     * (0.14 … 0.18), FP32_WEIGHT_KEY. */
    if (!sub || zf_store_has(sub, "fp32.pt", ZF_ENTRY_FILE)) {
        return ZF_FIT_NO;
    }
    if (!zf_pick(sub, &o, &pick, &err)) {
        return err.code == ZF_E_FORMAT ? ZF_FIT_NAMES : ZF_FIT_NO;
    }
    return !pick.format ? ZF_FIT_NO : pick.probe.unfinished ? ZF_FIT_WEAK : pick.probe.fit;
}

/* Links beside the saves that name one of them, hidden things, and saves under the name they have
 * while they are written: "step5-tmp" (OLMo), "tmp-checkpoint-5" (transformers 4.3x),
 * "tmp_step_10" (NeMo-RL). */
static bool is_beside(const char *name)
{
    size_t n = strlen(name);

    return name[0] == '.' || strncmp(name, "latest", 6) == 0 || strncmp(name, "tmp-", 4) == 0 ||
           strncmp(name, "tmp_", 4) == 0 || (n > 4 && strcmp(name + n - 4, "-tmp") == 0) ||
           (n > 4 && strcmp(name + n - 4, ".tmp") == 0);
}

/* The directories of `dir` that fit at least so well. */
static bool collect(struct zf_store *st, const char *dir, const struct zf_limits *lim,
                    enum zf_fit least, struct zf_tags *out, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    *out = (struct zf_tags){.name = NULL};
    if (!zf_store_list(st, dir, &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        zf_auto(mem) char *path = NULL;

        if (e[i].kind != ZF_ENTRY_DIR || is_beside(e[i].name)) {
            continue;
        }
        if (asprintf(&path, "%s%s%s", dir, *dir ? "/" : "", e[i].name) < 0) {
            path = NULL;
            zf_tags_free(out);
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        }
        enum zf_fit fit = zf_tags_is_twin(st, path) ? ZF_FIT_NO : tags_fit(st, path, lim);
        out->weak += fit == ZF_FIT_WEAK;
        if (fit >= least && !push(out, path, err)) {
            zf_tags_free(out);
            return false;
        }
    }
    out->latest = out->n;
    return true;
}

bool zf_tags_dirs(struct zf_store *st, struct zf_tags *out, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    *out = (struct zf_tags){.name = NULL};
    if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (e[i].kind == ZF_ENTRY_DIR && !is_beside(e[i].name) && zf_tags_is_step(e[i].name) &&
            !zf_tags_is_twin(st, e[i].name) && !push(out, e[i].name, err)) {
            zf_tags_free(out);
            return false;
        }
    }
    return true;
}

bool zf_tags_below(struct zf_store *st, const char *dir, const struct zf_limits *lim,
                   struct zf_tags *out, struct zf_err *err)
{
    if (!collect(st, dir, lim, ZF_FIT_NAMES, out, err)) {
        return false;
    }
    if (out->n || !out->weak) {
        return true;
    }
    zf_tags_free(out);
    bool ok = collect(st, dir, lim, ZF_FIT_WEAK, out, err);
    out->weak = 0;
    return ok;
}

/* Whoever made it meant one save, and nothing says which. */
static bool no_pointer(struct zf_store *st, const char *file, struct zf_err *err)
{
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "this is %s, not a file that names the latest save (choose one with -o tag=NAME)",
            zf_store_what(st, file));
    return zf_err_in(err, "%s", file);
}

bool zf_tags_latest(struct zf_store *st, char **name_out, struct zf_err *err)
{
    static const char *const file[] = {"latest", "latest_universal"};

    *name_out = NULL;
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++) {
        if (zf_store_has(st, file[i], ZF_ENTRY_FILE)) {
            return zf_tags_pointer(st, file[i], name_out, err);
        }
        if (i > 0 && zf_store_has(st, file[i], ZF_ENTRY_OTHER)) {
            return no_pointer(st, file[i], err);
        }
    }
    if (zf_store_has(st, "latest_checkpointed_iteration.txt", ZF_ENTRY_FILE)) {
        return zf_tags_megatron(st, name_out, err);
    }
    if (zf_store_has(st, "latest_checkpointed_iteration.txt", ZF_ENTRY_OTHER)) {
        return no_pointer(st, "latest_checkpointed_iteration.txt", err);
    }
    /* A link or a directory; one that cannot be used is the caller's to refuse. */
    if (zf_store_has(st, "latest", ZF_ENTRY_DIR) || zf_store_has(st, "latest", ZF_ENTRY_OTHER)) {
        *name_out = strdup("latest");
        return *name_out || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    return true;
}

bool zf_tags_list(struct zf_store *st, const struct zf_limits *lim, struct zf_tags *out,
                  struct zf_err *err)
{
    zf_auto(mem) char *latest = NULL;

    if (!zf_tags_below(st, "", lim, out, err)) {
        return false;
    }
    struct zf_err why = {.code = ZF_OK};
    if (!zf_tags_latest(st, &latest, &why) || !latest) {
        return true;
    }
    zf_auto(store) struct zf_store *sub = zf_store_sub(st, latest, &why);
    const char *base = sub ? zf_store_base(sub) : latest;
    for (size_t i = 0; i < out->n; i++) {
        if (strcmp(out->name[i], latest) == 0 || strcmp(out->name[i], base) == 0) {
            out->latest = i;
        }
    }
    return true;
}

void zf_tags_free(struct zf_tags *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->name[i]);
    }
    free(t->name);
    *t = (struct zf_tags){.name = NULL};
}
