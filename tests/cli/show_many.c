/* SPDX-License-Identifier: Apache-2.0 */
/* show_many CKPT: what `zerofs show --json CKPT LINE' does for each line of standard input, in one process.  A line of output for
 * each: the JSON, or "exit CODE" where it is refused. */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/options.h"

int main(int argc, char **argv)
{
    zf_auto(opts) struct opts o = opts_default();
    struct zf_err err;
    char line[4096];

    o.json = true;
    if (!opts_finish(&o, &err))
        return cmd_fail(&err);
    while (argc == 2 && fgets(line, sizeof line, stdin)) {
        char *word[] = {argv[1], line};

        line[strcspn(line, "\n")] = '\0';
        const int code = cmd_show(&o, 2, word);
        if (code != EXIT_OK)
            (void)printf("exit %d\n", code);
    }
    return argc == 2 ? EXIT_OK : EXIT_USAGE;
}
