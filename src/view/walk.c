/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up a path in a tree, component by component, without the kernel. */
#include <string.h>

#include <zf/tree.h>

bool zf_tree_walk(struct zf_tree *t, const char *path, struct zf_stat *out)
{
    if (!t->ops->stat(t, ZF_TREE_ROOT, out))
        return false;
    for (;;) {
        char name[256];

        path += strspn(path, "/");
        size_t n = strcspn(path, "/");
        if (n == 0)
            return true;
        if (n >= sizeof name || out->kind != ZF_NODE_DIR)
            return false;
        memcpy(name, path, n);
        name[n] = '\0';
        if (!t->ops->lookup(t, out->ino, name, out))
            return false;
        path += n;
    }
}
