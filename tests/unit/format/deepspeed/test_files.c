/* SPDX-License-Identifier: Apache-2.0 */
/* Which names DeepSpeed gives to its files, and which only look like them. */
#include "support/unit.h"

#include "src/format/deepspeed/steps.h"

static void its_own(void **state)
{
    static const char *const names[] = {
        "mp_rank_00_model_states.pt",
        "mp_rank_123_model_states.pt",
        "mp_rank_00_model_states.pt-1.2",
        "zero_pp_rank_0_mp_rank_00_model_states.pt",
        "zero_pp_rank_1_mp_rank_00_optim_states.pt",
        "zero_pp_rank_1_mp_rank_00optim_states.pt",
        "bf16_zero_pp_rank_11_mp_rank_02_optim_states.pt",
        "fp16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!ds_dir_owns(names[i]))
            fail_msg("%s", names[i]);
}

/* Without a number, with one that no rank has, with something behind it. */
static void another_tools(void **state)
{
    static const char *const names[] = {
        "mp_rank__model_states.pt",
        "mp_rank_x_model_states.pt",
        "mp_rank_-1_model_states.pt",
        "mp_rank_2147483648_model_states.pt",
        "mp_rank_18446744073709551616_model_states.pt",
        "mp_rank_00_model_states.pt.bak",
        "mp_rank_00_model_states.pt-",
        "mp_rank_00_model_states.pt-1.",
        "mp_rank_00_model_states.pt-.2",
        "mp_rank_00_model_states.pt-1.2x",
        "zero_pp_rank__mp_rank_00_model_states.pt",
        "zero_pp_rank_0_mp_rank__optim_states.pt",
        "zero_pp_rank_0_mp_rank_00_optim_state.pt",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (ds_dir_owns(names[i]))
            fail_msg("%s", names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_own),
        cmocka_unit_test(another_tools),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
