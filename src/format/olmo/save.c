/* SPDX-License-Identifier: Apache-2.0 */
#include "save.h"

#include <zf/base/out.h>
#include <zf/codec/pvjson.h>

bool save_init(struct olmo_save *s, const struct zf_save *save, const struct zf_open_opts *o,
               struct zf_build *b, struct zf_err *err)
{
    *s = (struct olmo_save){.st = save->store, .file = save->file, .o = o, .b = b};
    s->files = (struct zf_torch_ahead){.st = save->store, .lim = o->lim};
    s->a = s->keep.arena = zf_arena_new(o->lim->model_memory, err);
    return s->a != NULL;
}

void save_fini(struct olmo_save *s)
{
    zf_torch_ahead_fini(&s->files);
    zf_keeper_fini(&s->keep);
    zf_arena_free(s->a);
}

const char *save_clean_name(struct zf_arena *a, const char *p, uint64_t n, struct zf_err *err)
{
    static const char wrapper[] = "_fsdp_wrapped_module.";
    const size_t w = sizeof wrapper - 1;
    char *out = zf_arena_str(a, p, n, err);
    uint64_t kept = 0;

    for (uint64_t i = 0; out && i < n;)
        if (n - i >= w && memcmp(p + i, wrapper, w) == 0)
            i += w;
        else
            out[kept++] = p[i++];
    if (out)
        out[kept] = '\0';
    return out;
}

bool save_value_json(struct olmo_save *s, struct zf_path path, const struct zf_pv *v,
                     struct zf_err *err)
{
    zf_auto(out) struct zf_out key = {0};
    zf_auto(mem) char *text = NULL;
    uint64_t n;

    if (!zf_path_join(&key, path, err))
        return false;
    const char *file = zf_path_encoded(s->a, "state", zf_out_text(&key), key.n, ".json", err);
    return file && zf_pv_json(v, s->o->lim, NULL, &text, &n, err) &&
           zf_build_text(s->b, file, text, n, err);
}

bool save_groups_json(struct olmo_save *s, const struct zf_pv *const *group, uint64_t n,
                      struct zf_err *err)
{
    struct zf_out out = {0};
    bool ok = true;

    zf_out_str(&out, "{\n\"param_groups\": [\n");
    for (uint64_t i = 0; ok && i < n; i++) {
        zf_auto(mem) char *text = NULL;
        uint64_t len;

        ok = zf_pv_json(group[i], s->o->lim, NULL, &text, &len, err);
        if (ok) {
            zf_out_str(&out, i ? ",\n" : "");
            zf_out_add(&out, text, len);
        }
    }
    zf_out_str(&out, "]\n}\n");
    ok = ok && zf_out_ok(&out, err) &&
         zf_build_text(s->b, "state/optim.json", zf_out_text(&out), out.n, err);
    zf_auto_out(&out);
    return ok;
}
