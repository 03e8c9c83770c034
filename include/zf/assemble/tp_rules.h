/* SPDX-License-Identifier: Apache-2.0 */
/* A user's rules for joining tensor-parallel ranks (-o tp_rules=FILE), one per line:
 *
 *     <regular expression> <dimension> | replicated | sub:<n>
 *
 * The expression has the syntax of zf/base/pattern.h and matches the whole name; "sub:3" is three sub-parameters of
 * equal width along dimension 0, "sub:3:1" along dimension 1.  '#' begins a comment. */
#ifndef ZF_ASSEMBLE_TP_RULES_H
#define ZF_ASSEMBLE_TP_RULES_H

#include <zf/assemble/cut.h>

struct zf_tp_rules;

/* Reads a file of rules.  Errors: ZF_E_USAGE the file cannot be read, or a line (the message has its number) is
 * invalid; ZF_E_LIMIT too many rules. */
struct zf_tp_rules *zf_tp_rules_load(const char *path, struct zf_err *err) ZF_CHECKED;
/* The same for text[n]; messages call it `name`. */
struct zf_tp_rules *zf_tp_rules_parse(const char *text, size_t n, const char *name,
                                      struct zf_err *err) ZF_CHECKED;
void zf_tp_rules_free(struct zf_tp_rules *r); /* NULL is fine */
static inline void zf_auto_tp_rules(struct zf_tp_rules **r)
{
    zf_tp_rules_free(*r);
}

/* Finds the rule for a name.  Errors: ZF_E_FORMAT no rule matches, or rules that match contradict each other. */
bool zf_tp_rules_find(const struct zf_tp_rules *r, const char *name, size_t n,
                      struct zf_cut_rule *out, struct zf_err *err) ZF_CHECKED;

#endif
