/* SPDX-License-Identifier: Apache-2.0 */
/* Classifies globals: those that checkpoint writers use, and those that can do harm.  Tables decide; what is left of
 * Python's own modules counts as harmful. */
#include <zf/codec/code.h>

#include <string.h>

struct class_row {
    const char *module, *names;
};

static const struct class_row class_known[] = {
#define KNOWN(module, names) {module, names},
#include "known.def"
#undef KNOWN
};

static const struct class_row class_denied[] = {
#define DENY(module, names) {module, names},
#include "deny.def"
#undef DENY
};

static const char *const class_top[] = {
#define TOP(module) module,
#include "top.def"
#undef TOP
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

const char *zf_code_class_name(enum zf_code_class c)
{
    static const char *const name[ZF_CODE_CLASSES] = {"known", "foreign", "dangerous"};

    return name[c];
}

/* Is the name in a list separated by blanks? */
static bool class_has(const char *names, const char *name)
{
    const size_t n = strlen(name);

    for (const char *p = names; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == n && memcmp(p, name, n) == 0)
            return true;
    return false;
}

/* Is the name in CapWords, with or without leading underscores? */
static bool class_is_class(const char *name)
{
    name += strspn(name, "_");
    return *name >= 'A' && *name <= 'Z';
}

/* The Python 3 name of a module: protocols up to 2 use Python 2's names. */
static const char *class_module(const char *module)
{
    return strcmp(module, "__builtin__") == 0 ? "builtins"
           : strcmp(module, "copy_reg") == 0  ? "copyreg"
                                              : module;
}

static bool class_ends(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

/* True for dtypes (torch.float8_e5m2), torch.FloatStorage …, classes of torch.nn.modules and torch.optim. */
static bool class_is_torch(const char *module, const char *name)
{
    static const char *const type[] = {"float",   "bfloat", "int",   "uint",
                                       "complex", "qint",   "quint", "bits"};

    if (strncmp(module, "torch.nn.modules.", 17) == 0 || strncmp(module, "torch.optim.", 12) == 0)
        return class_is_class(name);
    if (strcmp(module, "torch") != 0)
        return false;
    for (size_t i = 0; i < COUNT(type); i++) {
        const size_t n = strlen(type[i]);

        if (strncmp(name, type[i], n) == 0 && name[n] >= '0' && name[n] <= '9')
            return true;
    }
    static const char other[] = "bool half float double short int long cfloat cdouble chalf";

    return class_has(other, name) || (class_is_class(name) && class_ends(name, "Storage"));
}

static bool class_is_known(const char *module, const char *name)
{
    for (size_t i = 0; i < COUNT(class_known); i++) {
        const struct class_row *row = &class_known[i];

        if (strcmp(row->module, module) == 0 &&
            (strcmp(row->names, "^") == 0 ? class_is_class(name) : class_has(row->names, name)))
            return true;
    }
    return class_is_torch(module, name);
}

static bool class_is_denied(const char *module, const char *name)
{
    const size_t top = strcspn(module, ".");

    if (module[0] == '_' && module[1] != '_')
        return true;
    for (size_t i = 0; i < COUNT(class_top); i++)
        if (strlen(class_top[i]) == top && memcmp(class_top[i], module, top) == 0)
            return true;
    for (size_t i = 0; i < COUNT(class_denied); i++) {
        const struct class_row *row = &class_denied[i];
        const size_t n = strlen(row->module);
        const bool at = strcmp(row->module, module) == 0;

        if (*row->names ? at && class_has(row->names, name)
                        : at || (strncmp(row->module, module, n) == 0 && module[n] == '.'))
            return true;
    }
    return false;
}

/* A name with a dot is looked up step by step, so it can reach other modules: "os.system" of a module that imports
 * os. */
static bool class_is_odd(const char *text, bool dots)
{
    if (!*text || strlen(text) >= ZF_CODE_NAME)
        return true;
    for (; *text; text++)
        if ((uint8_t)*text <= ' ' || *text == 0x7f || (*text == '.' && !dots))
            return true;
    return false;
}

enum zf_code_class zf_code_class(const struct zf_code_use *u)
{
    const char *module = class_module(u->module);

    return u->computed || class_is_odd(u->name, false) || class_is_odd(module, true)
               ? ZF_CODE_DANGER
           : u->attributes || class_is_known(module, u->name) ? ZF_CODE_KNOWN
           : class_is_denied(module, u->name)                 ? ZF_CODE_DANGER
                                                              : ZF_CODE_FOREIGN;
}
