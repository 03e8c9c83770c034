/* SPDX-License-Identifier: Apache-2.0 */
/* Reads small JSON and YAML files of the checkpoint, each once, and finds values in them by dotted paths. */
#include "plan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/codec/yaml.h>

/* Limit for the bytes of a path, and of a name in it. */
#define MAX_PATH_BYTES 512

void said_fini(struct said *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        json_decref(s->doc[i].root);
        free(s->doc[i].path);
    }
    s->n = 0;
}

/* ---- YAML ------------------------------------------------------------------------------------- */

static json_t *said_scalar(const struct zf_yaml_scalar *v)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    const char *text = v->value;
    char *end;

    for (size_t i = 0; v->plain && i < sizeof nulls / sizeof nulls[0]; i++)
        if (strcmp(text, nulls[i]) == 0)
            return json_null();
    if (v->plain && (strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0))
        return json_boolean(tolower((unsigned char)*text) == 't');
    if (v->plain && strspn(text, "+-.0123456789eE") == v->value_len) {
        const long long i = strtoll(text, &end, 10);

        if (!*end && v->value_len < 18)
            return json_integer(i);
        const double d = strtod(text, &end);
        if (!*end)
            return json_real(d);
    }
    return zf_json_string(text, v->value_len);
}

/* Adds a scalar.  Until all is read, lists are objects whose keys are indices. */
static bool said_add_scalar(void *ctx, const struct zf_yaml_scalar *v, struct zf_err *err)
{
    json_t *at = ctx, *value = said_scalar(v);
    zf_auto(mem) char *path = strdup(v->path);
    char *key = path;

    for (char *dot; at && key && (dot = strchr(key, '.')); key = dot + 1) {
        *dot = '\0';
        json_t *in = json_object_get(at, key);
        if (!json_is_object(in)) {
            in = json_object();
            in = json_object_set_new_nocheck(at, key, in) == 0 ? in : NULL;
        }
        at = in;
    }
    if (!at || !key) {
        json_decref(value);
        value = NULL;
    }
    return (value && json_object_set_new_nocheck(at, key, value) == 0) ||
           zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for settings");
}

