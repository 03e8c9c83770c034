/* SPDX-License-Identifier: Apache-2.0 */
#include "foreign.h"

#include <stdio.h>
#include <string.h>

/* Words of fstab(5), mount(8), systemd and mount.fuse3(8) that mean nothing to a read-only view
 * which is cached anyway; a "=" means any value. */
static const char foreign_words[] =
    " ro defaults auto noauto user user= nouser users nousers owner noowner group nogroup _netdev"
    " nofail comment= helper= uhelper= exec noexec suid nosuid dev nodev atime noatime relatime"
    " norelatime strictatime nostrictatime diratime nodiratime lazytime nolazytime async sync"
    " dirsync iversion noiversion mand nomand symfollow loud silent default_permissions"
    " kernel_cache auto_cache noauto_cache ac_attr_timeout= negative_timeout= noforget remember="
    " use_ino readdir_ino async_read sync_read big_writes large_read hard_remove clone_fd"
    " max_idle_threads= ";

bool foreign_ignored(const char *word)
{
    char key[64];
    int n = (int)(strcspn(word, "=") + (strchr(word, '=') != NULL));

    return strncmp(word, "x-", 2) == 0 || strncmp(word, "X-", 2) == 0 ||
           (!strchr(word, ' ') && (size_t)n < sizeof key - 2 &&
            snprintf(key, sizeof key, " %.*s ", n, word) > 0 && strstr(foreign_words, key));
}

/* Words that mount(8) knows and a view of a checkpoint cannot follow. */
static const struct {
    const char *word, *why;
} foreign_no[] = {
    {"rw", "a view of a checkpoint is read-only"},
    {"remount", "the options of a mount stay as they are; unmount it and mount it again"},
};

const char *foreign_refused(const char *word)
{
    for (size_t i = 0; i < sizeof foreign_no / sizeof foreign_no[0]; i++) {
        if (strcmp(word, foreign_no[i].word) == 0) {
            return foreign_no[i].why;
        }
    }
    return NULL;
}
