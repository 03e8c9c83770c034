/* SPDX-License-Identifier: Apache-2.0 */
/* mount.zerofs and mount.fuse.zerofs, as mount(8) runs them: SRC MNT [-sfnv] [-N ns] [-t type] [-o
 * list]. */
#include <stdio.h>
#include <unistd.h>

#include "mount.h"

/* mount(8), "EXIT STATUS". */
enum { MOUNT_OK = 0, MOUNT_USAGE = 1, MOUNT_SYSTEM = 2, MOUNT_FAILED = 32 };

int cmd_mount_helper(int argc, char **argv)
{
    const struct cmd *mount = cmd_find("mount");
    bool fake = false;
    char *list = NULL;
    int c;

    while ((c = getopt(argc, argv, "sfnvN:t:o:")) != -1) {
        if (c == 'f') {
            fake = true;
        } else if (c == 'o') {
            list = optarg;
        } else if (c == '?') {
            return MOUNT_USAGE;
        }
    }
    if (argc - optind != 2) {
        (void)fprintf(stderr, "%s: needs a checkpoint and a mount point\n", argv[0]);
        return MOUNT_USAGE;
    }
    /* The same words again, so that one parser knows the options. */
    char *words[] = {(char *)mount->name,
                     list ? (char *)"-o" : (char *)"--",
                     list ? list : argv[optind],
                     list ? argv[optind] : argv[optind + 1],
                     list ? argv[optind + 1] : NULL,
                     NULL};
    if (fake) {
        return MOUNT_OK;
    }
    int code = mount->run(mount, list ? 5 : 4, words);
    return code == EXIT_OK ? MOUNT_OK : code == EXIT_USAGE ? MOUNT_USAGE : MOUNT_FAILED;
}