/* The values of an object with keys 0, 1, …, as a list; else NULL. */
static json_t *said_as_list(json_t *j)
{
    const size_t n = json_object_size(j);
    json_t *list = n > 0 ? json_array() : NULL;

    for (size_t i = 0; list && i < n; i++) {
        char key[24];

        (void)snprintf(key, sizeof key, "%zu", i);
        if (json_array_append(list, json_object_get(j, key)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* Turns such objects into lists; documents are not deeper than the limit json_depth. */
static void said_make_lists(json_t *all)
{
    const char *key;
    json_t *value;
    void *next;

    json_object_foreach_safe(all, next, key, value)
    {
        if (!json_is_object(value))
            continue;
        said_make_lists(value);
        json_t *list = said_as_list(value);
        if (list)
            (void)json_object_set_new(all, key, list);
    }
}

static json_t *said_read(struct said *s, const char *path)
{
    const struct zf_blob *b = zf_checkpoint_blob(s->c, path);
    const char *dot = strrchr(path, '.');
    struct zf_err ignored;
    const uint64_t n = b ? zf_map_size(b->data) : 0;

    if (!b)
        return NULL;
    if (n > s->lim->json_bytes) {
        (void)zf_fail_limit(&s->why, ZF_LIMIT_json_bytes, ZF_OFF_NONE,
                            "%llu bytes, more than %llu (limit json_bytes)", (unsigned long long)n,
                            (unsigned long long)s->lim->json_bytes);
        return zf_null(zf_err_in(&s->why, "%s", path));
    }
    zf_auto(mem) char *text = malloc(n + 1);
    if (!text || !zf_map_read(b->data, text, n, 0, &s->why))
        return NULL;
    text[n] = '\0';
    if (!dot || (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".yml") != 0))
        return zf_json_load(text, n, s->lim, &ignored);
    json_t *all = json_object();
    if (all && !zf_yaml_scalars(text, n, s->lim, said_add_scalar, all, &ignored)) {
        json_decref(all);
        return NULL;
    }
    said_make_lists(all);
    return all;
}

json_t *said_file(struct said *s, const char *path)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (strcmp(s->doc[i].path, path) == 0)
            return s->doc[i].root;
    if (s->n == MAX_DOCUMENTS)
        return NULL;
    struct document *d = &s->doc[s->n];

    d->path = strdup(path);
    d->root = d->path ? said_read(s, path) : NULL;
    s->n += d->path != NULL;
    return d->root;
}

/* ---- several files as one ---- */

static bool said_join(struct said *s, json_t *into, json_t *from, const char *file)
{
    const char *key;
    json_t *value;
    bool ok = json_is_object(from);

    json_object_foreach(from, key, value)
    {
        zf_auto(mem) char *name = strdup(key);

        for (char *c = name; c && (c = strchr(c, '-')); *c = '_') {
        }
        json_t *old = name ? json_object_get(into, name) : NULL;
        if (old && !json_equal(old, value) &&
            !(json_is_number(old) && json_is_number(value) &&
              json_number_value(old) == json_number_value(value))) {
            zf_auto(mem) char *a = text_json(old, 0);
            zf_auto(mem) char *b = text_json(value, 0);

            (void)snprintf(s->clash, sizeof s->clash,
                           "%.60s is %.60s in %.60s, but %.60s in another file of settings", name,
                           b ? b : "?", file, a ? a : "?");
        }
        ok = ok && name && (old || json_object_set(into, name, value) == 0);
    }
    return ok;
}

json_t *said_files(struct said *s, const char *path)
{
    const size_t n = strlen(path) - 1;
    json_t *all = NULL;

    for (uint32_t i = 0; i < s->n; i++)
        if (strcmp(s->doc[i].path, path) == 0)
            return s->doc[i].root;
    for (uint32_t i = 0; i < s->c->n_blobs; i++) {
        const char *file = s->c->blob[i].path;
        const bool is = strncmp(file, path, n) == 0;
        json_t *one = is ? said_file(s, file) : NULL;

        all = is && !all ? json_object() : all;
        if (is && (!one || !said_join(s, all, one, file))) {
            /* This file may contain the setting that the others lack. */
            (void)snprintf(s->clash, sizeof s->clash, "%.200s cannot be read as settings", file);
        }
    }
    if (s->n == MAX_DOCUMENTS || !(s->doc[s->n].path = strdup(path))) {
        json_decref(all);
        return NULL;
    }
    s->doc[s->n++].root = all;
    return all;
}

bool said_also(struct said *s, json_t *root, const char *path)
{
    json_t *one = said_file(s, path);

    return !one || said_join(s, root, one, path);
}

/* ---- paths ------------------------------------------------------------------------------------ */

/* The entry of j called key[n]; '-' matches '_'. */
static json_t *said_entry(json_t *j, const char *key, size_t n)
{
    char name[MAX_PATH_BYTES + 1];
    char *end;

    memcpy(name, key, n);
    name[n] = '\0';
    if (json_is_array(j)) {
        const unsigned long i = strtoul(name, &end, 10);

        return isdigit((unsigned char)name[0]) && !*end ? json_array_get(j, i) : NULL;
    }
    json_t *found = json_object_get(j, name);
    for (size_t i = 0; !found && i < n; i++)
        name[i] = name[i] == '_' ? '-' : name[i];
    return found ? found : json_object_get(j, name);
}

/* The value at a dotted path: at each level the longest matching name is taken. */
static json_t *said_walk(json_t *j, const char *path)
{
    while (j && *path) {
        size_t n = strlen(path);
        json_t *next = said_entry(j, path, n);

        while (!next && n > 0) {
            do {
                n--;
            } while (n > 0 && path[n] != '.');
            next = n > 0 ? said_entry(j, path, n) : NULL;
        }
        path += n + (path[n] == '.');
        j = next;
    }
    return j;
}

json_t *said_find(json_t *root, const char *prefix, const char *path)
{
    char all[MAX_PATH_BYTES + 1];
    const int n = snprintf(all, sizeof all, "%s%s%s", prefix, *prefix && *path ? "." : "", path);

    return n >= 0 && (size_t)n < sizeof all ? said_walk(root, all) : NULL;
}

bool said_any(json_t *root, const char *prefix)
{
    const size_t n = strlen(prefix);
    const char *key;
    json_t *value;

    if (!root || !*prefix || said_walk(root, prefix))
        return root != NULL;
    json_object_foreach(root, key, value)
    {
        if (strncmp(key, prefix, n) == 0 && key[n] == '.')
            return true;
    }
    return false;
}
