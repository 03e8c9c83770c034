/* SPDX-License-Identifier: Apache-2.0 */
/* The INI files of AWS' tools, ~/.aws/config and ~/.aws/credentials, read as botocore reads them: by the
 * rules of Python's RawConfigParser.  Sentences about them name lines and never say what is in one: it may be
 * a secret. */
#ifndef ZF_REMOTE_INI_H
#define ZF_REMOTE_INI_H

#include <zf/base/err.h>
#include <zf/base/vec.h>

#define INI_BYTES (1u << 20) /* of one file */
#define INI_LINES 10000u     /* sections, and options: each is compared with all before it */

struct ini_option {
    size_t section;
    char *name;  /* lower case */
    char *value; /* lines that go on are joined by '\n'; a value that begins with one is nested */
};

struct ini {
    zf_vec(char *) section; /* names as written; owned */
    zf_vec(struct ini_option) option;
};

/* Reads p[n].  Errors: ZF_E_FORMAT with byte and line; ZF_E_LIMIT INI_BYTES, INI_LINES;
 * ZF_E_NOMEM. */
bool ini_parse(struct ini *out, const char *p, size_t n, struct zf_err *err) ZF_CHECKED;

/* Wipes what it held. */
void ini_fini(struct ini *ini);

static inline void zf_auto_ini(struct ini *ini)
{
    ini_fini(ini);
}

#define INI_NONE ((size_t)-1)

/* The section of this name, or INI_NONE. */
size_t ini_section(const struct ini *ini, const char *name);

/* The last section whose header is two words, `kind` and `name`, as a shell would split them: [profile a]
 * and [profile "a"].  INI_NONE: none. */
size_t ini_section_of(const struct ini *ini, const char *kind, const char *name);

/* The value in that section, or what [DEFAULT] says for all of them; NULL: neither.  Lends. */
const char *ini_get(const struct ini *ini, size_t section, const char *option);

/* In a nested value, "\nendpoint_url = http://x\n…": the value of that name, malloc'ed; NULL: not
 * there (or no memory, which the next allocation reports). */
char *ini_nested(const char *value, const char *name);

#endif
