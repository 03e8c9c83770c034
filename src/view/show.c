/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which names a directory lists (-o show=). */
#include "layout.h"

#include <stdio.h>
#include <string.h>

#define PRESENTATIONS (ZF_SHOW_RAW | ZF_SHOW_NPY | ZF_SHOW_SAFETENSORS | ZF_SHOW_BIN | ZF_SHOW_HF)

static const struct show_word {
    const char *name;
    uint32_t bits;
} words[] = {
    {"raw", ZF_SHOW_RAW},         {"npy", ZF_SHOW_NPY},       {"safetensors", ZF_SHOW_SAFETENSORS},
    {"bin", ZF_SHOW_BIN},         {"hf", ZF_SHOW_HF},         {"as", ZF_SHOW_AS},
    {"optim", ZF_SHOW_OPTIM},     {"stored", ZF_SHOW_STORED}, {"state", ZF_SHOW_STATE},
    {"extra", ZF_SHOW_EXTRA},     {"all", ZF_SHOW_ALL},       {"auto", ZF_SHOW_AUTO},
    {"trained", ZF_SHOW_TRAINED},
};

static uint32_t show_word_bits(const char *p, size_t n)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i].name) == n && memcmp(words[i].name, p, n) == 0)
            return words[i].bits;
    return 0;
}

bool zf_show_word(const char *word)
{
    return show_word_bits(word, strlen(word)) != 0;
}

bool zf_show_add(uint32_t *mask, const char *list, struct zf_err *err)
{
    do {
        size_t n = strcspn(list, ",:");
        uint32_t bits = show_word_bits(list, n);

        if (!bits) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                           "show takes raw, npy, safetensors, bin, hf, as, optim, stored, trained, "
                           "state, extra, or all or auto; found \"%.*s\"",
                           (int)(n < 60 ? n : 60), list);
        }
        bool alone = bits == ZF_SHOW_ALL || bits == ZF_SHOW_AUTO;
        if (*mask && *mask != bits && (alone || *mask == ZF_SHOW_ALL || *mask == ZF_SHOW_AUTO)) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                           "show=all and show=auto cannot be combined with other words");
        }
        *mask |= bits;
        list += n;
        list += strspn(list, ",:");
    } while (*list);
    return true;
}

uint32_t show_in_set(uint32_t show, const struct zf_set *set, bool cast)
{
    if (show == ZF_SHOW_AUTO)
        return set->path[0] || cast ? ZF_SHOW_RAW : PRESENTATIONS;
    if (show == 0)
        return ZF_SHOW_ALL;
    /* If only directories were asked for, no presentation, they list the raw files. */
    return show & PRESENTATIONS ? show : show | ZF_SHOW_RAW;
}

/* The bits of the -o show= word for a directory next to the weights; 0 = none, it is always listed. */
static uint32_t show_dir_bits(const char *name)
{
    uint32_t bits = show_word_bits(name, strlen(name));

    if (strcmp(name, "stacked") == 0 || strcmp(name, "bucket") == 0)
        return ZF_SHOW_STORED;
    if (strcmp(name, "adapter") == 0)
        return ZF_SHOW_TRAINED;
    /* A directory called "all" is not special. */
    return bits == ZF_SHOW_ALL ? 0
                               : bits & (ZF_SHOW_OPTIM | ZF_SHOW_STORED | ZF_SHOW_TRAINED |
                                         ZF_SHOW_STATE | ZF_SHOW_EXTRA);
}

/* Is every tensor in the directory `name` of tree `of` ("" = the root) one of that tree's weights? */
static bool show_repeats(const struct zf_checkpoint *c, const char *of, const char *name)
{
    char path[64];
    int n = snprintf(path, sizeof path, "%s%s%s", of, *of ? "/" : "", name);
    const struct zf_set *part = n < (int)sizeof path ? zf_checkpoint_set(c, path) : NULL;
    const struct zf_set *all = zf_checkpoint_set(c, of);
    bool same = part && all;

    for (uint32_t i = 0; same && i < part->n; i++) {
        const struct zf_tensor *t = &part->tensor[i];
        const struct zf_tensor *w = zf_set_find(all, t->name, t->name_len);

        same = w && w->data == t->data;
    }
    return same;
}

/* Hides a directory if the contents of all its files are shown elsewhere; it still lists them. */
static void show_hide_told(struct nodes *ns, struct node *dir)
{
    for (uint32_t k = dir->first; k < dir->first + dir->n; k++)
        if (!ns->at[k].hidden)
            return;
    dir->hidden = true;
    for (uint32_t k = dir->first; k < dir->first + dir->n; k++)
        ns->at[k].hidden = false;
}

void show_hide_dirs(struct nodes *ns, uint32_t show, const struct zf_checkpoint *c)
{
    if (show == 0)
        return;
    for (uint32_t k = 1; k < ns->n; k++) {
        struct node *n = &ns->at[k];
        const struct node *up = &ns->at[n->parent];
        bool beside = n->parent == 0 || (up->parent == 0 && strncmp(up->name, "mp_rank_", 8) == 0);
        uint32_t bits = beside && node_is_dir(n) ? show_dir_bits(n->name) : 0;

        if (show == ZF_SHOW_AUTO) {
            n->hidden = n->hidden || (bits == ZF_SHOW_TRAINED && strcmp(n->name, "trained") == 0 &&
                                      show_repeats(c, n->parent == 0 ? "" : up->name, n->name));
            if (bits == ZF_SHOW_EXTRA && n->kind == NODE_DIR)
                show_hide_told(ns, n);
        } else {
            n->hidden = n->hidden || (bits && !(show & bits));
        }
    }
}
