/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/late.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void zf_late_load(struct zf_late *l, const struct zf_late_name *name, size_t n)
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
