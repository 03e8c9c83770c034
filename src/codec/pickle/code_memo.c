/* SPDX-License-Identifier: Apache-2.0 */
/* The memo: an array for consecutive numbers, as picklers write them, and a hash table for others. */
#include "code_vm.h"

/* Parses a number as Python's int(), which accepts more than picklers write: blanks, a sign, underscores
 * between digits. */
static bool code_memo_number(const char *p, uint64_t n, uint64_t *out)
{
    char digits[20];
    uint64_t k = 0;

    while (n > 0 && (p[n - 1] == ' ' || (p[n - 1] >= '\t' && p[n - 1] <= '\r')))
        n--;
    while (n > 0 && (*p == ' ' || (*p >= '\t' && *p <= '\r'))) {
        p++;
        n--;
    }
    for (uint64_t i = n > 0 && *p == '+'; i < n; i++) {
        const bool leading = k == 1 && digits[0] == '0';

        if (p[i] != '_') {
            k -= leading;
            if (k == sizeof digits)
                return false;
            digits[k++] = p[i];
        }
    }
    return code_text_key(digits, k, out);
}

bool code_memo_put(struct code_vm *vm, uint64_t key, uint64_t word)
{
    if (key < 2 * vm->in.at + 1024) {
        if (key >= vm->memo.n) {
            const size_t more = (size_t)(key + 1 - vm->memo.n);

            if (!zf_vec_room(&vm->memo, more, vm->err))
                return false;
            memset(&vm->memo.at[vm->memo.n], 0, more * sizeof *vm->memo.at);
            vm->memo.n += more;
        }
        vm->n_memo += vm->memo.at[key] == 0;
        vm->memo.at[key] = word;
        return true;
    }
    struct code_far *e = zf_table_make_id(vm->far, key, vm->err);
    if (e) {
        vm->n_memo += e->word == 0;
        e->word = word;
    }
    return e != NULL;
}

/* Looks in both, because a number that went into the table may be within the array now. */
bool code_memo_get(struct code_vm *vm, uint64_t key, uint64_t *word)
{
    const uint64_t near = key < vm->memo.n ? vm->memo.at[key] : 0;
    const struct code_far *e = near ? NULL : zf_table_find_id(vm->far, key);

    *word = near ? near : e ? e->word : vm->odd_put ? code_word(CODE_UNKNOWN, 0) : 0;
    return *word || code_ends(vm, ZF_E_FORMAT, "the memo has no such entry");
}

bool code_memo_text(struct code_vm *vm, uint64_t word, bool put, uint64_t *out)
{
    uint64_t key;
    const bool known = code_memo_number(vm->text, vm->n, &key);

    *out = known || put ? word : code_word(CODE_UNKNOWN, 0);
    if (!known) {
        vm->odd_put = vm->odd_put || put;
        return true;
    }
    return put ? code_memo_put(vm, key, word) : code_memo_get(vm, key, out);
}
