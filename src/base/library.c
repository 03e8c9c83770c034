/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/library.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void zf_library_load(struct zf_library *l, const struct zf_library_symbol *name, size_t n)
{
    void *lib = dlopen(l->soname, RTLD_NOW | RTLD_LOCAL);

    if (!lib) {
        const char *said = dlerror();

        (void)snprintf(l->why, sizeof l->why, "%s", said ? said : l->soname);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        void *at = dlsym(lib, name[i].name);

        if (!at) {
            (void)snprintf(l->why, sizeof l->why, "%s has no %s", l->soname, name[i].name);
            return;
        }
        memcpy(name[i].at, &at, sizeof at); /* ISO C knows no cast from an object to a function */
    }
}
