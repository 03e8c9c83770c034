/* SPDX-License-Identifier: Apache-2.0 */
/* A pattern is split at its first "**".  The part before must match a beginning of the path; the
 * rest is tried at every position from there on, in the same way.  The depth of the recursion is the
 * number of "**" in the pattern, which is the user's own. */
#include <zf/base/glob.h>

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

bool zf_glob_is_pattern(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

/* The first "**" that is not escaped, or NULL. */
static const char *glob_double(const char *p)
{
    for (; *p; p++)
        if (p[0] == '\\' && p[1])
            p++;
        else if (p[0] == '*' && p[1] == '*')
            return p;
    return NULL;
}

/* Does head[n_head] match the first n bytes of path? */
static bool glob_head(const char *head, size_t n_head, const char *path, size_t n)
{
    char *pattern = strndup(head, n_head), *part = strndup(path, n);
    bool fits = pattern && part && fnmatch(pattern, part, FNM_PATHNAME) == 0;

    free(pattern);
    free(part);
    return fits;
}

/* Does the part after a "**" match from any position at or after byte n of the path? */
static bool glob_rest(const char *rest, const char *path, size_t n)
{
    bool fits = *rest == '/' && (n == 0 || path[n - 1] == '/') && zf_glob_match(rest + 1, path + n);

    for (size_t at = n; !fits; at++) {
        fits = zf_glob_match(rest, path + at);
        if (!path[at])
            break;
    }
    return fits;
}

bool zf_glob_match(const char *pattern, const char *path)
{
    const char *two = glob_double(pattern);

    if (!two)
        return fnmatch(pattern, path, FNM_PATHNAME) == 0;
    const char *rest = two + strspn(two, "*");
    size_t n_head = (size_t)(two - pattern), len = strlen(path);

    /* Without a wildcard before the "**", which is usual, there is only one position to try. */
    if (strcspn(pattern, "*?[\\") == n_head)
        return strncmp(pattern, path, n_head) == 0 && glob_rest(rest, path, n_head);
    for (size_t n = 0; n <= len; n++)
        if (glob_head(pattern, n_head, path, n) && glob_rest(rest, path, n))
            return true;
    return false;
}
