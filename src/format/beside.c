/* SPDX-License-Identifier: Apache-2.0 */
#include "beside.h"

#include <fnmatch.h>
#include <string.h>

#include "place.h"

/* Source: transformers/trainer.py (OPTIMIZER_NAME, _save_rng_state), accelerate/utils/constants.py
 * (0.20 … 1.x). */
static const struct {
    const char *pattern;
    const char *head; /* first step of its tensors' paths; NULL = the file's stem */
} known[] = {
    {"optimizer.pt", "optimizer"},
    {"optimizer.bin", "optimizer"},
    {"rng_state*.pth", NULL},
};

static bool add(struct zf_store *st, const char *path, const char *head,
                const struct zf_open_opts *o, struct zf_build *b, struct zf_err *err)
{
    struct zf_err why = {.code = ZF_OK};
    char text[800];
    zf_auto(mem) char *stem = strndup(path, strcspn(path, "."));
    zf_auto(source) struct zf_source *src = zf_store_open(st, path, &why);
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, o->lim, &why) : NULL;
    zf_auto(names) struct zf_names *names = zf_names_new(NULL, err);

    if (!names || !stem) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %s", path);
    }
    if (!t) {
        return zf_build_note(b, err, "%s beside the weights is left out: %s", path,
                             zf_err_text(&why, text, sizeof text));
    }
    struct zf_place_file f = {
        .torch = t, .path = path, .head = head ? head : stem, .extra = head == NULL};
    return zf_place_see(names, &f, o->lim, err) && zf_place_all(b, names, &f, o->lim, err);
}

bool zf_beside_add(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                   struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; e[i].kind == ZF_ENTRY_FILE && k < sizeof known / sizeof *known; k++) {
            if (fnmatch(known[k].pattern, e[i].name, FNM_PERIOD) == 0 &&
                !add(st, e[i].name, known[k].head, o, b, err)) {
                return false;
            }
        }
    }
    return true;
}
